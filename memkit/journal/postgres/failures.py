"""What goes wrong with PostgreSQL, as errors of ours."""

from __future__ import annotations

import psycopg
from psycopg import errors

from memkit.errors import (
    Conflict,
    InvalidText,
    MemkitError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from memkit.journal.engine import moved_error
from memkit.journal.postgres.address import Address

MOVED = "MK001"
"""What our triggers raise in a store that was moved away."""

_BUSY = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.QueryCanceled,
    errors.TooManyConnections,
)
_DAMAGED = (errors.DataCorrupted, errors.IndexCorrupted, errors.UndefinedTable, errors.UndefinedColumn)


def as_ours(error: psycopg.Error | UnicodeError, address: Address) -> MemkitError:
    if isinstance(error, UnicodeError):
        return InvalidText("a text holds lone surrogates", why="it has no UTF-8 form", fix="clean the text first")
    why = _first_line(error)
    if error.sqlstate == MOVED:
        return moved_error(str(address), why)
    match error:
        case errors.IntegrityError():
            return Conflict("a row of this name is there already", why=why, fix="use a fresh id")
        case errors.DiskFull() | errors.ProgramLimitExceeded():
            return StoreFull(
                f"no room left to write {address}",
                why=why,
                fix="free some space on the database server and call again; what was acknowledged before is safe",
            )
        case errors.ReadOnlySqlTransaction():
            return StoreReadOnly(
                f"{address} is a standby, or open for reading only",
                why=why,
                fix="name all hosts in the URL, and add target_session_attrs=read-write: postgresql://a,b/db?…",
            )
        case errors.InsufficientPrivilege():
            return StoreReadOnly(
                f"this role may not do this in {address}",
                why=why,
                fix="grant it the schema and its tables, or run the script that `memkit schema` prints as their owner",
            )
        case error if isinstance(error, _BUSY):
            return StoreBusy(
                f"{address} did not grant a lock or a connection in time",
                why=why,
                fix="call again; if it stays, look for a hanging transaction in pg_stat_activity",
            )
        case error if isinstance(error, _DAMAGED):
            return StoreDamaged(
                f"the tables of {address} are not as memkit made them",
                why=why,
                fix="restore the schema from a backup, or run the script that `memkit schema` prints",
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return unreachable(address, why)
        case _:
            return StoreError(f"the journal failed: {why}", why=error.sqlstate or "")


def unreachable(address: Address, why: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{address} does not answer",
        why=why,
        fix="call again once it does; nothing of this call was written, and what was acknowledged before is safe",
    )


def in_doubt(address: Address, why: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{address} went away while it committed, and did not come back to say whether it did",
        why=why,
        fix="call again with the same idempotency_key: it is stored once, whichever it was",
    )


def busy(address: Address, patience: float) -> StoreBusy:
    return StoreBusy(
        f"no connection to {address} became free within {patience:g} s",
        why="all of this process's connections are in use",
        fix="call again; if it stays, open the store once for the whole process",
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
