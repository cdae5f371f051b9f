"""Each plug stands alone: its own folder, its own extra, imported by nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations._env import ENV
from tests.test_house import COMES_WITH, IMPORT_NAMES, PROJECT, ROOT, declared, imports, where

INTEGRATIONS = ROOT / "integrations"
PLUGS = sorted(path.name for path in INTEGRATIONS.glob("memkit_*") if (path / "__init__.py").is_file())
EXTRAS = {"memkit_openai": ["openai", "anthropic", "proxy"], "memkit_migrate": [], "memkit_http": ["ui", "rest"]}
"""Where they differ from the plug's own name."""
SHARED = ("memkit_plug", "memkit_http")
"""What plugs stand on."""
ALSO = {
    "memkit_mcp": {"pydantic"},
    "memkit_rest": {"pydantic", "anyio"},
    "memkit_ui": {"memkit_train"},
    "memkit_otel": {"opentelemetry"},
    "memkit_agents": {"agents"},
}


def extras(plug: str) -> list[str]:
    name = plug.removeprefix("memkit_")
    known = PROJECT["optional-dependencies"]
    return EXTRAS.get(plug, [one for one in dict.fromkeys((name, name.replace("_", "-"))) if one in known])


@pytest.mark.parametrize("plug", [plug for plug in PLUGS if plug in EXTRAS or extras(plug)])
def test_a_plug_imports_its_own_extra_and_no_other_plug(plug: str) -> None:
    allowed = declared(*extras(plug)) | ALSO.get(plug, set()) | set(IMPORT_NAMES.values())
    allowed |= {name for name, owner in COMES_WITH.items() if owner in allowed}
    allowed |= set(sys.stdlib_module_names) | {"memkit", *SHARED, plug}
    foreign = [
        f"{where(path, line)}: {module}"
        for path in sorted((INTEGRATIONS / plug).rglob("*.py"))
        for module, line in imports(path, typing=True)
        if module.split(".")[0] not in allowed and not _comes_with(module, allowed)
    ]
    assert foreign == []


def _comes_with(module: str, allowed: set[str]) -> bool:
    """Parts of a declared distribution: langgraph_store beside langgraph, langchain_core beside langchain."""
    return any(name.split("_")[0] == module.split(".")[0].split("_")[0] for name in allowed if name != "memkit")


@pytest.mark.parametrize(
    "plug",
    ["memkit_mcp", "memkit_openai", "memkit_otel", "memkit_migrate", "memkit_http", "memkit_rest", "memkit_ui"],
)
def test_naming_a_plug_loads_no_sdk(plug: str) -> None:
    """So that `memkit serve` can say what is missing, and an MCP client is answered while the SDK loads."""
    sdks = {"mcp", "openai", "anthropic", "opentelemetry", "httpx", "starlette"}
    program = f"import sys, {plug}; print(*(set(sys.modules) & {sdks}))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ENV)
    assert run.stdout.split() == []


@pytest.mark.parametrize(
    ("program", "extra"),
    [
        ("from memkit_mcp import serve_stdio; serve_stdio(None, None)", "mcp"),
        ("from memkit_mcp import build_server", "mcp"),
        ("from memkit_openai import serve_proxy; serve_proxy(None, 'x')", "proxy"),
        ("from memkit_otel import instrument", "otel"),
    ],
)
def test_a_missing_extra_is_named(program: str, extra: str, tmp_path: Path) -> None:
    hide = "import sys; sys.modules.update(dict.fromkeys(['mcp', 'opentelemetry'])); sys.path_importer_cache.clear()\n"
    hide += "import importlib.util as u; f = u.find_spec\n"
    hide += "u.find_spec = lambda name, *a: None if name in ('mcp', 'uvicorn') else f(name, *a)\n"
    run = subprocess.run([sys.executable, "-c", hide + program], capture_output=True, text=True, env=ENV)
    assert run.returncode == 1
    assert f"memkit[{extra}]" in run.stderr.splitlines()[-1], run.stderr
