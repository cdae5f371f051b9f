"""What a fleet shares of its adapters, in the database of its store: their bytes, aliases with their history, taints.

Each machine keeps a copy of the adapters that it serves, in a folder named by the digest, and verifies it like any
other. A copy that is lost is fetched again."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memkit.adapters._files import open_plain
from memkit.adapters._tables import TableTx
from memkit.adapters.manifest import MANIFEST, Manifest
from memkit.errors import NotFound
from memkit.journal.engine import Engine, moved_error
from memkit.journal.moving import MOVED_TO

_PART = 4 << 20
"""Bytes of a file that one row holds."""
_FRESH_S = 0.25
"""A search asks no oftener than this whether anybody promoted a ranker."""


class SharedAdapters:
    """Tables and files, over the engine of a journal."""

    def __init__(self, engine: Engine, *, owned: bool = False) -> None:
        """owned: nobody else uses the engine, which closes with this."""
        self._engine, self._owned = engine, owned
        self._asking = threading.Lock()
        self._asked: tuple[float, int] | None = None

    # ---- tables ----------------------------------------------------------------------------------------------

    @contextmanager
    def exclusive(self, *, flush: bool = True) -> Generator[TableTx]:
        with self._engine.write((), durable=True) as tx:
            tx.one("SELECT value FROM meta WHERE key = 'store_id'", hold=True)
            moved = tx.one("SELECT value FROM meta WHERE key = ?", (MOVED_TO,))
            if moved is not None:
                raise moved_error(self._engine.name, moved[0])
            yield tx
        self._asked = None

    def all(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        with self._engine.read(single=True) as tx:
            return tx.all(sql, params)

    def flush(self) -> None:
        """Every commit is durable."""

    def changes(self) -> int:
        with self._asking:
            now = time.monotonic()
            if self._asked is None or now - self._asked[0] > _FRESH_S:
                ((count,),) = self.all("SELECT count(*) + coalesce(sum(proved), 0) FROM versions")
                self._asked = now, int(count)
            return self._asked[1]

    def close(self) -> None:
        if self._owned:
            self._engine.close()

    # ---- files -----------------------------------------------------------------------------------------------

    def digests(self) -> list[str]:
        return [row[0] for row in self.all("SELECT digest FROM adapters ORDER BY digest")]

    def has(self, digest: str) -> bool:
        return bool(self.all("SELECT 1 FROM adapters WHERE digest = ?", digest))

    def manifest(self, digest: str) -> bytes:
        return b"".join(self._parts(digest, MANIFEST))

    def age_s(self, digest: str) -> float:
        """By the clock of the database."""
        rows = self.all(
            "SELECT extract(epoch FROM clock_timestamp() - published_at) FROM adapters WHERE digest = ?", digest
        )
        return float(rows[0][0]) if rows else 0.0

    def put(self, folder: Path, manifest: Manifest) -> None:
        """In one transaction: an adapter that others see is whole."""
        with self._engine.write(()) as tx:
            if not tx.change(
                "INSERT INTO adapters VALUES (?, clock_timestamp()) ON CONFLICT DO NOTHING", (manifest.digest,)
            ):
                return
            for name in (*sorted(manifest.files), MANIFEST):
                with open_plain(folder / name) as file:
                    number = 0
                    while (part := file.read(_PART)) or not number:
                        tx.run("INSERT INTO adapter_parts VALUES (?, ?, ?, ?)", (manifest.digest, name, number, part))
                        number += 1

    def fetch(self, digest: str, into: Path) -> None:
        """Its files, to be verified by whoever asked."""
        for (name,) in self.all("SELECT DISTINCT name FROM adapter_parts WHERE digest = ?", digest):
            with open(into / Path(name).name, "xb") as file:
                for part in self._parts(digest, name):
                    file.write(part)

    def _parts(self, digest: str, name: str) -> Generator[bytes]:
        sql, number = "SELECT data FROM adapter_parts WHERE digest = ? AND name = ? AND number = ?", 0
        while rows := self.all(sql, digest, name, number):
            yield bytes(rows[0][0])
            number += 1
        if not number:
            raise NotFound(
                f"adapter {digest[:12]} is no longer in {self._engine.name}",
                why="another machine removed it",
                fix="publish it again",
            )

    @staticmethod
    def remove(tx: TableTx, digest: str) -> None:
        tx.run("DELETE FROM adapters WHERE digest = ?", (digest,))
        tx.run("DELETE FROM adapter_parts WHERE digest = ?", (digest,))
