"""mem0: its local store (Qdrant on disk) and what `get_all` and its exports write as JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from memkit.errors import InvalidInput
from memkit_migrate.moving import Foreign, Unreadable, key_of, moment, text_in
from memkit_migrate.pickled import NotPlain, read

Found = Iterator[Foreign | Unreadable]

_OWN = frozenset(
    {
        "data",
        "memory",
        "text",
        "content",
        "id",
        "hash",
        "user_id",
        "agent_id",
        "run_id",
        "actor_id",
        "created_at",
        "updated_at",
        "metadata",
        "score",
        "text_lemmatized",
        "attributed_to",
    }
)


def from_mem0(path: str | Path, *, user_id: str | None = None) -> Found:
    """path: the folder of the store (`~/.mem0`, the `path` of its Qdrant, or `storage.sqlite`), or a JSON export.
    user_id: whose memories those are that name nobody."""
    place = Path(path).expanduser()
    if place.is_dir() or place.suffix == ".sqlite":
        return _stored(place, user_id)
    return _exported(place, user_id)


def _stored(place: Path, user_id: str | None) -> Found:
    # mem0 keeps collections of its own beside the memories: migrations, and entities with links to memories
    files = [place] if place.is_file() else sorted(place.rglob("storage.sqlite"))
    files = [
        file for file in files if file.parent.name != "mem0_migrations" and not file.parent.name.endswith("_entities")
    ]
    if not files:
        raise InvalidInput(
            f"{place} holds no Qdrant storage",
            why="mem0's local store has collection/NAME/storage.sqlite",
            fix="pass the `path` of its vector store, or a JSON file with what get_all() returns",
        )
    for file in files:
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
                for number, (raw,) in enumerate(database.execute("SELECT point FROM points"), start=1):
                    yield _point(raw, user_id, f"{file.parent.name} point {number}")
        except sqlite3.DatabaseError as error:
            raise InvalidInput(
                f"{file} is no Qdrant storage",
                why=str(error),
                fix="pass the folder of mem0's vector store as it was written, or a JSON export",
            ) from None


def _point(raw: Any, user_id: str | None, where: str) -> Foreign | Unreadable:
    try:
        point = read(raw)
        payload, key = point["payload"], str(point["id"])
    except (NotPlain, KeyError, TypeError, ValueError) as error:
        return Unreadable(where, f"it cannot be read ({error})")
    if not isinstance(payload, Mapping):
        return Unreadable(where, "it has no payload")
    return _memory(payload, key, user_id, where)


def _exported(place: Path, user_id: str | None) -> Found:
    try:
        raw = json.loads(place.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidInput(f"cannot read {place}", why=str(error.strerror), fix="pass a folder or a file") from None
    except (ValueError, RecursionError):  # also what is not UTF-8, and what is nested without end
        raise InvalidInput(f"{place} is not JSON", fix="write json.dumps(memory.get_all(...)) to a file") from None
    if isinstance(raw, Mapping):
        raw = next((raw[name] for name in ("results", "memories", "data") if isinstance(raw.get(name), list)), None)
    if not isinstance(raw, list):
        raise InvalidInput(f"{place} holds no list of memories", fix='it should look like {"results": [{"memory": …}]}')
    for number, item in enumerate(raw, start=1):
        where = f"memory {number}"
        if isinstance(item, Mapping):
            yield _memory(item, str(item.get("id") or ""), user_id, where)
        else:
            yield Unreadable(where, "it is no object")


def _memory(payload: Mapping[str, Any], key: str, user_id: str | None, where: str) -> Foreign | Unreadable:
    own = payload.get("metadata")
    merged = {**(own if isinstance(own, Mapping) else {}), **{k: v for k, v in payload.items() if k not in _OWN}}
    text = next((found for name in ("data", "memory", "text", "content") if (found := text_in(payload.get(name)))), "")
    owner = payload.get("user_id") or user_id
    if not text:
        return Unreadable(where, "it has no text")
    if not isinstance(owner, str):
        return Unreadable(where, "it names no user; say whose it is with user_id= (--user)")
    return Foreign(
        text=text,
        user_id=owner,
        key=key_of("mem0", key or text),
        agent_id=_id(payload.get("agent_id")),
        session_id=_id(payload.get("run_id")),
        speaker=_id(payload.get("actor_id")),
        at=moment(payload.get("updated_at")) or moment(payload.get("created_at")),
        metadata={name: value for name, value in merged.items() if value is not None},
        where=where,
    )


def _id(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
