"""Clean environments: each extra installs alone from the wheel, and every module that it is there for imports there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench._table import Row
from tests.integrations.test_packaging import EXTRAS, PLUGS, extras
from tests.test_house import PROJECT

ROOT = Path(__file__).parents[2]
MOST = 31
"""Packages of the core, all told."""
OWN = {
    "": ["memkit_migrate", "memkit_plug"],
    "local": ["memkit.backbones", "memkit.adapters"],
    "minilm": ["memkit.embedders"],
    "small": ["memkit.backbones.small"],
    "fastembed": ["memkit.embedders"],
    "multilingual": ["memkit.embedders"],
    "litellm": ["memkit.net", "memkit.roles"],
    "pdf": ["memkit.text"],
    "postgres": ["memkit.journal"],
    "tinker": ["memkit_train.rl"],
    "train": ["memkit_train"],
}
"""What extras are for that are no plug's own."""
TOGETHER = {"dev", "docs", "plugs"}
"""What `make test` itself installs, and imports all of; what `make docs` does."""
TORCH = os.environ.get("TORCH", "torch==2.13.0")
"""Installed first where an extra needs it, as the Makefile does, so that no other package picks a build of its own."""
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
    assert set(EXTRAS) <= set(PLUGS)
    with tempfile.TemporaryDirectory() as folder:
        wheel = _wheel(Path(folder))
        return [_case(Path(folder), wheel, extra, names) for extra, names in sorted(cases().items())]


def cases() -> dict[str, list[str]]:
    """Extra ("": none) → the packages that import with it alone. No extra may be without."""
    found = {extra: list(names) for extra, names in OWN.items()}
    for plug in PLUGS:
        for extra in extras(plug):
            found.setdefault(extra, []).append(plug)
    assert set(found) | TOGETHER == {"", *PROJECT["optional-dependencies"]}
    return found


def _wheel(folder: Path) -> Path:
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(ROOT))
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def _case(folder: Path, wheel: Path, extra: str, packages: list[str]) -> Row:
    name = f"memkit[{extra}] alone" if extra else "core alone"
    place = folder / (extra or "core")
    needs = PROJECT["optional-dependencies"].get(extra, [])
    try:
        _run(sys.executable, "-m", "venv", str(place))
        python = str(place / "bin" / "python")
        if extra:
            _linked(folder / "core", place)
        install = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
        if any(line.startswith("torch") for line in needs):
            _run(*install, TORCH)
        _run(*install, f"{wheel}[{extra}]" if extra else str(wheel))
        _run(python, "-I", "-c", _IMPORT, *packages)
        listed = json.loads(_run(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or ["?"])[-1]
        return Row(name, None, "", "installs, imports", False, why[:160])
    finally:
        if extra:
            shutil.rmtree(place, ignore_errors=True)
    count = len([one for one in listed if one["name"] not in ("memkit", "pip", "setuptools")])
    note = f"imports {', '.join(packages)}"
    if extra:
        return Row(name, count, "packages", "installs, imports", True, note)
    return Row(name, count, "packages", f"<= {MOST}", count <= MOST, note)


def _linked(core: Path, place: Path) -> None:
    """What every extra begins with is unpacked once; pip then resolves and installs as into any environment."""
    (there,), (here,) = (sorted(env.glob("lib/*/site-packages")) for env in (core, place))
    own = {"__pycache__", *os.listdir(here)}  # pip and its like are there already; nobody shares compiled modules
    shutil.copytree(there, here, copy_function=os.link, dirs_exist_ok=True, ignore=lambda _, names: own & {*names})


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tempfile.gettempdir()).stdout
