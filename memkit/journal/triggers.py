"""What SQLite does at each write of a store that moves: refuse it, or note the key of the row."""

# ruff: noqa: S608 - statements are put together from the names of tables; what is said is quoted

from __future__ import annotations

from collections.abc import Iterator

from memkit.journal.schema import KEYS

_ROWS = {"INSERT": ("NEW",), "UPDATE": ("OLD", "NEW"), "DELETE": ("OLD",)}


def refuse(said: str) -> Iterator[str]:
    quoted = said.replace("'", "''")
    refusal = f"BEGIN SELECT RAISE(ABORT, '{quoted}'); END"
    for table in KEYS:
        for event in _ROWS:
            yield f"CREATE TRIGGER IF NOT EXISTS moved_{table}_{event} BEFORE {event} ON {table} {refusal}"


def allow() -> Iterator[str]:
    for table in KEYS:
        for event in _ROWS:
            yield f"DROP TRIGGER IF EXISTS moved_{table}_{event}"


def note() -> Iterator[str]:
    for table, key in KEYS.items():
        yield f"CREATE TABLE IF NOT EXISTS changed_{table} AS SELECT {', '.join(key)} FROM {table} WHERE 0"
        for event, rows in _ROWS.items():
            keys = ", ".join(f"({', '.join(f'{row}.{one}' for one in key)})" for row in rows)
            noting = f"BEGIN INSERT INTO changed_{table} VALUES {keys}; END"
            yield f"CREATE TRIGGER IF NOT EXISTS changed_{table}_{event} AFTER {event} ON {table} {noting}"


def forget() -> Iterator[str]:
    for table in KEYS:
        for event in _ROWS:
            yield f"DROP TRIGGER IF EXISTS changed_{table}_{event}"
        yield f"DROP TABLE IF EXISTS changed_{table}"
