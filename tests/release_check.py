"""What must hold before a release, as one command: `python -m tests.release_check` (`make release-check`).

Versions and changelog are in order; wheel and sdist install into clean environments on every Python at hand, and there
remember something; a Python that the project promises and that is not at hand is named. --only PYTHON tries that one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMOKE = ROOT / "tests" / "wheel_smoke.py"
_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?", re.MULTILINE)


def check_versions(changelog: str, version: str) -> Iterator[str]:
    """What is out of order."""
    headings = [(found["name"], found["date"]) for found in _HEADING.finditer(changelog)]
    if not headings or headings[0][0] != "Unreleased":
        yield "CHANGELOG.md does not begin with [Unreleased]"
    numbered = [(name, date) for name, date in headings if name != "Unreleased"]
    for name, date in numbered:
        if not re.fullmatch(r"\d+\.\d+\.\d+", name):
            yield f"[{name}] is no version: MAJOR.MINOR.PATCH"
        if date is None:
            yield f"[{name}] has no date"
    parts = [tuple(map(int, re.findall(r"\d+", name))) for name, _ in numbered]
    if parts != sorted(set(parts), reverse=True):
        yield "the versions of CHANGELOG.md do not fall from the newest to the oldest"
    if not numbered or numbered[0][0] != version:
        yield f"memkit.__version__ is {version}, and the newest version of CHANGELOG.md another"


def check_distributions(folder: Path, version: str) -> Iterator[str]:
    """Packages of their own are released with memkit, and are tried with that version alone."""
    for path in sorted(folder.glob("*/pyproject.toml")):
        needs = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]
        if f"memkit>={version}" not in needs:
            yield f"{path.parent.name} does not ask for memkit>={version}, with which it is released"


def promised() -> list[str]:
    """The Pythons that the classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [line.rsplit(" ", 1)[1] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]


def find_python(name: str) -> str | None:
    """A Python of this version that starts: on the path, or among pyenv's."""
    roots = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for one in (shutil.which(f"python{name}"), *sorted(map(str, roots.glob(f"{name}.*/bin/python")))):
        ran = subprocess.run([one, "-c", ""], capture_output=True, check=False) if one else None
        if one and ran and ran.returncode == 0:
            return one
    return None


def run(*words: object) -> None:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, words))}\n{(ran.stdout + ran.stderr)[-4000:]}")


def try_install(python: str, packages: list[Path], work: Path) -> None:
    """The wheel into a clean environment, then the sdist in its place; a memory is used after each. From elsewhere and
    isolated (-I), so that nothing but what was installed can be imported."""
    inside = work / "venv" / "bin" / "python"
    run(python, "-m", "venv", work / "venv")
    for package in packages:
        again = ["--force-reinstall", "--no-deps"] if package.suffix == ".gz" else []
        run(inside, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *again, package)
        (store := work / package.suffix.strip(".")).mkdir()
        run(inside, "-I", SMOKE, store)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", metavar="PYTHON", help="an interpreter, e.g. python3.12")
    only = asked.parse_args().only
    sys.path.insert(0, str(ROOT))
    from memkit import __version__

    wrong = list(check_versions((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__))
    wrong += check_distributions(ROOT / "integrations", __version__)
    for line in wrong:
        print(f"wrong      {line}")
    pythons = {only: only} if only else {name: find_python(name) for name in promised()}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT)
        packages = sorted((work / "dist").iterdir(), key=lambda path: path.suffix != ".whl")
        for number, (name, python) in enumerate(pythons.items()):
            if python is None:
                print(f"not tried  Python {name}: it is not here")
                continue
            (own := work / str(number)).mkdir()
            try_install(python, packages, own)
            print(f"ok         Python {name}: {', '.join(path.name for path in packages)}")
    print(f"{'wrong' if wrong else 'ok':<10} versions and changelog, at {__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
