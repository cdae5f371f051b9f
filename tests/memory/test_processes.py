"""The verbs across processes: reads see every write, a killed process loses nothing, a forked child works, and the
event loop of an async caller keeps turning."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from memkit import AsyncMemory, Memory
from memkit.errors import NotFound, StoreBusy

ROOT = Path(__file__).resolve().parents[2]


def start(code: str, *args: object) -> subprocess.Popen[str]:
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


ECHO = """
import sys
import threading
from memkit import Memory
with Memory(sys.argv[1]) as memory:
    print("ready", flush=True)
    for request in sys.stdin:
        text = request.strip()
        found = [hit.text for hit in memory.search(text, user_id="ana", k=50)]
        memory.add("answer to " + text, user_id="ana", infer=False)
        if text.endswith("3"):
            memory.flush()
        print(text in found, flush=True)
"""


def test_each_process_reads_what_the_other_has_just_written(tmp_path: Path) -> None:
    other = start(ECHO, tmp_path / "s")
    assert line(other) == "ready"
    assert other.stdin is not None
    with Memory(tmp_path / "s") as memory:
        for number in range(6):
            text = f"note {number}"
            memory.add(text, user_id="ana", infer=False)
            if number == 2:
                memory.flush()
            other.stdin.write(text + "\n")
            other.stdin.flush()
            assert line(other) == "True"
            seen = {hit.text for hit in memory.search("answer to " + text, user_id="ana", k=50)}
            assert {text, "answer to " + text} <= seen
        target = memory.search("note 5", user_id="ana", k=1)[0].memory.id
        memory.delete(target, user_id="ana")
        other.stdin.write("note 5\n")
        other.stdin.flush()
        assert line(other) == "False"
    other.communicate(timeout=30)
    assert other.returncode == 0


KILLED = """
import sys
import threading
from memkit import Memory
memory = Memory(sys.argv[1], config={"project_idle_s": 0.02, "maintain_commits": 3})
number = 0
while True:
    number += 1
    print("t", memory.add(f"I bought item number {number}.", user_id=f"u{number % 3}", wait=False).trace_id, flush=True)
    print("o", memory.add(f"note {number}", user_id="ana", infer=False).ops[0].op_id, flush=True)
"""


def test_background_turns_survive_kill_9(tmp_path: Path) -> None:
    path, told = tmp_path / "s", list[str]()
    for pause in (0.0, 0.15, 0.4):
        process = start(KILLED, path)
        told.append(line(process))
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        with process:
            assert process.stdout is not None
            # not `communicate`, which forgets what was read ahead with the first line
            told += process.stdout.read().split("\n")[:-1]
    with Memory(path) as memory:
        memory.flush()
        ops = {op.op_id for user in memory.users() for op in memory.history(user_id=user)}
        for kind, key in (one.split() for one in told):
            if kind == "o":
                assert key in ops
            else:
                state = memory._runtime.journal.intake(key)
                assert state is not None
                assert state.status == "applied"
        assert memory.doctor() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads_and_writes_through_the_journal(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", embedder=lambda texts: [[float(len(t)), 1.0, 2.0] for t in texts]) as memory:
        memory.add("said by the parent", user_id="ana", infer=False)
        memory.flush()  # LanceDB is loaded and in use
        memory.search("parent", user_id="ana")
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                memory.add("said by the child", user_id="ana", infer=False)
                memory.add("of somebody else", user_id="bob", infer=False)
                found = {hit.text for user in ("ana", "bob") for hit in memory.search("said", user_id=user)}
                memory.flush()
                os._exit(0 if found == {"said by the parent", "said by the child", "of somebody else"} else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        memory.flush()
        assert memory.search("by the child", user_id="ana", k=1)
        assert len(memory.list(user_id="ana")) == 2
        assert memory.doctor() == []


def test_a_verb_that_waits_leaves_the_loop_free(tmp_path: Path) -> None:
    """The model does not answer until the loop has gone on: one that were blocked would wait for it in vain."""
    asked, went_on, waited = threading.Event(), threading.Event(), list[bool]()

    def model(messages: object) -> str:
        asked.set()
        waited.append(went_on.wait(60))
        return "NONE"

    async def scenario() -> None:
        async def elsewhere() -> None:
            while not asked.is_set():
                await asyncio.sleep(0.005)
            went_on.set()

        async with AsyncMemory(tmp_path / "s", model=model) as memory:
            await asyncio.gather(elsewhere(), memory.add("I adopted a dog.", user_id="ana"))

    asyncio.run(scenario())
    assert waited == [True]


def test_async_verbs_do_what_the_others_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncMemory(tmp_path / "s") as memory:
            first = await memory.add("I adopted a dog named Buddy.", user_id="ana")
            later = [memory.add(f"I bought item number {n}.", user_id=f"u{n % 4}", wait=False) for n in range(40)]
            accepted = [result.trace_id for result in await asyncio.gather(*later)]
            await memory.flush()
            states = [memory._memory._runtime.journal.intake(one) for one in accepted]
            assert {state.status for state in states if state} == {"applied"}
            assert len(states) == 40
            hits = await memory.search("pets", user_id="ana")
            assert "Buddy" in hits[0].text
            assert "Buddy" in str(await memory.context("pets", user_id="ana"))
            held = first.ops[0].memory_id
            assert held is not None
            assert (await memory.get(held, user_id="ana")).id == held
            await memory.update(held, "Ana has a cat.", user_id="ana")
            assert [op.action for op in await memory.history(user_id="ana")] == ["add", "update"]
            await memory.undo(user_id="ana", op_id=(await memory.history(user_id="ana"))[-1].op_id)
            assert (await memory.get(held, user_id="ana")).text == first.ops[0].text
            await memory.delete(held, user_id="ana")
            with pytest.raises(NotFound):
                await memory.get(held, user_id="ana")

    asyncio.run(scenario())


def test_a_model_that_never_answers_keeps_others_waiting_no_longer_than_they_will(tmp_path: Path) -> None:
    asked, answer = threading.Event(), threading.Event()

    def silent(_: list[dict[str, str]]) -> str:
        asked.set()
        answer.wait(60)
        return '{"operations": []}'

    with Memory(tmp_path / "s", model=silent, mode="fused", config={"wait_s": 0.2}) as memory:
        first = memory.add("I live in Oslo.", user_id="ana", wait=False)
        assert asked.wait(60)
        second = memory.add("I moved to Bergen.", user_id="ana")
        assert second.status == "pending"
        with pytest.raises(StoreBusy, match="2 turns are still undecided"):
            memory.flush()
        answer.set()
        memory._runtime.config = replace(memory._runtime.config, wait_s=60.0)
        memory.flush()
        states = [memory._runtime.journal.intake(one.trace_id) for one in (first, second)]
        assert [state.status for state in states if state is not None] == ["applied", "applied"]
