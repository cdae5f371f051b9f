"""`python -m tests.bench` lists the benchmarks; `python -m tests.bench NAME [--json] [--full] [--runs N]` runs one.

Exit code 0 when every row meets its bar, 1 when one falls short, 2 for a name that does not exist.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

from tests.bench._table import as_json, as_text


def names() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", nargs="?", help="which benchmark; without it, the names are listed")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--full", action="store_true", help="the long version, where a benchmark has one")
    parser.add_argument("--runs", type=int, help="how often, where a benchmark runs one thing again and again")
    args = parser.parse_args()
    if args.name is None:
        print("\n".join(names()))
        return 0
    if args.name not in names():
        print(f"no benchmark {args.name!r}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"tests.bench.{args.name.replace('-', '_')}")
    if args.runs is not None and "runs" not in inspect.signature(module.run).parameters:
        print(f"benchmark {args.name!r} knows no --runs", file=sys.stderr)
        return 2
    rows = module.run(full=args.full, **({} if args.runs is None else {"runs": args.runs}))
    print(as_json(rows) if args.json else as_text(rows))
    return 0 if rows and all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
