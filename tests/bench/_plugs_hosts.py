"""LangGraph, LangChain, the Agents SDK, Anthropic's memory tool, Pydantic AI, LlamaIndex: their tests, and what
a put and a search of the LangGraph store cost. And whether every example and every page was run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tests.bench._table import Row
from tests.integrations._env import ENV, ROOT

TESTS = ("langgraph", "langchain", "agents", "anthropic", "pydantic_ai", "llamaindex", "hosts_readme")
EXPORTS = "tests/trajectories/test_rows.py::test_exports_load_in_trl_and_datasets"
SUITE = "tests/integrations/test_langchain.py::TestRetriever"
_STANDARD = ("k_constructor_param", "invoke_with_k_kwarg", "invoke_returns_documents", "ainvoke_returns_documents")


def rows(full: bool = False) -> list[Row]:
    found = [_tests(f"tests of {name}", f"tests/integrations/test_{name}.py") for name in TESTS]
    found += [_suite(), _executed(), _tests("exported training files load in TRL", EXPORTS)]
    try:
        found += _costs(full)
    except ImportError as error:
        found.append(Row("LangGraph store: put", None, "ms", "must run", False, str(error)[:160]))
    return found


def _pytest(*selected: str) -> tuple[int, str]:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selected],
        capture_output=True,
        text=True,
        env=ENV,
        cwd=ROOT,
    )
    lines = [line for line in run.stdout.splitlines() if " passed" in line or " failed" in line or " skipped" in line]
    return run.returncode, lines[-1].strip("= ") if lines else "no test ran"


def _tests(name: str, *selected: str) -> Row:
    code, last = _pytest(*selected)
    passed = _passed(last)
    return Row(name, passed, "passed", "all", code == 0 and passed > 0, last)


def _suite() -> Row:
    code, last = _pytest(*(f"{SUITE}::test_{name}" for name in _STANDARD))
    passed = _passed(last)
    return Row("langchain-tests: retriever suite", passed, "passed", "4 of 4", code == 0 and passed == 4, last)


def _executed() -> Row:
    """Nothing may be skipped: an example or a page that was not run counts as missed."""
    code, last = _pytest("tests/examples", "tests/test_readme.py")
    ok = code == 0 and "skipped" not in last
    return Row("examples, README and guides, executed", _passed(last), "passed", "all, none skipped", ok, last)


def _passed(last: str) -> int:
    return next((int(part.split()[0]) for part in last.split(", ") if " passed" in part), 0)


def _costs(full: bool) -> list[Row]:
    """No bar but to run: the journal flushes the disk for every put, whichever disk that is."""
    from memkit_langgraph import MemkitStore

    items = 2_000 if full else 500
    with tempfile.TemporaryDirectory() as folder, MemkitStore(f"{folder}/m") as store:
        put = _median(
            [lambda n=n: store.put(("users", f"u{n % 50}"), f"k{n}", {"text": f"fact {n}"}) for n in range(items)]
        )
        get = _median([lambda n=n: store.get(("users", f"u{n % 50}"), f"k{n}") for n in range(200)])
        store.search(("users",), query="fact")
        search = _median([lambda n=n: store.search(("users",), query=f"fact {n}") for n in range(30)])
        flt = _median([lambda: store.search(("users",), filter={"text": {"$eq": "fact 7"}}) for _ in range(30)])
    note = f"median, {items} items"
    return [
        Row("LangGraph store: put", put, "ms", "-", True, note),
        Row("LangGraph store: get", get, "ms", "-", True, note),
        Row("LangGraph store: search by query, all users", search, "ms", "-", True, note),
        Row("LangGraph store: search by filter, all users", flt, "ms", "-", True, note),
    ]


def _median(calls: list[Callable[[], object]]) -> float:
    times: list[float] = []
    for call in calls:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1_000)
    return statistics.median(times)
