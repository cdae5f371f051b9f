"""Opening a store in PostgreSQL: its tables are made or brought up to date by whoever comes first, under a lock."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
from pathlib import Path

from memkit.errors import MemkitError, NewerFormat, NotAStore, StoreReadOnly, StoreUnsafe
from memkit.journal import disk
from memkit.journal.engine import Opened, Tx
from memkit.journal.locks import StoreLocks
from memkit.journal.postgres.address import Address
from memkit.journal.postgres.catalog import PostgresCatalog
from memkit.journal.postgres.engine import PostgresEngine
from memkit.journal.postgres.tables import STEPS, steps_after
from memkit.journal.postgres.workers import LEASE_S, PostgresLocks

_log = logging.getLogger("memkit")
_OWNER = "projection.json"
_FORMAT = len(STEPS)


def connect(url: str, lance: Path | str | None, *, read_only: bool = False) -> Opened:
    engine = PostgresEngine(Address.of(url), read_only=read_only)
    try:
        _prepare(engine, read_only)
        with engine.read(single=True) as tx:
            row = tx.one("SELECT value FROM meta WHERE key = 'store_id'")
        store_id = str(row[0]) if row else ""
        place = _take_place(lance, store_id, engine.address)
        places = StoreLocks.attach(place / disk.LOCKS)
        if not read_only:
            _follow_failover(engine, places, place)
        bucket = lance or engine.address.lance
        catalog = PostgresCatalog(engine, f"{bucket}/{store_id}", LEASE_S) if isinstance(bucket, str) else None
        locks = PostgresLocks(engine, places, catalog)
    except BaseException:
        engine.close()
        raise
    return Opened(engine, locks, store_id, place, str(engine.address), is_shared=True, catalog=catalog)


def open_tables(url: str) -> tuple[PostgresEngine, Path]:
    """The tables of a store that is there, and this machine's folder beside them."""
    engine = database_tables(url, create=False)
    try:
        with engine.read(single=True) as tx:
            row = tx.one("SELECT value FROM meta WHERE key = 'store_id'")
        return engine, _take_place(None, str(row[0]) if row else "", engine.address)
    except BaseException:
        engine.close()
        raise


def database_tables(url: str, *, create: bool) -> PostgresEngine:
    """The tables alone, whoever's they are."""
    engine = PostgresEngine(Address.of(url))
    try:
        _prepare(engine, read_only=not create)
    except BaseException:
        engine.close()
        raise
    return engine


def script(schema: str = "memkit") -> str:
    """All statements that make a store, for a role that may, to be run by hand."""
    schema = Address.of(f"postgresql:///?schema={schema}").schema  # a plain name, or refused
    body = "".join(f"{line};\n" for line in [f"CREATE SCHEMA IF NOT EXISTS {schema}", *steps_after(0, schema)])
    return f"-- memkit, format {_FORMAT}\nBEGIN;\n{body}COMMIT;\n"


def _prepare(engine: PostgresEngine, read_only: bool) -> None:
    connection = engine.connections.take()  # no patience for a wrong address
    engine.connections.give_back(connection)
    with engine.read() as tx:
        found = _format(tx, engine.address)
        row = tx.one("SELECT current_setting('synchronous_commit'), current_setting('fsync')")
    if row is not None and row[1] == "off":
        raise StoreUnsafe(
            f"{engine.address} runs with fsync=off",
            why="what it acknowledges is lost with the power",
            fix="turn fsync on, or use a folder for what may be lost",
        )
    if row is not None and row[0] not in ("off", "local"):
        engine.durably = str(row[0])
    if found > _FORMAT:
        raise NewerFormat(
            f"{engine.address} has format {found}; this memkit reads up to {_FORMAT}",
            why="it was written by a newer memkit",
            fix="upgrade memkit; nothing was changed",
            found=found,
        )
    if found == _FORMAT:
        return
    if read_only and found:
        raise StoreReadOnly(
            f"{engine.address} has format {found}, and this memkit reads {_FORMAT}",
            why="whoever only reads brings no tables up to date",
            fix="open it once with a role that may, or have its owner run what `memkit schema` prints",
        )
    if read_only:
        raise NotAStore(f"there is no store at {engine.address}", fix="open it without read_only=True to create one")
    try:
        engine.migrate(lambda tx: _format(tx, engine.address))
    except StoreReadOnly as error:
        raise StoreReadOnly(
            f"{engine.address} needs tables that this role may not make",
            why=error.why,
            fix="have their owner run the script that `memkit schema` prints, then grant this role their use",
        ) from error


def _format(tx: Tx, address: Address) -> int:
    if tx.one("SELECT to_regclass(?::text)", (f"{address.schema}.meta",)) == (None,):
        return 0
    row = tx.one("SELECT value FROM meta WHERE key = 'format'")
    return int(row[0]) if row else 0


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memkit"


def _take_place(named: Path | str | None, store_id: str, address: Address) -> Path:
    """The folder is that of this store, or becomes it. Beside object storage, too: for locks and adapters."""
    lance = named or address.lance
    place = lance if isinstance(lance, Path) else _cache() / store_id
    if (kind := disk.network_filesystem(place)) is not None:
        raise StoreUnsafe(
            f"{place} lies on a network disk ({kind})",
            why="file locks cannot be trusted there",
            fix="name a local folder with lance=; each machine keeps its own, and can lose it",
        )
    owner = place / _OWNER
    try:
        if owner.exists():
            found = json.loads(owner.read_text("utf-8")).get("store_id")
            if found != store_id:
                raise NotAStore(
                    f"{place} belongs to another store than {address}",
                    why="what LanceDB holds there is of that one",
                    fix="name another folder with lance=, or remove this one: it is derived from its database",
                )
        elif place.exists() and set(os.listdir(place)) - {disk.LOCKS}:
            raise NotAStore(f"{place} holds other files", fix="name an empty or a new folder with lance=")
        (place / disk.LOCKS).mkdir(parents=True, exist_ok=True)
        if not owner.exists():
            _note(place, store_id)
    except OSError as error:
        raise disk.from_os_error(error, place) from error
    return place


def _note(place: Path, store_id: str, timeline: str = "") -> None:
    aside = place / f"{_OWNER}.{secrets.token_hex(4)}"
    aside.write_text(json.dumps({"store_id": store_id, "timeline": timeline}) + "\n", "utf-8")
    os.replace(aside, place / _OWNER)


def _follow_failover(engine: PostgresEngine, locks: StoreLocks, place: Path) -> None:
    """A server that took over, or was restored, goes on in a timeline of its own, and may lack the newest commits. What
    this machine derived from them goes, and is built anew."""
    try:
        with engine.read(single=True) as tx:
            row = tx.one("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
    except MemkitError:  # some services do not say
        return
    timeline = str(row[0]) if row else ""
    found = json.loads((place / _OWNER).read_text("utf-8"))
    if found.get("timeline", "") == timeline:
        return
    try:
        if found.get("timeline"):
            _log.warning(
                "%s was taken over by another server: what the old one had acknowledged and this one had not received"
                " is lost; LanceDB is built anew on this machine",
                engine.address,
            )
            with locks.applier(), locks.lance(True):
                shutil.rmtree(place / "lance", ignore_errors=True)
        _note(place, found["store_id"], timeline)
    except OSError as error:
        raise disk.from_os_error(error, place) from error
