"""Plain JSON lines: one object per line with `text` and, where known, user_id, agent_id, session_id, speaker, at,
metadata and id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from memkit.errors import InvalidInput
from memkit.inputs import has_surrogates
from memkit_migrate.moving import Foreign, Unreadable, key_of, moment, text_in

MAX_LINE = 1_000_000


def from_jsonl(path: str | Path, *, user_id: str | None = None) -> Iterator[Foreign | Unreadable]:
    place = Path(path).expanduser()
    try:
        file = place.open(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InvalidInput(f"cannot read {place}", why=str(error.strerror), fix="pass a file of JSON lines") from None
    with file:
        number = 0
        while raw := file.readline(MAX_LINE):
            number += 1
            if _goes_on(file, raw):
                yield Unreadable(f"line {number}", f"it is longer than {MAX_LINE:,} characters")
            elif raw.strip():
                yield _memory(raw, user_id, f"line {number}")


def _goes_on(file: TextIO, raw: str) -> bool:
    """Whether `raw` is only the beginning of its line; if so, the rest of the line is read past."""
    longer = False
    while len(raw) == MAX_LINE and not raw.endswith("\n") and (raw := file.readline(MAX_LINE)):
        longer = True
    return longer


def _memory(raw: str, user_id: str | None, where: str) -> Foreign | Unreadable:
    if has_surrogates(raw):
        return Unreadable(where, "it is not UTF-8")
    try:
        item: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return Unreadable(where, "it is not JSON")
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, Mapping):
        return Unreadable(where, "it is no object")
    text, owner = text_in(item), item.get("user_id") or user_id
    if not text:
        return Unreadable(where, "it has no text")
    if not isinstance(owner, str):
        return Unreadable(where, "it names no user; say whose it is with user_id= (--user)")
    metadata = item.get("metadata")
    key = item.get("id")
    return Foreign(
        text=text,
        user_id=owner,
        key=key_of("jsonl", str(key) if isinstance(key, str | int) else text),
        agent_id=_id(item.get("agent_id")),
        session_id=_id(item.get("session_id")),
        speaker=_id(item.get("speaker")),
        at=moment(item.get("at") or item.get("created_at")),
        metadata=metadata if isinstance(metadata, Mapping) else {},
        where=where,
    )


def _id(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
