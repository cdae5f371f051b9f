"""memkit-env as its users install it: an environment of its own, by plain pip, with verifiers; the package's tests
there; what some managers earn through verifiers' own commands; and what a reply earns beside memkit's own engine.

Where pip does not get verifiers, all but the last row say so and count as missed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memkit_env.settings import StateSettings
from memkit_env.states import States
from memkit_train.lab.worlds import dataset
from tests.bench._peer import quiet
from tests.bench._table import Row
from tests.integrations.env.engine import EVERY, Engine, list_replies

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "integrations" / "memkit_env"
GAP = 0.2


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        try:
            python = _install(folder)
        except subprocess.CalledProcessError as error:
            why = (error.stderr.strip().splitlines() or ["?"])[-1]
            rows.append(Row("memkit-env beside verifiers", None, "", "installs", False, f"pip: {why[:160]}"))
        else:
            rows += [*_installed(python), _tests(python), *_measured(python, folder)]
    return [*rows, *(_beside_the_engine(role) for role in ("manager", "extractor"))]


def _install(folder: Path) -> Path:
    python = folder / "venv" / "bin" / "python"
    _run(sys.executable, "-m", "venv", str(folder / "venv"))
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(*install, str(ROOT), str(PACKAGE), "pytest>=8.3")
    return python


def _installed(python: Path) -> Iterator[Row]:
    listed = json.loads(_run(str(python), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
    versions = {one["name"]: one["version"] for one in listed}
    note = f"verifiers {versions['verifiers']}, memkit {versions['memkit']}"
    yield Row("memkit-env beside verifiers", len(listed), "packages", "installs", True, note)
    yield Row("torch among them", float("torch" in versions), "", "0", "torch" not in versions)


def _tests(python: Path) -> Row:
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE, env=quiet(), timeout=1200).stdout
    passed, failed = (sum(map(int, re.findall(rf"(\d+) {word}", told))) for word in ("passed", "(?:failed|error)"))
    return Row("its own tests that fail", failed, f"of {passed + failed}", "0", failed == 0 < passed)


def _measured(python: Path, folder: Path) -> Iterator[Row]:
    found: dict[str, Any] = json.loads(_run(str(python), str(PACKAGE / "tests" / "measure.py"), str(folder)))
    earned = found["earned"]
    note = f"n={found['states']} states of people to train on, vf-eval against a server on this machine"
    for name, told in (("right", "decides rightly"), ("adds", "adds everything"), ("ends", "ends what it is shown")):
        bar, ok = "", True
        if name != "right":
            bar, ok = f"≤ right − {GAP:g}" if name == "ends" else "< right", earned["right"] - earned[name] > 0
            ok = ok and (name != "ends" or earned["right"] - earned[name] >= GAP)
        yield Row(f"a manager who {told}: reward", round(earned[name], 4), "", bar, ok, note if name == "right" else "")
    yield Row("one who talks: the most that a reply earns", found["talks_most"], "", "≤ 0", found["talks_most"] <= 0)
    better, worse = 100 * found["better"], 100 * found["worse"]
    note = f"n={found['pairs']} pairs; the rest earn the same"
    yield Row("right reply above a wrong one", round(better, 1), "%", "≥ 75", better >= 75, note)
    yield Row("wrong reply above the right one", round(worse, 1), "%", "≤ 10", worse <= 10)
    gold = 100 * found["gold"]
    yield Row("vf-validate: right replies valid", round(gold, 1), "%", "≥ 90", gold >= 90)
    silent = found["solved_by_silence"]
    yield Row("vf-validate: states that silence solves", silent, "", "0", silent == 0)
    yield Row("CPU of scoring a reply", round(found["cpu_ms"], 2), "ms", "", True)


def _beside_the_engine(role: str) -> Row:
    spec = "closed,count=4,seed=4,sessions=4,probes=4"
    states = States.load(StateSettings.model_validate({"world": spec, "role": role, "questions": EVERY}))
    engine = Engine.of(role, [one.info["episode"] for one in dataset.load(f"{spec},split=train").conversations])
    gaps = [
        abs(states.score(key, reply, cut=cut).total - engine.score(key, reply, cut))
        for key, asked in states.items()
        for reply, cut in list_replies(states.write_right_reply(key) or "", len(asked.prompt.view.shown))
    ]
    note = f"n={len(gaps)} replies in {len(states)} states"
    return Row(f"{role}: largest gap to memkit's own engine", max(gaps), "", "≤ 1e-12", max(gaps) <= 1e-12, note)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1200, env=quiet())
    return done.stdout
