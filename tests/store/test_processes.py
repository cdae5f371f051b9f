"""Several processes on one projection, some of them killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.store._rows import file_lock, ids, open_projection, row, tombstone

_SPAWN = multiprocessing.get_context("spawn")


def _project(root: str, name: int, last: int) -> None:
    """A projector: under the applier lock, bring the table from its watermark to the end of the (pretended) journal."""
    store, applier = open_projection(Path(root)), file_lock(Path(root) / "locks" / "applier")
    rng = random.Random(name)
    done = 0
    while done < last:
        with applier(True):
            done = store.watermark()
            upto = min(last, done + rng.randrange(1, 6))
            if upto > done:
                store.apply([journal(n) for n in range(done + 1, upto + 1)], upto)
        if rng.random() < 0.15:
            store.maintain()
        found = store.slice("ana")
        assert ids(found) == expected(found.watermark), (found.watermark, ids(found))


def journal(seq: int):
    """Op number `seq`: every third updates its predecessor, every tenth deletes the memory nine before."""
    if seq % 10 == 0:
        return tombstone(seq - 9, seq=seq)
    return row(seq - 1 if seq % 3 == 0 else seq, seq=seq, text=f"written by {seq}")


def expected(upto: int) -> list[str]:
    state: dict[str, int] = {}
    for seq in range(1, upto + 1):
        op = journal(seq)
        state.pop(op.memory_id, None)
        if op.record is not None:
            state[op.memory_id] = seq
    return sorted(state, key=lambda key: state[key])


def _start(root: Path, name: int, last: int):
    process = _SPAWN.Process(target=_project, args=(str(root), name, last))
    process.start()
    return process


@pytest.mark.slow
def test_projectors_in_several_processes(tmp_path: Path) -> None:
    last = 60
    workers = [_start(tmp_path, name, last) for name in range(3)]
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    store = open_projection(tmp_path)
    assert (store.watermark(), ids(store.slice("ana"))) == (last, expected(last))
    assert store.check() == []


@pytest.mark.slow
def test_killed_projectors_leave_a_consistent_watermark(tmp_path: Path) -> None:
    rng = random.Random(3)
    store = open_projection(tmp_path)
    for kill in range(8):
        worker = _start(tmp_path, kill, 10_000)
        reached = store.watermark()
        deadline = time.monotonic() + 60
        while store.watermark() == reached and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.3)
        os.kill(worker.pid or 0, signal.SIGKILL)
        worker.join()
        found = open_projection(tmp_path).slice("ana")
        assert found.watermark > reached
        assert ids(found) == expected(found.watermark)
    store.maintain(force=True)
    assert store.check() == []
    assert store.commits_since_maintenance == 0


def _forks(root: str) -> None:
    store = open_projection(Path(root))
    store.apply([row(1)], 1)
    assert ids(store.slice("ana")) == ["m_1"]
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        sys.exit(0 if store.inherited else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not store.inherited


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_lancedb_alone_and_ends(tmp_path: Path) -> None:
    """At its end LanceDB stops threads that a forked child does not have, and would wait for them for ever. In a
    process of its own: what other tests have started here (threads of a model, say) may hold locks that a fork copies
    and nobody ever releases."""
    process = _SPAWN.Process(target=_forks, args=(str(tmp_path),))
    process.start()
    process.join(120)
    assert process.exitcode == 0
