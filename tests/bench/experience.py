"""What an agent learns from its runs: 200 tasks with hidden rules, one after the other, an agent that does what its
notes say, 5 seeds. Agent and reflector are scripted (`_experience_world`); memory is the real one, the budget of every
context the same."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from memkit import Memory
from tests.bench._experience_world import Asked, changed, choose, reflector, rules_of, steps_of, tasks_of
from tests.bench._table import Row

TASKS, CHANGE, BACK, SEEDS = 200, 100, 15, 5
BUDGET = 300


def run(full: bool = False) -> list[Row]:
    none = [_play(seed, _no_notes) for seed in range(SEEDS)]
    raw = [_play(seed, _raw) for seed in range(SEEDS)]
    kept = [_play(seed, _lessons(None)) for seed in range(SEEDS)]
    lessons = [_play(seed, _lessons(reflector)) for seed in range(SEEDS)]
    poisoned = [_play(seed, _lessons(reflector), poisoned=0.1) for seed in range(SEEDS)]
    over = [_play(seed, _lessons(reflector), change=True) for seed in range(SEEDS)]
    over_none = [_play(seed, _no_notes, change=True) for seed in range(SEEDS)]

    def last(runs: list[list[bool]], start: int = TASKS * 3 // 4, end: int = TASKS) -> float:
        return 100 * fmean(fmean(one[start:end]) for one in runs)

    without, by_raw, by_lessons = last(none), last(raw), last(lessons)
    cost = by_lessons - last(poisoned)
    back, level = CHANGE + BACK, last(over_none, CHANGE)
    after = last(over, back, back + 2 * BACK)
    by_seed = sorted(last([one]) for one in lessons)
    return [
        Row("last quarter, without memory", without, "%", "", True, "one guess of six"),
        Row("last quarter, raw runs as episodes", by_raw, "%", "", True),
        Row("last quarter, runs kept without a model", last(kept), "%", "", True),
        Row(
            "last quarter, lessons",
            by_lessons,
            "%",
            "without + 25",
            by_lessons >= without + 25,
            f"{by_seed[0]:.0f} to {by_seed[-1]:.0f} by seed",
        ),
        Row("lessons over raw runs", by_lessons - by_raw, "points", ">= 8", by_lessons - by_raw >= 8),
        Row("what 10 % of poisoned runs cost", cost, "points", "<= 3", cost <= 3),
        Row(
            f"rules change at {CHANGE}: tasks {back} to {back + 2 * BACK}",
            after,
            "%",
            f"> {level:.0f} (without memory)",
            after > level,
        ),
        Row("rules changed: last quarter", last(over), "%", "", True),
    ]


Notes = Callable[[Memory, Asked], tuple[list[str], str]]
Keep = Callable[[Memory, Asked, list[dict[str, object]], bool, str], None]
Arm = Callable[[Path], tuple[Memory | None, Notes, Keep]]


def _play(seed: int, arm: Arm, *, poisoned: float = 0.0, change: bool = False) -> list[bool]:
    rules, rng, done = rules_of(seed), random.Random(f"agent {seed}"), list[bool]()
    with tempfile.TemporaryDirectory() as folder:
        memory, notes_for, keep = arm(Path(folder))
        for number, task in enumerate(tasks_of(seed, TASKS, poisoned)):
            if change and number == CHANGE:
                rules = changed(rules, seed)
            notes, trace = notes_for(memory, task) if memory else ([], "")
            option = choose(task, notes, rng)
            success = option == rules[task.tool, task.who]
            done.append(success)
            if memory:
                keep(memory, task, steps_of(task, option, random.Random(f"{seed} {number}")), success, trace)
        if memory:
            memory.close()
    return done


def _no_notes(folder: Path) -> tuple[Memory | None, Notes, Keep]:
    return None, lambda memory, task: ([], ""), lambda *run: None


def _raw(folder: Path) -> tuple[Memory | None, Notes, Keep]:
    """Each run as one text that is found as it is."""

    def notes(memory: Memory, task: Asked) -> tuple[list[str], str]:
        return memory.context(task.text, user_id="agent", max_tokens=BUDGET).splitlines(), ""

    def keep(memory: Memory, task: Asked, steps: list[dict[str, object]], success: bool, trace: str) -> None:
        told = [str(one["content"] or _call(one)) for one in steps]
        text = "; ".join([f"task: {task.text}", *told, f"outcome: {'success' if success else 'failure'}"])
        memory.add(text, user_id="agent", infer=False)

    return Memory(folder / "store"), notes, keep


def _call(step: dict[str, Any]) -> str:
    function = step["tool_calls"][0]["function"]
    return f"{function['name']}({function['arguments']})"


def _lessons(model: Any) -> Arm:
    def arm(folder: Path) -> tuple[Memory | None, Notes, Keep]:
        def notes(memory: Memory, task: Asked) -> tuple[list[str], str]:
            block = memory.context(task.text, user_id="agent", kinds=("lesson",), max_tokens=BUDGET)
            return block.splitlines(), block.trace_id

        def keep(memory: Memory, task: Asked, steps: list[dict[str, object]], success: bool, trace: str) -> None:
            memory.learn(steps, task=task.text, outcome=success, user_id="agent", trace_id=trace)

        return Memory(folder / "store", model=model), notes, keep

    return arm
