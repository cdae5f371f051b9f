"""Who is alive: a worker writes every few seconds that it is there, and is taken for dead a lease after the last time.

An operating-system lock says nothing about another machine. So a claim lives by its worker's heartbeat, by the clock of
the database alone. A worker that was only paused loses its claims, too; what it then wants to commit is refused.

The two locks around LanceDB are those of the folder where this machine keeps it. Where it lies on object storage, who
writes there also needs the lease of the catalog."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress

from memkit.errors import MemkitError
from memkit.journal.engine import Tx
from memkit.journal.locks import StoreLocks
from memkit.journal.oplog import scope
from memkit.journal.postgres.catalog import PostgresCatalog
from memkit.journal.postgres.engine import PostgresEngine, PostgresTx
from memkit.models import Bank

LEASE_S = 30.0
_BEATS = 6
_ALIVE = "w.seen_at > clock_timestamp() - make_interval(secs => ?)"
_IS_ALIVE = f"SELECT 1 FROM workers w WHERE w.worker_id = ? AND {_ALIVE}"  # noqa: S608
_BEAT = (
    "INSERT INTO workers VALUES (?, clock_timestamp()) ON CONFLICT (worker_id) DO UPDATE SET seen_at = excluded.seen_at"
)


class PostgresLocks:
    def __init__(
        self,
        engine: PostgresEngine,
        places: StoreLocks,
        catalog: PostgresCatalog | None = None,
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._engine, self._places, self._catalog, self.lease_s = engine, places, catalog, lease_s
        self._own: set[str] = set()
        self._heard = 0.0
        self._heart: threading.Thread | None = None
        self._quiet = threading.Event()
        self._mutex = threading.Lock()
        _LOCKS.add(self)

    def register(self, worker_id: str) -> None:
        with self._mutex:
            self._own.add(worker_id)
            self._write_beats()

    def beat(self, worker_id: str) -> str:
        """Right away, where this process was silent: it may have been stopped, and claims by a worker that is taken
        for dead are worth nothing."""
        with self._mutex:
            if time.monotonic() - self._heard > self.lease_s / _BEATS:
                self._write_beats()
            if self._heart is None:
                self._heart = threading.Thread(target=self._go_on, name="memkit-heart", daemon=True)
                self._heart.start()
        return worker_id

    def _go_on(self) -> None:
        quiet = self._quiet
        while not quiet.wait(self.lease_s / _BEATS):
            with self._mutex, suppress(MemkitError):  # the next one may reach the database again
                self._write_beats()

    def _write_beats(self) -> None:
        if self._own:
            with self._engine.write((), durable=False) as tx:
                tx.many(_BEAT, [(worker_id,) for worker_id in sorted(self._own)])
        self._heard = time.monotonic()

    def retire(self, worker_id: str) -> None:
        with self._mutex:
            self._own.discard(worker_id)
        with suppress(MemkitError), self._engine.write((), durable=False) as tx:
            tx.run("DELETE FROM workers WHERE worker_id = ?", (worker_id,))

    def alive(self, worker_id: str) -> bool:
        with self._engine.read(single=True) as tx:
            return tx.one(_IS_ALIVE, (worker_id, self.lease_s)) is not None

    def first_free(self, tx: Tx, bank: Bank | None) -> int | None:
        """SKIP LOCKED keeps workers out of each other's way; the order within a bank is that of the last condition."""
        where, params = scope("b", bank, None)
        within = "" if bank is None else f" AND i.bank IN (SELECT b.id FROM banks b WHERE {where})"  # noqa: S608
        taken = " FOR UPDATE OF i SKIP LOCKED" if isinstance(tx, PostgresTx) and tx.writes else ""
        row = tx.one(
            f"SELECT i.n FROM intakes i WHERE i.status = 0{within} AND (i.claimed_by IS NULL OR NOT EXISTS"  # noqa: S608
            f" (SELECT 1 FROM workers w WHERE w.worker_id = i.claimed_by AND {_ALIVE})) AND NOT EXISTS"
            " (SELECT 1 FROM intakes e WHERE e.bank = i.bank AND e.status = 0 AND e.n < i.n)"
            f" ORDER BY i.n LIMIT 1{taken}",
            [*params, self.lease_s],
        )
        return row[0] if row else None

    def sweep(self) -> None:
        """Long after their lease: a clock is read by the database alone, and nobody is in a hurry."""
        with self._engine.write((), durable=False) as tx:
            tx.run("DELETE FROM workers WHERE seen_at < now() - make_interval(secs => ?)", (20 * self.lease_s,))

    @contextmanager
    def applier(self, wait: bool = True) -> Generator[None]:
        with self._places.applier():
            if self._catalog is None:
                yield
            else:
                with self._catalog.lease(wait=wait):
                    yield

    def lance(self, exclusive: bool) -> AbstractContextManager[None]:
        return self._places.lance(exclusive)

    def close(self) -> None:
        self._quiet.set()
        self._places.close()

    def after_fork_in_child(self) -> None:
        self._own, self._heart, self._quiet, self._mutex = set(), None, threading.Event(), threading.Lock()


_LOCKS: weakref.WeakSet[PostgresLocks] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for locks in list(_LOCKS):
        locks.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
