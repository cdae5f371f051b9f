"""Any file of a store is damaged anywhere: every verb answers rightly or raises an error of ours,
and what is wrong is told. A failing run names its seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.errors import MemkitError

DETECTED = MemkitError


def model(_: list[dict[str, str]]) -> str:
    return '{"operations": [{"op": "ADD", "id": null, "text": "Ana likes tea number one.", "turn": 1}]}'


def open_store(path: Path) -> Memory:
    return Memory(path, model=model, mode="fused", config={"workers": 0})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "s"
    with open_store(path) as memory:
        for number in range(12):
            user = ("ana", "bob")[number % 2]
            memory.add(f"The train leaves from platform {number}.", user_id=user, infer=number % 3 > 0)
        memory.search("platform", user_id="ana")
        memory.flush()
    return path


def damage(path: Path, rng: random.Random) -> str:
    file = rng.choice(sorted(file for file in path.rglob("*") if file.is_file()))
    raw = bytearray(file.read_bytes())
    at = rng.randrange(len(raw)) if raw else 0
    kind = rng.choice(["flip", "zero", "cut", "gone"])
    match kind:
        case "flip" if raw:
            raw[at] ^= 1 << rng.randrange(8)
        case "zero":
            raw[at : at + 64] = bytes(len(raw[at : at + 64]))
        case _:
            del raw[at:]
    file.write_bytes(raw)
    if kind == "gone":
        file.unlink()
    return f"{kind} {file.relative_to(path)} at {at}"


def answers(memory: Memory) -> list[Any]:
    """What each verb says; DETECTED where it raises an error of ours."""
    asks: list[Callable[[], Any]] = []
    for user in ("ana", "bob"):
        asks += [
            lambda user=user: [record.text for record in memory.list(user_id=user)],
            lambda user=user: sorted(hit.text for hit in memory.search("platform", user_id=user, k=50)),
            lambda user=user: [op.text for op in memory.history(user_id=user)],
            lambda user=user: [one["reply"] for one in memory.decisions(user_id=user)],
        ]
    found: list[Any] = []
    for ask in asks:
        try:
            found.append(ask())
        except DETECTED:
            found.append(DETECTED)
    return found


@pytest.mark.parametrize("rounds", [12, pytest.param(500, marks=pytest.mark.slow)])
def test_damage_is_harmless_or_told_and_never_silent(whole: Path, tmp_path: Path, rounds: int) -> None:
    with open_store(whole) as memory:
        right = answers(memory)
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for number in range(rounds):
        shutil.copytree(whole, copy := tmp_path / f"copy{number}")
        what = f"seed {seed}, round {number}: {damage(copy, rng)}"
        print(what)
        try:
            with open_store(copy) as memory:
                found = answers(memory)
                wrong = [one for one, good in zip(found, right, strict=True) if one not in (good, DETECTED)]
                told = memory.doctor() if wrong or DETECTED in found else []
                assert not wrong or told, what
                memory.stats()
                memory.add("I keep bees.", user_id="carl", infer=False)
        except DETECTED:
            pass
        shutil.rmtree(copy)
