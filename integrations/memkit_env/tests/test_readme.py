"""What the README shows can be said: its commands, and its sections of a prime-rl configuration."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from verifiers.v1.utils.loaders import resolve_env_config

from memkit_env.settings import StateSettings

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL) for kind in ("console", "toml")}


@pytest.mark.parametrize(
    "line", [line for block in BLOCKS["console"] for line in block.splitlines() if "vf-eval" in line]
)
def test_a_command_is_understood(line: str, tmp_path: Path) -> None:
    command, *arguments = shlex.split(line)
    program = Path(sys.executable).with_name(command)
    done = subprocess.run([str(program), *arguments, "--dry-run"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_sections_of_a_configuration_are_understood() -> None:
    sources = [
        source
        for block in BLOCKS["toml"]
        for side in tomllib.loads(block)["orchestrator"].values()
        if isinstance(side, dict)
        for source in side["source"]
    ]
    assert len(sources) == 3
    for source in sources:
        config = resolve_env_config(source["env"])
        assert isinstance(config.taskset.task.check(), StateSettings)


def test_the_table_names_every_setting() -> None:
    rows = [line.split("|")[1] for line in README.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(StateSettings.model_fields)
