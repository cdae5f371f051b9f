"""Export and import: JSON lines, one record each, lossless, in the order in which they happened.

A file starts with a header line and ends with a footer that counts the lines; a file that was cut short, or holds a
field that no store could have written, is refused before anything is written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memkit.errors import InvalidInput, NewerFormat, StoreFull
from memkit.journal.incoming import Incoming
from memkit.journal.untorn import Untorn
from memkit.models import JSON, to_json
from memkit.results import Imported

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime

FORMAT = 2
"""2: with the words of turns (kind `turn`)."""
_MAX_LINE = 64 * 1024 * 1024
_REPAIR = "export the file again; where it was edited, set this field right"


def export(runtime: Runtime, path: Path, user_id: str | None) -> int:
    """Written aside and renamed, so that a file under this name is always whole. The name aside is of this call alone:
    another may be exporting to the same path."""
    refuse_inside(runtime.path, path)
    if path.exists() and not path.is_file():
        raise InvalidInput(
            f"cannot write {path}", why="it is a folder, a pipe or a device", fix="name a file, new or not"
        )
    runtime.traces.flush()
    aside = path.parent / f".memkit-{secrets.token_hex(8)}.part"
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


def refuse_inside(store: Path, path: Path) -> None:
    """Folders are compared as the file system knows them: there are links, mounts and names in other cases."""
    folder = path.parent.resolve()
    for one in (folder / path.name, folder, *folder.parents):
        with contextlib.suppress(OSError):
            if one.samefile(store):
                raise InvalidInput(
                    f"{path} lies inside the store",
                    why="a file there could replace the store's own files",
                    fix="name a path outside of the store's folder",
                )


def _write(runtime: Runtime, path: Path, user_id: str | None) -> int:
    count = 0
    with path.open("x", encoding="utf-8") as file:
        header = {"memkit_export": FORMAT, "store_id": runtime.journal.store_id, "user_id": user_id}
        file.write(to_json(header) + "\n")
        with contextlib.closing(runtime.journal.dump(user_id)) as records:  # a full disk must not leave it open
            for record in records:
                file.write(to_json(record) + "\n")
                count += 1
        file.write(to_json({"memkit_end": count}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return count


def import_(runtime: Runtime, path: Path, *, drop_dangling: bool = False) -> Imported:
    """Two passes: the first checks every line, the second writes. Records that the store already has are skipped."""
    check(path)
    untorn, records = Untorn(), (record for _, record in _records(path))
    count = runtime.journal.load(filter(untorn.keeps, records) if drop_dangling else records)
    for user_id in runtime.journal.users():
        runtime.reader.forget(user_id.user_id)
    if count:
        runtime.projector.notice(count)
    return Imported(count, untorn.dropped)


def check(path: Path, *, drop_dangling: bool = False) -> Imported:
    """Raise what is wrong with a file that is to be imported; or tell how many records would be read."""
    incoming, untorn, count = Incoming(), Untorn(), 0
    for number, record in _records(path):
        try:
            incoming.check(record)
        except InvalidInput as error:
            what = f"line {number} of {path}: {error.what}"
            raise type(error)(what, why=error.why, fix=_REPAIR, line=number) from None
        count += not drop_dangling or untorn.keeps(record)
    return Imported(count, untorn.dropped)


def _records(path: Path) -> Iterator[tuple[int, JSON]]:
    """Each with the number of its line."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path}", why=str(error.strerror), fix="pass a file that export() wrote"
        ) from None
    with file:
        header = _line(file.readline(_MAX_LINE), 1, path)
        version = header.get("memkit_export")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise InvalidInput(
                f"{path} is no memkit export",
                why="its first line is not our header",
                fix="pass a file that `memkit export` wrote",
            )
        if version > FORMAT:
            raise NewerFormat(f"{path} has format {version}; this memkit reads up to {FORMAT}", fix="upgrade memkit")
        seen, number = 0, 1
        while raw := file.readline(_MAX_LINE):
            number += 1
            record = _line(raw, number, path)
            if "memkit_end" in record:
                if record["memkit_end"] != seen:
                    raise InvalidInput(
                        f"{path} holds {seen} records; its end says {str(record['memkit_end'])[:40]}",
                        fix="export it again",
                    )
                _refuse_more(file, number, path)
                return
            seen += 1
            yield number, record
        raise InvalidInput(
            f"{path} was cut short after {seen} records", why="its closing line is missing", fix="export it again"
        )


def _refuse_more(file: BinaryIO, number: int, path: Path) -> None:
    while raw := file.readline(_MAX_LINE):
        number += 1
        if raw.strip():
            raise InvalidInput(
                f"line {number} of {path} comes after its end",
                why="the closing line counts all that belongs to it",
                fix="export the file again, and import two files one by one",
            )


def _line(raw: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
        if b"\\u" in raw:  # the one way to write half of a character, which no store can hold
            to_json(record).encode("utf-8")
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise InvalidInput(f"line {number} of {path} is not a JSON object in UTF-8", fix="export the file again")
    return record
