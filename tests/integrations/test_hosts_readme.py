"""The README on agent frameworks, as typed, with models that need no network; and what names a missing extra."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memkit import Memory
from tests.integrations._env import ENV
from tests.integrations.test_plugs_readme import block


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        yield memory


def run(extra: str, **space: Any) -> dict[str, Any]:
    exec(compile(block(extra), "README.md", "exec"), space)  # noqa: S102 - that is the test
    return space


def test_langgraph(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    graphs = pytest.importorskip("langgraph.graph", reason="needs the extra langgraph")
    builder = graphs.StateGraph(dict).add_node("n", lambda state: state).add_edge(graphs.START, "n")
    assert run("langgraph", memory=memory, builder=builder)["graph"].store is not None
    assert "green tea" in capsys.readouterr().out


def test_langchain(memory: Memory) -> None:
    pytest.importorskip("langchain.agents", reason="needs the extra langchain")
    from langchain_core.messages import AIMessage

    from tests.integrations.test_langchain import Model

    model = Model(messages=iter([AIMessage("In Oslo.")]), seen=[])
    run("langchain", memory=memory, model=model)
    assert "Oslo" in model.seen[0][0].content


def test_agents(memory: Memory) -> None:
    pytest.importorskip("agents.memory", reason="needs the extra agents")
    from agents import Agent, set_tracing_disabled

    from tests.integrations.test_agents import Echo

    set_tracing_disabled(True)
    model = Echo("In Oslo.")
    space = run("agents", memory=memory, agent=Agent(name="a", model=model))
    assert "Oslo" in model.given[0][0]
    space["session"]._inner.close()


def test_anthropic(memory: Memory) -> None:
    pytest.importorskip("anthropic.lib.tools", reason="needs the extra anthropic")
    given: dict[str, Any] = {}

    def run_tools(**request: Any) -> Any:
        given.update(request)
        return SimpleNamespace(until_done=lambda: None)

    client = SimpleNamespace(beta=SimpleNamespace(messages=SimpleNamespace(run_tools=run_tools)))
    run("anthropic", memory=memory, client=client, messages=[])
    assert given["tools"][0].to_dict()["name"] == "memory"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # its run_sync leaves a loop behind
def test_pydantic_ai(memory: Memory) -> None:
    pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra pydantic-ai")
    from tests.integrations.test_pydantic_ai import model

    seen: list[Any] = []
    run("pydantic-ai", memory=memory, model=model(seen))
    assert "Oslo" in str(seen)


def test_llamaindex(memory: Memory) -> None:
    pytest.importorskip("llama_index.core.memory", reason="needs the extra llamaindex")
    assert run("llamaindex", memory=memory)["chat"].memory_blocks[0].user_id == "ana"


@pytest.mark.parametrize(
    ("program", "extra", "hidden"),
    [
        ("import memkit_langgraph", "langgraph", "langgraph"),
        ("from memkit_langchain import MemkitMiddleware", "langchain", "langchain"),
        ("import memkit_agents", "agents", "agents"),
        ("import memkit_anthropic", "anthropic", "anthropic"),
        ("from memkit_pydantic_ai import MemkitCapability", "pydantic-ai", "pydantic_ai"),
        ("import memkit_llamaindex", "llamaindex", "llama_index"),
    ],
)
def test_a_missing_extra_is_named(program: str, extra: str, hidden: str) -> None:
    hide = f"import sys; sys.modules[{hidden!r}] = None\n"
    ran = subprocess.run([sys.executable, "-c", hide + program], capture_output=True, text=True, env=ENV)
    assert ran.returncode == 1
    assert f"memkit[{extra}]" in ran.stderr.splitlines()[-1], ran.stderr
