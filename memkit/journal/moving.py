"""A store's rows, from one engine to another: every row as it is, under its own key.

`copy` makes the tables of one store those of another, whatever they hold by now: killed or repeated, it goes on where
it was. The source notes the keys of what changes meanwhile, and `follow` brings those rows up to date. A store that is
being filled says so (`ARRIVING`), and one that was left refuses to be written (`Engine.forbid_writes`): at no moment do
two stores take turns."""

# ruff: noqa: S608 - statements are put together from constants of this module; values travel as parameters

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memkit.errors import StoreDamaged, StoreMoved
from memkit.journal.codec import pack
from memkit.journal.engine import Engine, Row, Tx, moved_error
from memkit.journal.schema import KEYS
from memkit.models import JSON

ARRIVING, MOVED_TO = "arriving", "moved_to"
"""Keys of `meta`: the id of the store that is being moved here; where this store was moved to."""
_OWN = (ARRIVING, MOVED_TO, "format", "seq_floor")
"""What `meta` says of this database, and not of the store in it."""
_PAGE = 500
_PAYLOAD = 6
"""The column of `decisions` that is empty once it is sealed."""

Sealed = Callable[[Sequence[int]], Mapping[int, tuple[JSON, Mapping[str, str]]]]


@dataclass(slots=True)
class Changed:
    written: int = 0
    removed: int = 0


def copy(source: Engine, target: Engine, sealed: Sealed) -> Changed:
    """Make the target's rows those of the source. Decisions that were sealed beside the source come with what was
    sealed. What is gone or different goes first: no two rows ever claim one name."""
    found = Changed()
    for table, key in KEYS.items():
        for page in _pages(target, table, key):
            found.removed += _remove(target, table, key, _wrong(source, table, key, page))
        for page in _pages(source, table, key):
            found.written += _write(target, table, _missing(target, table, key, page))
    _fill(target, sealed)
    return found


def follow(source: Engine, target: Engine, sealed: Sealed) -> Changed:
    """The same for the rows alone whose keys the source noted since it was last asked (`Engine.log_changes`)."""
    found = Changed()
    for table, key in KEYS.items():
        with source.write((), durable=False) as tx:
            rows = tx.all(f"DELETE FROM changed_{table} RETURNING {', '.join(key)}")
        noted = sorted({row for row in rows if table != "meta" or row[0] not in _OWN})
        pages = [noted[at : at + _PAGE] for at in range(0, len(noted), _PAGE)]
        for page in pages:
            found.removed += _remove(target, table, key, _wrong(source, table, key, _rows(target, table, key, page)))
        for page in pages:
            found.written += _write(target, table, _missing(target, table, key, _rows(source, table, key, page)))
    _fill(target, sealed)
    return found


def _remove(target: Engine, table: str, key: Sequence[str], wrong: Sequence[Row]) -> int:
    if wrong:
        with target.write(durable=False) as tx:
            tx.many(f"DELETE FROM {table} WHERE {' AND '.join(f'{one} = ?' for one in key)}", wrong)
    return len(wrong)


def _write(target: Engine, table: str, rows: Sequence[Row]) -> int:
    """A row that claims a name of another one was read after the source changed both; both are noted there."""
    if rows:
        with target.write(durable=False) as tx:
            tx.many(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))}) ON CONFLICT DO NOTHING", rows)
    return len(rows)


def finish(source: Engine, target: Engine) -> None:
    """The target is a store from now on, and goes on with the source's numbers."""
    with source.read() as tx:
        newest, ours = tx.cursor(), _counts(tx)
    with target.write() as tx:
        tx.run("DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM decision_blobs)")
        theirs = _counts(tx)
        if ours != theirs:
            raise StoreDamaged(
                f"the copy has other rows than the store: {theirs} against {ours}",
                why="somebody else wrote to one of them",
                fix="run the same `memkit move` again",
            )
        tx.skip_to(newest)
        tx.run(
            "INSERT INTO meta VALUES ('seq_floor', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(newest),),
        )
        target.go_on_from_rows(tx)
        tx.run("DELETE FROM meta WHERE key = ?", (ARRIVING,))


def refuse_moved(engine: Engine, *, read_only: bool) -> None:
    """What was left may still be read, by whoever says so."""
    with engine.read(single=True) as tx:
        marks = dict(tx.all("SELECT key, value FROM meta WHERE key IN (?, ?)", (ARRIVING, MOVED_TO)))
    if ARRIVING in marks:
        raise StoreMoved(
            f"{engine.name} is not whole: a store is being moved there",
            why="the move goes on, or was interrupted",
            fix="wait for it, or run the same `memkit move` again",
        )
    if MOVED_TO in marks and not read_only:
        raise moved_error(engine.name, marks[MOVED_TO])


def read_mark(engine: Engine, key: str) -> str | None:
    with engine.read(single=True) as tx:
        row = tx.one("SELECT value FROM meta WHERE key = ?", (key,))
    return row[0] if row else None


def set_mark(tx: Tx, key: str, value: str) -> None:
    tx.run("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))


def is_empty(engine: Engine) -> bool:
    """Whether nobody opened this store yet."""
    with engine.read() as tx:
        return tx.one("SELECT 1 FROM banks") is None and tx.one("SELECT 1 FROM meta WHERE key LIKE 'app.%'") is None


def _pages(engine: Engine, table: str, key: Sequence[str]) -> Iterator[list[Row]]:
    names, width = ", ".join(key), len(key)
    after: tuple[Any, ...] = ()
    while True:
        place = f" WHERE ({names}) > ({','.join('?' * width)})" if after else ""
        with engine.read(single=True) as tx:
            page = tx.all(f"SELECT * FROM {table}{place} ORDER BY {names} LIMIT {_PAGE}", after)
        if not page:
            return
        after = page[-1][:width]
        rows = [row for row in page if table != "meta" or row[0] not in _OWN]
        if rows:
            yield rows


def _rows(engine: Engine, table: str, key: Sequence[str], page: Sequence[Row]) -> list[Row]:
    return list(_same_keys(engine, table, key, page).values())


def _same_keys(engine: Engine, table: str, key: Sequence[str], page: Sequence[Row]) -> dict[Row, Row]:
    width = len(key)
    if not page:
        return {}
    keys = ",".join([f"({','.join('?' * width)})"] * len(page))
    with engine.read(single=True) as tx:
        rows = tx.all(
            f"SELECT * FROM {table} WHERE ({', '.join(key)}) IN (VALUES {keys})",
            [value for row in page for value in row[:width]],
        )
    return {row[:width]: row for row in rows}


def _wrong(source: Engine, table: str, key: Sequence[str], page: Sequence[Row]) -> list[Row]:
    """Keys of the target's rows that the source has not, or has otherwise."""
    if table == "blobs":
        return []  # those that nobody uses go at the end
    there, width = _same_keys(source, table, key, page), len(key)
    wrong = [row[:width] for row in page if not _agrees(table, there.get(row[:width]), row)]
    if table == "decision_blobs" and wrong:
        kept = _sealed_ones(source, {row[0] for row in wrong})
        wrong = [row for row in wrong if row[0] not in kept]
    return wrong


def _agrees(table: str, ours: Row | None, theirs: Row) -> bool:
    if ours is None or ours == theirs:
        return ours is not None
    masked = (*theirs[:_PAYLOAD], b"", *theirs[_PAYLOAD + 1 :])
    return table == "decisions" and not ours[_PAYLOAD] and ours == masked


def _missing(target: Engine, table: str, key: Sequence[str], page: Sequence[Row]) -> list[Row]:
    there = _same_keys(target, table, key, page)
    return [row for row in page if row[: len(key)] not in there]


def _sealed_ones(source: Engine, numbers: Iterable[int]) -> set[int]:
    wanted = sorted(numbers)
    with source.read(single=True) as tx:
        marks = ",".join("?" * len(wanted))
        rows = tx.all(f"SELECT n FROM decisions WHERE length(payload) = 0 AND n IN ({marks})", wanted)
    return {row[0] for row in rows}


def _fill(target: Engine, sealed: Sealed) -> None:
    after = 0
    while True:
        with target.read(single=True) as tx:
            rows = tx.all(
                f"SELECT n FROM decisions WHERE length(payload) = 0 AND n > ? ORDER BY n LIMIT {_PAGE}", (after,)
            )
        if not rows:
            return
        after = rows[-1][0]
        with target.write(durable=False) as tx:
            for number, (payload, blobs) in sealed([row[0] for row in rows]).items():
                tx.run("UPDATE decisions SET payload = ? WHERE n = ?", (pack(payload), number))
                for name, text in blobs.items():
                    key = bytes.fromhex(name)
                    tx.run("INSERT INTO blobs VALUES (?, ?) ON CONFLICT DO NOTHING", (key, pack(text)))
                    tx.run("INSERT INTO decision_blobs VALUES (?, ?) ON CONFLICT DO NOTHING", (number, key))


def _counts(tx: Tx) -> dict[str, int]:
    """Of what is one to one: prompts of sealed decisions come back from elsewhere."""
    counted = [table for table in KEYS if table not in ("meta", "blobs", "decision_blobs")]
    return {table: (tx.one(f"SELECT count(*) FROM {table}") or (0,))[0] for table in counted}
