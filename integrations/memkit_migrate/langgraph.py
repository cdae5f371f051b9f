"""LangGraph stores: the file of its SqliteStore, or any store object (PostgresStore, InMemoryStore)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from memkit.errors import InvalidInput
from memkit_migrate.moving import Foreign, Unreadable, key_of, moment, text_in, text_key

Found = Iterator[Foreign | Unreadable]

_PAGE = 500


def from_langgraph(source: Any, *, user_id: str | None = None, user_label: int = -1) -> Found:
    """source: the path of a SqliteStore, or a store. A namespace such as ("memories", "ana") names the user with its
    label number `user_label`, here the last; user_id says that all of it is one user's."""
    items = _in_file(Path(source).expanduser()) if isinstance(source, str | Path) else _in_store(source)
    for namespace, key, value, at in items:
        where = f"{'.'.join(namespace)}/{key}"
        try:
            owner = user_id or namespace[user_label]
        except IndexError:
            yield Unreadable(where, f"its namespace has no label {user_label}; pass user_label= or user_id=")
            continue
        text = text_in(value)
        if not text:
            yield Unreadable(where, "its value has no text")
            continue
        yield Foreign(
            text=text,
            user_id=owner,
            key=key_of("langgraph", json.dumps([*namespace, key])),
            at=moment(at),
            metadata={"namespace": list(namespace), "key": key} | _rest(value),
            where=where,
        )


def _rest(value: Any) -> dict[str, Any]:
    """What the value holds beside its text."""
    if not isinstance(value, Mapping):
        return {}
    key = text_key(value)
    rest = {str(name): one for name, one in value.items() if name != key}
    if key is not None and (inner := _rest(value[key])):
        rest[key] = inner
    return rest


def _in_file(path: Path) -> Iterator[tuple[Sequence[str], str, Any, Any]]:
    if not path.is_file():
        raise InvalidInput(f"{path} is no file", fix="pass the database file of the SqliteStore")
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        try:
            for prefix, key, value, at in database.execute(
                "SELECT prefix, key, value, updated_at FROM store ORDER BY prefix, key"
            ):
                yield str(prefix).split("."), str(key), _loaded(value), at
        except sqlite3.DatabaseError as error:
            raise InvalidInput(
                f"{path} is no LangGraph store", why=str(error), fix="pass the file that SqliteStore was given"
            ) from None


def _loaded(raw: Any) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, TypeError, RecursionError):
        return None


def _in_store(store: Any) -> Iterator[tuple[Sequence[str], str, Any, Any]]:
    if not callable(getattr(store, "search", None)) or not callable(getattr(store, "list_namespaces", None)):
        raise InvalidInput(f"{type(store).__name__} is no LangGraph store", fix="pass a BaseStore, or a path")
    seen_spaces = 0
    while namespaces := store.list_namespaces(limit=_PAGE, offset=seen_spaces):
        seen_spaces += len(namespaces)
        for namespace in namespaces:
            offset = 0
            while items := store.search(namespace, limit=_PAGE, offset=offset):
                offset += len(items)
                for item in items:
                    if tuple(item.namespace) == tuple(namespace):  # a search also finds what lies deeper
                        yield item.namespace, item.key, item.value, item.updated_at.isoformat()
