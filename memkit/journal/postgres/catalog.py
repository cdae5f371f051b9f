"""Who writes LanceDB on object storage, and what everybody reads of it: one row of the database says both.

A lease lives by its holder's heartbeat, by the clock of the database alone. Its number, the term, is the fence: whoever
was stopped while it held one, and wakes up after another took over, can write what it likes into the bucket, but
publishes nothing. What is published is written after the operations that it covers, in the same database: whatever a
standby that took over has of the one, it has of the others."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from memkit.errors import MemkitError, StoreBusy
from memkit.journal.postgres.engine import PostgresEngine
from memkit.seams.catalog import PublishedTable

_BEATS = 6
_POLL_S = 0.1
_UNTIL = "clock_timestamp() + make_interval(secs => ?)"
# A store that was moved here begins above the terms it had: they are counted from the seconds since 1970.
_TAKE = (
    "INSERT INTO projections (place, term, holder, until)"  # noqa: S608
    f" VALUES (?, extract(epoch FROM clock_timestamp())::bigint, ?, {_UNTIL})"
    " ON CONFLICT (place) DO UPDATE SET term = projections.term + 1, holder = excluded.holder, until = excluded.until"
    " WHERE projections.holder IS NULL OR projections.until < clock_timestamp() RETURNING term"
)
_OWN = "WHERE place = ? AND term = ? AND holder = ?"
_RENEW = f"UPDATE projections SET until = {_UNTIL} {_OWN}"  # noqa: S608
_RELEASE = f"UPDATE projections SET holder = NULL {_OWN}"  # noqa: S608
_PUBLISH = f"UPDATE projections SET name = ?, version = ?, until = {_UNTIL} {_OWN}"  # noqa: S608


class PostgresCatalog:
    def __init__(self, engine: PostgresEngine, place: str, lease_s: float) -> None:
        self._engine, self.place, self.lease_s = engine, place, lease_s
        self._holder = secrets.token_hex(8)
        self._term: int | None = None

    @contextmanager
    def lease(self, *, wait: bool) -> Generator[None]:
        """`StoreBusy` where another machine has it, or keeps it for longer than a machine that stopped could."""
        self._term = self._take(wait)
        quiet = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(self._term, quiet), name="memkit-lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            quiet.set()
            with suppress(MemkitError):  # it ends by itself
                self._change(_RELEASE, self._own())
            self._term = None

    def _take(self, wait: bool) -> int:
        deadline = time.monotonic() + 2 * self.lease_s
        while True:
            with self._engine.write((), durable=False) as tx:
                taken = tx.one(_TAKE, (self.place, self._holder, self.lease_s))
            if taken is not None:
                return int(taken[0])
            if not wait or time.monotonic() >= deadline:
                raise StoreBusy(
                    f"another machine is writing {self.place}",
                    why="one at a time brings LanceDB there up to the journal",
                    fix="call again; nothing is missing meanwhile, every read is answered from the journal",
                )
            time.sleep(min(_POLL_S, self.lease_s / _BEATS))

    def _renew(self, term: int, quiet: threading.Event) -> None:
        while not quiet.wait(self.lease_s / _BEATS):
            with suppress(MemkitError):  # the next one may reach the database again
                self._change(_RENEW, (self.lease_s, self.place, term, self._holder))

    @property
    def term(self) -> int:
        if self._term is None:
            raise StoreBusy(f"{self.place} is written under its lease only", fix="this is a defect of memkit")
        return self._term

    def read(self) -> PublishedTable | None:
        with self._engine.read(single=True) as tx:
            row = tx.one("SELECT name, version FROM projections WHERE place = ?", (self.place,))
        return None if row is None or row[0] is None else PublishedTable(str(row[0]), int(row[1]))

    def publish(self, found: PublishedTable | None) -> None:
        name, version = (found.table, found.version) if found else (None, None)
        if not self._change(_PUBLISH, (name, version, self.lease_s, *self._own()), durable=True):
            raise StoreBusy(
                f"another machine has taken over {self.place}",
                why="this one was silent for longer than its lease",
                fix="nothing: what it wrote there counts for nobody, and the journal has everything",
            )

    def _own(self) -> tuple[str, int, str]:
        return self.place, self.term, self._holder

    def _change(self, sql: str, params: tuple[object, ...], *, durable: bool = False) -> int:
        with self._engine.write((), durable=durable) as tx:
            return tx.change(sql, params)
