"""LangGraph's own tests of its SQLite store, and of time to live in its Postgres store, with the import swapped. They
come from the source distributions of the package index; none of them is in this repository."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.bench._table import Row
from tests.integrations._env import ENV, ROOT

OF_SQLITE_ALONE = {
    "test_vector_store_initialization",
    "test_nonnull_migrations",
    "test_escape_glob_literal",
    "test_namespace_match_pattern",
    "test_list_namespaces_prefix_uses_indexable_condition",
}
"""They look into SQLite tables and private functions; no other store can pass them."""
_IMPORT = re.compile(r"^from (langgraph\.store\.(sqlite|postgres)(\.\w+)?|psycopg|tests\.conftest) import", re.M)


def rows(full: bool = False) -> list[Row]:
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        for package, file, chosen, least in (
            ("sqlite", "test_store.py", "test", 60),
            ("sqlite", "test_ttl.py", "not async", 6),
            ("postgres", "test_store.py", "store_ttl", 3),
        ):
            try:
                found.append(_row(Path(name), package, file, chosen, least))
            except (subprocess.CalledProcessError, OSError) as error:
                why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
                found.append(Row(f"LangGraph's own {package}/{file}", None, "passed", "must run", False, why[:160]))
    return found


def _row(folder: Path, package: str, file: str, chosen: str, least: int) -> Row:
    source = _source(folder, f"langgraph-checkpoint-{package}")
    swapped = folder / f"test_{package}_{file}"
    swapped.write_text(_IMPORT.sub("from tests.bench._langgraph_swapped import", (source / "tests" / file).read_text()))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", "/dev/null",
         "-k", chosen, str(swapped)], capture_output=True, text=True, env=ENV, cwd=ROOT,
    )  # fmt: skip
    last = run.stdout.strip().splitlines()[-1].strip("= ")
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}
    failed = {name.partition("[")[0] for name in re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", run.stdout, re.MULTILINE)}
    passed = counts.get("passed", 0)
    others = sorted(failed - OF_SQLITE_ALONE)
    note = f"of {sum(counts.values())}, {source.name}; " + (
        f"fails: {', '.join(others)}" if others else f"{len(failed)} look into SQLite itself" if failed else "all"
    )
    name = f"LangGraph's own {package}/{file}" + ("" if chosen == "test" else f", {chosen}")
    return Row(name, passed, "passed", f">= {least}", passed >= least and not others, note)


def _source(folder: Path, package: str) -> Path:
    got = folder / package
    if not got.is_dir():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", str(got), package]
        subprocess.run(command, capture_output=True, text=True, check=True)
        (archive,) = got.iterdir()
        with tarfile.open(archive) as packed:
            packed.extractall(got, filter="data")
    return next(path for path in got.iterdir() if path.is_dir())
