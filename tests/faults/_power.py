"""Power cuts, failing calls and kills at every call, under `_disk`: what was acknowledged is there, what was erased is
not, what others said is whole."""

from __future__ import annotations

import json
import random
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.errors import MemkitError
from memkit.ops import BankState
from tests.faults._disk import Event, read_log, run_shimmed, states, with_unseen_renames
from tests.faults._tally import Tally

WORK = """
import ctypes, json, os, random, sys
from pathlib import Path
from memkit import Memory

root, rng, turns = Path(sys.argv[1]), random.Random(int(sys.argv[2])), int(sys.argv[3])
acks = os.open(root / "acks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def ack(**told):
    os.write(acks, (json.dumps(told) + "\\n").encode())
    print(ctypes.CDLL(None).faults_calls(), flush=True)


def model(messages):
    text = messages[-1]["content"].rsplit('"', 2)[-2]
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": text, "turn": 1}]})


memory = Memory(root / "s", model=model, mode="fused", config={"workers": 0, "maintain_commits": 2, "project_every": 4})
for number in range(turns):
    user = f"u{rng.randrange(3)}" if number % 6 else "gone"
    text = f"I keep {number} bees in hive canary{number}{user}."
    infer = rng.random() < 0.7
    result = memory.add(text, user_id=user, infer=infer)
    ack(turn=result.trace_id, user=user, text=text, infer=infer)
    if rng.random() < 0.15:
        memory.flush()
    if number % 12 == 11:
        ack(erasing="gone")
        memory.erase(user_id="gone")
        ack(erased="gone")
    if rng.random() < 0.1:
        memory.close()
        memory = Memory(root / "s", model=model, mode="fused", config={"workers": 0, "maintain_commits": 2})
memory.close()
"""
FAILING = """
import ctypes, errno, json, os, sys
from pathlib import Path
from memkit import Memory
from memkit.errors import MemkitError

shim, root = ctypes.CDLL(None), Path(sys.argv[1])
first, step, most = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
CODES = (errno.EIO, errno.ENOSPC, errno.EACCES)


def model(messages):
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": "Bees are kept.", "turn": 1}]})


nth, quiet = first, 0
while nth < most and quiet < 3:
    path, acked, said, strange, erased = root / f"s{nth}", [], "", "", False
    shim.faults_arm(nth, CODES[nth // step % 3])
    try:
        with Memory(path, model=model, mode="fused", config={"workers": 0, "project_every": 2}) as memory:
            for number in range(3):
                for user in ("ana", "gone"):
                    try:
                        acked.append((user, memory.add(f"I keep {number} bees, {user} {nth}.", user_id=user).trace_id))
                    except MemkitError as error:
                        said = type(error).__name__
            memory.flush()
            memory.search("bees", user_id="ana")
            memory.erase(user_id="gone")
            erased = True
            memory.backup(root / f"b{nth}")
    except MemkitError as error:
        said = type(error).__name__
    except BaseException as error:
        strange = f"{type(error).__name__}: {error}"
    failed = shim.faults_arm(0, 0)
    quiet = 0 if failed else quiet + 1
    if failed:
        told = {"nth": nth, "acked": acked, "said": said, "strange": strange, "path": str(path), "erased": erased}
        print(json.dumps(told), flush=True)
    nth += step
"""


_A_PROCESS = 100
"""Failing calls that one process tries."""


def cut_power(count: int, seed: int, *, flushes: bool = True) -> Tally:
    """`flushes=False`: the disk never does what fsync asks, and promises break: the control."""
    tally = Tally(seed)
    each = 250
    for part in range(-(-count // each)):
        with tempfile.TemporaryDirectory() as folder:
            root, log = Path(folder) / "root", Path(folder) / "log"
            root.mkdir()
            done = run_shimmed(WORK, [str(root), str(seed + part), "36"], root, log=log)
            assert done.returncode == 0, done.stderr[-2_000:]
            events = with_unseen_renames(read_log(log), root)
            events = [one for one in events if flushes or one.kind != "s"]
            for state in states(events, root, min(each, count - part * each), seed + part):
                tally.tried += 1
                to = Path(folder) / "cut"
                state.write(root, to)
                what = f"part {part}, {'strict' if state.strict else 'ordered'} state {state.number}"
                acks = _acks(events[: state.at], root)
                tally.count("after the first acknowledged turn", int(bool(acks)))
                _check_store(to / "s", acks, tally, what)
                shutil.rmtree(to, ignore_errors=True)
    return tally


def kill_at_calls(count: int, seed: int) -> Tally:
    """kill -9 at a call that changes a file, drawn from all that the work makes."""
    tally, rng = Tally(seed), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        whole = run_shimmed(WORK, [str(root), str(seed), "24"], root)
        assert whole.returncode == 0, whole.stderr[-2_000:]
        calls = [int(line) for line in whole.stdout.split()]
        for number in range(2 * count):
            if tally.tried == count:
                break
            root = Path(folder) / f"root{number}"
            root.mkdir()
            at = rng.randint(calls[0], calls[-1])
            done = run_shimmed(WORK, [str(root), str(seed), "24"], root, kill_at=at)
            what = f"killed at call {at}"
            if done.returncode not in (0, -signal.SIGKILL):
                tally.broken.append(f"{what}: it ended by {done.returncode} instead: {done.stderr[-300:]}")
            elif done.returncode == 0 or not done.stdout:
                tally.count("void: over before that call, or dead before the first turn was acknowledged")
            else:
                tally.tried += 1
                _check_store(root / "s", (root / "acks").read_text(), tally, what)
            shutil.rmtree(root)
    if tally.tried < count:
        tally.broken.append(f"only {tally.tried} of {count} were killed after the first acknowledged turn")
    return tally


def fail_calls(step: int, seed: int) -> Tally:
    """Every `step`th call of opening, adding, flushing, searching, erasing and backing up fails once."""
    tally = Tally(seed)
    first = 1 + seed % step
    while True:
        before = tally.tried
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            numbers = [str(first), str(step), str(first + _A_PROCESS * step)]
            done = run_shimmed(FAILING, [str(root), *numbers], root)
            if done.returncode:
                tally.broken.append(f"the process ended: {done.stderr[-300:]}")
            for line in done.stdout.splitlines():
                _check_failed(json.loads(line), tally)
        if done.returncode or tally.tried == before:
            return tally
        first += _A_PROCESS * step


def _check_failed(told: dict[str, Any], tally: Tally) -> None:
    tally.tried += 1
    tally.count(told["said"] or "unharmed")
    what = f"call {told['nth']} failed"
    if told["strange"]:
        tally.broken.append(f"{what}: {told['strange']}")
    acked = [turn for user, turn in told["acked"] if user != "gone"]
    _check_acked(Path(told["path"]), acked, tally, what)
    word, files = f"gone {told['nth']}.".encode(), Path(told["path"]).rglob("*")
    if told["erased"] and any(word in file.read_bytes() for file in files if file.is_file()):
        tally.broken.append(f"{what}: erased words are back")


def _acks(events: list[Event], root: Path) -> str:
    return "".join(one.data.decode() for one in events if one.kind == "w" and one.path == str(root / "acks"))


def _check_store(path: Path, acks: str, tally: Tally, what: str) -> None:
    lines = [json.loads(line) for line in acks.splitlines()]
    if not path.exists():
        if lines:
            tally.broken.append(f"{what}: the store is gone")
        return
    erased = max((place for place, line in enumerate(lines) if "erased" in line), default=-1)
    doubtful = any("erasing" in line for line in lines[erased + 1 :])
    said = [line for line in lines if "turn" in line]
    try:
        with Memory(path, config={"workers": 0}) as memory:
            journal = memory._runtime.journal
            for place, line in enumerate(lines):
                if "turn" not in line or (line["user"] == "gone" and (place < erased or doubtful)):
                    continue
                state = journal.intake(line["turn"])
                if state is None or state.intake.turns[0].text != line["text"]:
                    tally.broken.append(f"{what}: acknowledged turn {line['turn']} is missing")
            memory.flush()
            for user in journal.users():
                for bank, _ in journal.user_banks(user.user_id):
                    live = [record for _, record in journal.live(bank=bank)]
                    if list(BankState().fold(journal.ops(bank=bank))) != live:
                        tally.broken.append(f"{what}: a bank is not what its log makes")
            decided = {one.intake_id for one in journal.iter_decisions() if one.payload}
            lost = [one for one in said if one["user"] != "gone" and one["infer"] and one["turn"] not in decided]
            if lost:
                tally.broken.append(f"{what}: {len(lost)} decisions of others are lost")
            memory.doctor(repair=True)
            for problem in memory.doctor():
                if problem.code == "sealed_quarantine" and not lost:
                    tally.count("half-written versions moved aside and told")
                else:
                    tally.broken.append(f"{what}: the doctor finds {problem.code}: {problem.what[:100]}")
    except MemkitError as error:
        if said:
            tally.broken.append(f"{what}: {type(error).__name__}: {error}")
    except Exception as error:
        tally.broken.append(f"{what}: foreign {type(error).__name__}: {error}")
    if erased >= 0 and not doubtful:
        words = [line["text"].split()[-1].rstrip(".") for line in lines[:erased] if line.get("user") == "gone"]
        files = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        back = [(word, file) for word in words for file, raw in files.items() if word.encode() in raw]
        if back:
            tally.broken.append(f"{what}: {len(back)} erased words are back, in {back[0][1].relative_to(path)}")
            tally.count("erased words back")


def _check_acked(path: Path, acked: list[str], tally: Tally, what: str) -> None:
    try:
        with Memory(path, config={"workers": 0}) as memory:
            for turn in acked:
                if memory._runtime.journal.intake(turn) is None:
                    tally.broken.append(f"{what}: acknowledged turn {turn} is missing")
            memory.flush()
            memory.doctor(repair=True)
            found = [problem.code for problem in memory.doctor() if problem.code != "sealed_quarantine"]
            tally.broken += [f"{what}: the doctor finds {code}" for code in found]
    except MemkitError as error:
        if acked:
            tally.broken.append(f"{what}: the store does not open: {error}")
