"""The plugs' sections of the README, as typed: Python against a stub API, commands against the command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memkit import Memory
from memkit.cli.app import app
from tests.stub_server import StubServer

README = (Path(__file__).parents[2] / "README.md").read_text()
SECTION = README.partition("\n## Plugs\n")[2].partition("\n## ")[0]


def block(extra: str) -> str:
    found = re.search(rf"<!-- skip: needs the extra {extra} -->\n```python\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_wrapped_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai", reason="needs the extra openai")
    with StubServer(reply="You live in Oslo.") as api, Memory(tmp_path / "m") as memory:
        monkeypatch.setenv("OPENAI_BASE_URL", api.url)
        monkeypatch.setenv("OPENAI_API_KEY", "unused")
        memory.add("I live in Oslo.", user_id="ana")
        space: dict[str, object] = {"memory": memory}
        exec(compile(block("openai"), "README.md", "exec"), space)  # noqa: S102 - that is the test
        assert "User lives in Oslo." in api.bodies[0]["messages"][0]["content"]
        space["client"].close()  # type: ignore[attr-defined]


def test_tracing(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry", reason="needs the extra otel")
    with Memory(tmp_path / "m") as memory:
        exec(compile(block("otel"), "README.md", "exec"), {"memory": memory})  # noqa: S102 - that is the test
        assert "search" in vars(memory)


COMMANDS = [
    line.partition(" #")[0].strip()
    for found in re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL)
    for line in found.splitlines()
    if line.startswith("memkit ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_what_the_readme_types(command: str) -> None:
    assert len(COMMANDS) >= 5
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--help"])
    assert result.exit_code == 0, result.output
