"""Clean environments: each extra installs alone from the wheel, and every module of its plug imports there."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench._table import Row
from tests.integrations.test_packaging import EXTRAS, INTEGRATIONS, extras

ROOT = Path(__file__).parents[2]
MOST = 31
"""Packages of the core, all told."""
_IMPORT = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    assert package.__file__.startswith(sys.prefix), package.__file__
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""


def rows(full: bool) -> list[Row]:
    plugs = sorted(path.parent.name for path in INTEGRATIONS.glob("memkit_*/__init__.py"))
    cases: dict[str, list[str]] = {"": ["memkit_migrate"]}
    for plug in plugs:
        for extra in extras(plug):
            cases[extra] = [plug]
    assert set(EXTRAS) <= set(plugs)
    with tempfile.TemporaryDirectory() as folder:
        wheel = _wheel(Path(folder))
        return [row for extra, names in cases.items() for row in _case(Path(folder), wheel, extra, names)]


def _wheel(folder: Path) -> Path:
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(ROOT))
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def _case(folder: Path, wheel: Path, extra: str, plugs: list[str]) -> list[Row]:
    name = f"memkit[{extra}] alone, {', '.join(plugs)} imports" if extra else "core alone, memkit_migrate imports"
    place = folder / (extra or "core")
    try:
        _run(sys.executable, "-m", "venv", str(place))
        python = str(place / "bin" / "python")
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        _run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", wanted)
        _run(python, "-I", "-c", _IMPORT, *plugs)
        listed = json.loads(_run(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or ["?"])[-1]
        return [Row(name, None, "", "installs, imports", False, why[:160])]
    count = len([one for one in listed if one["name"] not in ("memkit", "pip", "setuptools")])
    if extra:
        return [Row(name, count, "packages", "installs, imports", True)]
    return [Row(name, count, "packages", f"<= {MOST}", count <= MOST)]


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tempfile.gettempdir()).stdout
