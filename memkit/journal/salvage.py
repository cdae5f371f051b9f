"""What can still be read of a damaged journal, row by row, as a sound file of the same tables.

SQLite refuses a page that is damaged, and of its log all that comes after the first damaged frame. Here a table is read
past what cannot be, and the log's checksums are made anew first: what was damaged in it is found out by the rows' own
checksums."""

# ruff: noqa: S608 - statements are put together from constants of this package

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memkit.errors import MemkitError
from memkit.journal.codec import crc, turn_crc, unpack, unpack_text
from memkit.journal.schema import TABLES
from memkit.models import digest

Row = tuple[Any, ...]
_NUMBERED: Mapping[str, tuple[str, int]] = {
    "banks": ("id", 0),
    "intakes": ("n", 0),
    "turns": ("intake", 0),
    "ops": ("seq", 0),
    "decisions": ("n", 0),
    "decision_blobs": ("decision", 0),
    "traces": ("n", 0),
    "feedback": ("n", 0),
    "erasures": ("n", 0),
}
"""Table → the number that it is ordered by, and its place in a row. What is not named here is read from both ends."""
_OTHERS = ("blobs", "optouts")
_TOP = 2**53


def salvage(source: Path, target: Path) -> None:
    """`target`: a new file. Nothing beside `source` is written."""
    copy = target.with_name(f"{target.name}.damaged")
    shutil.copyfile(source, copy)
    log = Path(f"{source}-wal")
    if log.is_file():
        Path(f"{copy}-wal").write_bytes(_mended(log.read_bytes()))
    closing = contextlib.closing
    with closing(sqlite3.connect(copy)) as damaged, closing(sqlite3.connect(target, isolation_level=None)) as made:
        made.execute("BEGIN")
        for statement in TABLES:
            made.execute(statement)
        for table in (*_NUMBERED, *_OTHERS):
            for row in _read(damaged, table):
                if _is_whole(table, row):
                    with contextlib.suppress(sqlite3.Error):  # the second copy of a row, or one of an impossible key
                        made.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        for statement in _CONCLUSIONS:
            made.execute(statement)
        made.execute("COMMIT")


_CONCLUSIONS = (
    # what was decided, and lost some of what came of it, is to be decided again
    "UPDATE intakes SET status = 0, claimed_by = NULL WHERE status = 1 AND seq_first IS NOT NULL AND"
    " (seq_first NOT IN (SELECT seq FROM ops) OR seq_last NOT IN (SELECT seq FROM ops))",
    "UPDATE ops SET intake = NULL WHERE intake NOT IN (SELECT n FROM intakes)",
    "DELETE FROM ops WHERE image = '' AND before_seq NOT IN (SELECT seq FROM ops WHERE image <> '')",
    "DELETE FROM ops WHERE before_seq IS NOT NULL AND before_seq NOT IN (SELECT seq FROM ops WHERE image <> '')",
)


# -- tables ------------------------------------------------------------------------------------------------------------


def _read(db: sqlite3.Connection, table: str) -> Iterator[Row]:
    if table in _NUMBERED:
        yield from _by_number(db, table, *_NUMBERED[table])
        return
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            yield from db.execute(f"SELECT * FROM {table} ORDER BY 1 {order}")


def _by_number(db: sqlite3.Connection, table: str, key: str, place: int) -> Iterator[Row]:
    """On what cannot be read: further steps ahead each time, and from where it goes on, back to where it ended."""
    low, step = 0, 0
    while low + step < _TOP:
        try:
            for row in db.execute(f"SELECT * FROM {table} NOT INDEXED WHERE {key} >= ? ORDER BY {key}", (low + step,)):
                if step:
                    yield from _back(db, table, key, low, row[place])
                    step = 0
                yield row
                low = row[place]
        except (sqlite3.Error, OverflowError, TypeError):
            step = max(1, 2 * step)
        else:
            if step:
                yield from _back(db, table, key, low, _TOP)
            return
    yield from _back(db, table, key, low, _TOP)


def _back(db: sqlite3.Connection, table: str, key: str, low: int, high: int) -> Iterator[Row]:
    where = f"{key} > ? AND {key} < ?"
    with contextlib.suppress(sqlite3.Error):
        yield from db.execute(f"SELECT * FROM {table} NOT INDEXED WHERE {where} ORDER BY {key} DESC", (low, high))


def _is_whole(table: str, row: Row) -> bool:
    try:
        return _CHECKS[table](row) if table in _CHECKS else True
    except (MemkitError, ValueError, TypeError, IndexError, AttributeError, sqlite3.Error):
        return False


def _op_is_whole(row: Row) -> bool:
    memory, at, image, key, checksum = row[4], row[7], row[14], row[15], row[16]
    return not image or checksum == crc(memory, image, key, at)


_CHECKS: Mapping[str, Callable[[Row], bool]] = {
    "turns": lambda row: row[13] == turn_crc(row[2], row[6], row[7], row[11]),
    "ops": _op_is_whole,
    "decisions": lambda row: not row[6] or unpack(row[6], "") is not None,
    "traces": lambda row: unpack(row[5], "") is not None,
    "blobs": lambda row: digest(unpack_text(row[1], "")) == row[0].hex(),
}


# -- the log -----------------------------------------------------------------------------------------------------------

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_BIG_ENDIAN = 1


def _mended(log: bytes) -> bytes:
    """The log with every checksum made anew, up to the first frame that is of an earlier log."""
    if len(log) < _HEADER.size:
        return b""
    magic, version, size, sequence, *salts, _, _ = _HEADER.unpack_from(log)
    if size < 512 or size & (size - 1):
        return b""
    order = ">" if magic & _BIG_ENDIAN else "<"
    head = struct.pack(">6I", magic, version, size, sequence, *salts)
    sums = _sums(head, (0, 0), order)
    out, at = [head, struct.pack(">2I", *sums)], _HEADER.size
    while at + _FRAME.size + size <= len(log):
        number, pages, *rest = _FRAME.unpack_from(log, at)
        if rest[:2] != salts:
            break
        front, page = struct.pack(">2I", number, pages), log[at + _FRAME.size : at + _FRAME.size + size]
        sums = _sums(front + page, sums, order)
        out += [front, struct.pack(">4I", *salts, *sums), page]
        at += _FRAME.size + size
    return b"".join(out)


def _sums(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
