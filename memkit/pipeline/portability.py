"""Export and import: JSON lines, one record each, lossless, in the order in which they happened.

A file starts with a header line and ends with a footer that counts the lines; a file that was cut short is refused
before anything is written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.errors import InvalidInput, NewerFormat, StoreFull
from memkit.models import JSON, to_json

if TYPE_CHECKING:
    from memkit.pipeline.runtime import Runtime

FORMAT = 1
_MAX_LINE = 64 * 1024 * 1024


def export(runtime: Runtime, path: Path, user_id: str | None) -> int:
    """Written aside and renamed, so that a file under this name is always whole."""
    runtime.traces.flush()
    aside = path.with_name(path.name + ".part")
    try:
        count = _write(runtime, aside, user_id)
        aside.replace(path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"no space left for {path}", fix="free some space and export again") from None
        raise InvalidInput(
            f"cannot write {path}", why=str(error.strerror), fix="pass a file in a folder that can be written"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
    return count


def _write(runtime: Runtime, path: Path, user_id: str | None) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        header = {"memkit_export": FORMAT, "store_id": runtime.journal.store_id, "user_id": user_id}
        file.write(to_json(header) + "\n")
        for record in runtime.journal.dump(user_id):
            file.write(to_json(record) + "\n")
            count += 1
        file.write(to_json({"memkit_end": count}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return count


def import_(runtime: Runtime, path: Path) -> int:
    """Two passes: the first checks every line, the second writes. Records that the store already has are skipped."""
    check(path)
    count = runtime.journal.load(_records(path))
    for user_id in runtime.journal.users():
        runtime.reader.forget(user_id.user_id)
    if count:
        runtime.projector.noticed(count)
    return count


def check(path: Path) -> None:
    """Raise what is wrong with a file that is to be imported."""
    for _ in _records(path):
        pass


def _records(path: Path) -> Iterator[JSON]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path}", why=str(error.strerror), fix="pass a file that export() wrote"
        ) from None
    with file:
        header = _line(file.readline(_MAX_LINE), 1, path)
        version = header.get("memkit_export")
        if not isinstance(version, int):
            raise InvalidInput(
                f"{path} is no memkit export", why="its first line is not our header",
                fix="pass a file that `memkit export` wrote",
            )  # fmt: skip
        if version > FORMAT:
            raise NewerFormat(f"{path} has format {version}; this memkit reads up to {FORMAT}", fix="upgrade memkit")
        seen, number = 0, 1
        while raw := file.readline(_MAX_LINE):
            number += 1
            record = _line(raw, number, path)
            if "memkit_end" in record:
                if record["memkit_end"] != seen:
                    raise InvalidInput(f"{path} holds {seen} records; its end says {record['memkit_end']}")
                return
            seen += 1
            yield record
        raise InvalidInput(
            f"{path} was cut short after {seen} records", why="its closing line is missing", fix="export it again"
        )


def _line(raw: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise InvalidInput(f"line {number} of {path} is not a JSON object", fix="export the file again")
    return record
