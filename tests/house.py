"""The house in figures: `python -m tests.house` prints a table with a bar beside each and exits 1 when one falls short.

What is a law fails `make test`, too (test_house.py); the rest is measured here alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench._table import Row, as_text
from tests.test_house import ROOT, sources
from tests.unreached import unreached

PACKAGES = ("memkit", "memkit_train", "integrations")


def run() -> list[Row]:
    return [*_engine(), *_plan(), *_words(), *_tools()]


def _engine() -> Iterator[Row]:
    passed, failed = _tests("tests/engine/test_one_semantics.py")
    note = "prompts of Memory, replay and rewards byte for byte; banks of 5, 20, 60, 300; a cut reply"
    yield Row("one semantics: cases that differ", failed, f"of {passed + failed}", "0", failed == 0 < passed, note)
    drivers = sum(len(re.findall(r"\.send\(", path.read_text())) for path in sources("memkit", "memkit_train"))
    yield Row("places that drive an engine generator", drivers, "", "2", drivers == 2)


def _plan() -> Iterator[Row]:
    passed, failed = _tests("tests/test_house.py")
    note = "layers, cycles, what is light, names, docs"
    yield Row("laws of the house that are broken", failed, f"of {passed + failed}", "0", failed == 0 < passed, note)
    top = [path for path in (ROOT / "memkit_train").iterdir() if path.name[0] not in "_."]
    rooms, loose = sum(path.is_dir() for path in top), sum(path.suffix == ".py" for path in top)
    yield Row("memkit_train: rooms", rooms, "", "≤ 18", rooms <= 18)
    yield Row("memkit_train: loose files", loose, "", "≤ 4", loose <= 4)
    lines = sum(len(path.read_text().splitlines()) for path in sources(*PACKAGES))
    yield Row("source lines of the three packages", lines, "", "≤ 46500", lines <= 46_500)
    left = unreached()
    yield Row("code that nothing reaches", len(left), "", "0", not left, "; ".join(left[:3]))


def _words() -> Iterator[Row]:
    skips = sum(path.read_text().count("# fmt: " + "skip") for path in sources(*PACKAGES, "tests", "examples"))
    yield Row("lines kept from the formatter", skips, "", "≤ 40", skips <= 40)


def _tools() -> Iterator[Row]:
    format_check = _call("ruff", "format", "--check", ".")
    unclean = format_check.stdout.count("Would reformat")
    yield Row("files not formatter-clean", unclean, "", "0", format_check.returncode == 0)
    for name, options in (("memkit, strict", []), ("memkit_train and plugs", ["-p", "tests/pyright.json"])):
        found = _call("pyright", *options, "--pythonpath", sys.executable, "--outputjson")
        errors = json.loads(found.stdout)["summary"]["errorCount"]
        yield Row(f"pyright: {name}", errors, "errors", "0", errors == 0)


def _tests(file: str) -> tuple[int, int]:
    told = _call("pytest", file, "-q", "-n", "0", "-p", "no:cacheprovider").stdout
    passed, failed = (sum(map(int, re.findall(rf"(\d+) {word}", told))) for word in ("passed", "(?:failed|error)"))
    return passed, failed


def _call(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    found = Path(sys.executable).with_name(program)
    return subprocess.run([str(found), *arguments], capture_output=True, text=True, cwd=ROOT)


if __name__ == "__main__":
    rows = run()
    print(as_text(rows))
    sys.exit(not all(row.ok for row in rows))
