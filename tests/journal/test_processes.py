"""Several threads and processes on one store: the normal case."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest

from memkit.errors import StoreBusy, StoreError
from memkit.journal import Journal
from memkit.journal.locks import StoreLocks
from memkit.journal.oslock import OUTLIVES_OTHER_HANDLES
from tests.journal.making import ANA, AT, IDS, add, adds, finish, intake, open_journal, start, texts

needs_locks_of_a_handle = pytest.mark.skipif(not OUTLIVES_OTHER_HANDLES, reason="closing a handle drops locks here")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def test_one_fact_from_32_threads_is_one_memory(journal: Journal) -> None:
    barrier = threading.Barrier(32)

    def one(number: int) -> None:
        barrier.wait()
        said = intake("I have a dog")
        journal.accept(said, drafts=adds("I have a dog" + "." * (number % 3)))

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(one, range(32)))
    assert len(journal.live()) == 1
    assert sorted(op.seq for op in journal.ops()) == list(range(1, 33))


def test_one_fact_from_4_processes_is_one_memory_and_seqs_have_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "store"
    program = """
        journal = open_journal(Path(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(25):
            journal.accept(intake("same"), drafts=adds("same"))
            add(journal, f"{os.getpid()} {number}")
            assert texts(journal).count(f"{os.getpid()} {number}") == 1  # read your writes
        journal.close()
    """
    processes = [start(program, path) for _ in range(4)]  # all four create the store
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    seen: list[int] = []
    journal = open_journal(path)
    while any(process.poll() is None for process in processes):
        seen += [op.seq for op in journal.ops(after=seen[-1] if seen else 0)]
    seen += [op.seq for op in journal.ops(after=seen[-1] if seen else 0)]
    finish(processes)
    assert seen == list(range(1, 201))  # a reader that only looks forward misses nothing
    assert sorted(texts(journal)).count("same") == 1
    assert len(texts(journal)) == 101
    assert journal.check() == []
    journal.close()


@needs_fork
def test_a_forked_child_is_a_worker_of_its_own(journal: Journal) -> None:
    held = journal.accept(intake("1"), claim=True).claim
    assert held is not None
    mine, stop = journal.worker_id, threading.Event()

    def busy() -> None:
        while not stop.is_set():
            add(journal, IDS.new("x"))

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    children: list[int] = []
    for number in range(5):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                add(journal, f"child {number}")
                with journal.lance_lock(False):
                    code = 0 if journal.worker_id != mine and journal.claim_next() is None else 2
                journal.close()
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 5
    assert {f"child {number}" for number in range(5)} <= set(texts(journal))
    assert journal.owns(held)
    journal.apply(ANA, adds("done"), decision_id="d", at=AT, claim=held)


@needs_fork
def test_a_fork_inherits_no_lock(journal: Journal) -> None:
    """The child must not keep a lock of its dead parent alive, nor believe it holds one."""
    with journal.applier_lock():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                locks = journal._locks
                locks._patience = 0.05
                with journal.applier_lock():
                    code = 2
            except StoreBusy:
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


def test_the_applier_lock_is_exclusive_and_starves_nobody(tmp_path: Path) -> None:
    path = tmp_path / "store"
    open_journal(path).close()
    program = """
        journal = open_journal(Path(sys.argv[1]))
        path = Path(sys.argv[1]) / "holder"
        turns, end = 0, time.monotonic() + 1.5
        while time.monotonic() < end:
            with journal.applier_lock():
                assert not path.exists()
                path.write_text("held")
                time.sleep(0.003)
                path.unlink()
            turns += 1
        print(turns)
    """
    shares = [int(output) for output in finish([start(program, path) for _ in range(3)])]
    assert min(shares) * 8 > max(shares)


def test_the_applier_lock_keeps_threads_and_journals_of_one_process_apart(tmp_path: Path, journal: Journal) -> None:
    other, inside, order = open_journal(tmp_path / "store"), threading.Lock(), []

    def work(one: Journal) -> None:
        for _ in range(10):
            with one.applier_lock():
                assert inside.acquire(blocking=False)
                order.append(threading.get_ident())
                time.sleep(0.0005)
                inside.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [journal, other, journal, other]))
    assert len(order) == 40
    other.close()


def test_lance_readers_share_and_a_writer_is_alone_and_not_starved(tmp_path: Path, journal: Journal) -> None:
    program = """
        journal = open_journal(Path(sys.argv[1]))
        flag = Path(sys.argv[1]) / "alone"
        print("reading", flush=True)
        end = time.monotonic() + 20
        while time.monotonic() < end and not (Path(sys.argv[1]) / "stop").exists():
            with journal.lance_lock(False):
                assert not flag.exists()
                time.sleep(0.02)
    """
    path = tmp_path / "store"
    readers = [start(program, path) for _ in range(3)]
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            with journal.lance_lock(False), journal.lance_lock(False):
                assert not (path / "alone").exists()
                time.sleep(0.01)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for reader in readers:
        assert reader.stdout is not None
        reader.stdout.readline()
    for _ in range(5):
        with journal.lance_lock(True):
            (path / "alone").write_text("x")
            with journal.lance_lock(False):
                time.sleep(0.01)
            (path / "alone").unlink()
    stop.set()
    (path / "stop").write_text("x")
    for thread in threads:
        thread.join()
    finish(readers)
    with journal.lance_lock(False), pytest.raises(StoreBusy), journal.lance_lock(True):
        pass


def test_a_killed_holder_frees_its_locks(tmp_path: Path, journal: Journal) -> None:
    program = """
        journal = open_journal(Path(sys.argv[1]))
        with journal.applier_lock(), journal.lance_lock(True):
            print("held", flush=True)
            time.sleep(60)
    """
    holder = start(program, tmp_path / "store")
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        locks = StoreLocks.attach(tmp_path / "store" / "locks")
        locks._patience = 0.05
        with pytest.raises(StoreBusy), journal.lance_lock(False):
            pass
        with pytest.raises(StoreBusy), journal.applier_lock():
            pass
        locks._patience = 10
        holder.kill()
        holder.wait()
        with journal.applier_lock(), journal.lance_lock(True):
            pass
        locks.close()


def test_what_killed_workers_leave_in_the_lock_folder_is_swept(tmp_path: Path, journal: Journal) -> None:
    gone = start("journal = open_journal(Path(sys.argv[1])); os.kill(os.getpid(), 9)", tmp_path / "store")
    gone.communicate(timeout=30)
    folder = tmp_path / "store" / "locks"
    assert len(list(folder.glob("*.worker"))) == 2
    open_journal(tmp_path / "store").close()
    assert [path.stem for path in folder.glob("*.worker")] == [journal.worker_id]


def test_workers_that_come_while_others_sweep_stay_alive(tmp_path: Path) -> None:
    path = tmp_path / "store"
    open_journal(path).close()
    program = """
        path = Path(sys.argv[1])
        for _ in range(60):
            journal = open_journal(path)
            assert (path / "locks" / f"{journal.worker_id}.worker").exists()
            journal.close()
    """
    finish([start(program, path) for _ in range(3)])


def read_all(path: Path) -> None:
    """As a backup tool inside of the app would: it opens and closes every file."""
    for file in path.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):
            file.read_bytes()


@needs_locks_of_a_handle
def test_what_is_acknowledged_stays_although_the_app_reads_the_files_of_its_own_store(tmp_path: Path) -> None:
    program = """
        journal = open_journal(Path(sys.argv[1]))
        add(journal, "first")
        for file in Path(sys.argv[1]).rglob("*"):
            if file.is_file():
                file.read_bytes()
        print("read", flush=True)
        sys.stdin.readline()
        for number in range(20):
            add(journal, f"fact {number}")
        print("acknowledged", flush=True)
        time.sleep(60)
    """
    app = start(program, tmp_path / "store")
    assert app.stdin is not None
    assert app.stdout is not None
    assert app.stdout.readline() == "read\n"
    finish([start("open_journal(Path(sys.argv[1])).close()", tmp_path / "store")])
    app.stdin.write("go\n")
    app.stdin.flush()
    assert app.stdout.readline() == "acknowledged\n"
    app.kill()
    app.communicate()
    journal = open_journal(tmp_path / "store")
    assert len(texts(journal)) == 21
    journal.close()


@needs_locks_of_a_handle
def test_two_processes_write_while_one_reads_the_files(tmp_path: Path) -> None:
    program = """
        journal = open_journal(Path(sys.argv[1]))
        print("ready", flush=True)
        for number in range(200):
            add(journal, f"other {number}")
        journal.close()
    """
    journal = open_journal(tmp_path / "store")
    add(journal, "first")
    other, reading = start(program, tmp_path / "store"), threading.Event()

    def read() -> None:
        while not reading.is_set():
            read_all(tmp_path / "store")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(200):
            add(journal, f"mine {number}")
        finish([other])
    finally:
        reading.set()
        reader.join()
    assert len(texts(journal)) == 401
    assert journal.check() == []
    journal.close()


@needs_locks_of_a_handle
def test_reading_the_lock_files_gives_no_lock_away(journal: Journal, tmp_path: Path) -> None:
    program = """
        journal = open_journal(Path(sys.argv[1]))
        journal._locks._patience = 0.05
        try:
            with journal.applier_lock():
                print("granted")
        except StoreBusy:
            print("busy", journal.claim_next())
    """
    held = journal.accept(intake("1"), claim=True).claim
    assert held is not None
    with journal.applier_lock():
        read_all(tmp_path / "store")
        assert finish([start("from memkit.errors import StoreBusy\n" + dedent(program), tmp_path / "store")]) == [
            "busy None\n"
        ]
    assert journal.owns(held)


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be removed there")
def test_nothing_is_acknowledged_once_the_log_is_gone(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "store")
    add(journal, "first")
    (tmp_path / "store" / "journal.sqlite-wal").unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match="removed or replaced"):
            add(journal, "second")
    journal.close()


def until(holds: Callable[[], object]) -> object:
    """What it comes to, however long the machine takes."""
    deadline = time.monotonic() + 60
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes are not stopped here")
def test_a_turn_of_a_stopped_process_is_taken_over_and_nothing_is_doubled_when_it_wakes(
    journal: Journal, tmp_path: Path
) -> None:
    program = """
        from memkit.errors import Conflict
        journal = open_journal(Path(sys.argv[1]))
        claim = journal.claim_next()
        print(claim.intake_id, flush=True)
        sys.stdin.readline()
        try:
            journal.apply(claim.bank, adds("late"), decision_id="d_late", at=AT, claim=claim)
        except Conflict:
            print("lost")
        journal.close()
    """
    said = journal.accept(intake("1")).state.intake
    holder = start(program, tmp_path / "store")
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == said.intake_id
    holder.send_signal(signal.SIGSTOP)
    assert journal.claim_next() is None
    journal._locks.lease_s = 0.05
    taken = until(journal.claim_next)
    journal.apply(ANA, adds("on time"), decision_id="d", at=AT, claim=taken)
    holder.send_signal(signal.SIGCONT)
    holder.stdin.write("go\n")
    holder.stdin.flush()
    assert finish([holder]) == ["lost\n"]
    assert texts(journal) == ["on time"]


def test_a_process_that_works_on_is_not_taken_for_stopped(journal: Journal, tmp_path: Path) -> None:
    """It beats more often than the one that watches looks away."""
    program = """
        from memkit.journal import locks
        locks.LEASE_S = 0.06
        journal = open_journal(Path(sys.argv[1]))
        print(journal.claim_next().intake_id, flush=True)
        sys.stdin.readline()
        os._exit(0)
    """
    said = journal.accept(intake("1")).state.intake
    holder = start(program, tmp_path / "store")
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == said.intake_id
    worker = next(path for path in (tmp_path / "store" / "locks").glob(f"w{holder.pid}-*"))
    beats = {worker.stat().st_mtime_ns}
    until(lambda: beats.add(worker.stat().st_mtime_ns) or len(beats) > 3)
    assert journal.claim_next() is None
    holder.stdin.write("go\n")
    holder.stdin.flush()
    finish([holder])
    assert journal.claim_next() is not None
