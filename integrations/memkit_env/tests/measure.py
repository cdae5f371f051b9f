"""`python measure.py FOLDER`: what three managers and a talker earn through verifiers' commands, as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from served import Model, serve
from test_commands import read_traces, rewards, run

from memkit_env.settings import StateSettings
from memkit_env.states import States, load_states

WORLD = "closed,count=6,seed=9,sessions=6,probes=6"


def measure(folder: Path) -> dict[str, object]:
    states = load_states(StateSettings(world=WORLD))
    right = {key: states.write_right_reply(key) or "" for key in states}
    by_prompt = {states[key].user: reply for key, reply in right.items()}
    models: dict[str, Model] = {
        "right": lambda messages: by_prompt[messages[-1]["content"]],
        "adds": lambda messages: "ADD",
        "ends": lambda messages: "DELETE 1",
        "talks": lambda messages: "I think that this is worth keeping, so I would add it.",
    }
    earned: dict[str, list[float]] = {}
    with serve(models) as url:
        for model in models:
            access = ["--client.base-url", url, "--client.api-key-var", "NO_KEY", "--no-push", "--no-rich"]
            where = ["--env.taskset.task.world", WORLD, "-o", ".", "--run.name", model]
            done = run(folder, "vf-eval", "memkit-env", "--model", model, *access, *where)
            assert done.returncode == 0, done.stderr[-2000:]
            earned[model] = rewards(read_traces(folder / model))
    where = ["--taskset.task.world", WORLD, "--runtime.type", "subprocess", "--no-rich", "-o", ".", "--run.name", "v"]
    done = run(folder, "vf-validate", "memkit-env", *where)
    assert done.returncode == 0, done.stderr[-2000:]
    checks = json.loads((folder / "v" / "summary.json").read_text())["checks"]
    began = time.process_time()
    gaps = list(list_gaps(states, right))
    return {
        "states": len(states),
        "earned": {model: fmean(found) for model, found in earned.items()},
        "talks_most": max(earned["talks"]),
        "pairs": len(gaps),
        "better": fmean(gap > 1e-9 for gap in gaps),
        "worse": fmean(gap < -1e-9 for gap in gaps),
        "gold": checks["gold"]["valid"] / len(states),
        "solved_by_silence": checks["noop"]["invalid"],
        "cpu_ms": (time.process_time() - began) / (len(gaps) + len(states)) * 1e3,
    }


def list_gaps(states: States, right: dict[str, str]) -> Iterator[float]:
    """By how much the right reply earns more than each wrong one."""
    for key, reply in right.items():
        best = states.score(key, reply).total
        handles = [one.handle for one in states[key].prompt.view.shown]
        named = ["NOOP", "ADD", *(f"DELETE {handle}" for handle in handles)]
        for wrong in named:
            if not reply.startswith(wrong.partition(" ")[0]) or (wrong.startswith("DELETE") and reply != wrong):
                yield best - states.score(key, wrong).total


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(Path(sys.argv[1]))))
