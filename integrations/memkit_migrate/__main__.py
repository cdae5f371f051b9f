"""`python -m memkit_migrate --from mem0 ~/.mem0 --store ./memory --dry-run`"""

from __future__ import annotations

import argparse
import json
import sys

from memkit.errors import MemkitError
from memkit_migrate.sources import SOURCES, run


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m memkit_migrate", description="Move memories into memkit.")
    parser.add_argument("path", help="what to read")
    parser.add_argument("--from", dest="source", choices=SOURCES, required=True)
    parser.add_argument("--store", default="./memory")
    parser.add_argument("--user", help="whose memories those are that name nobody (langgraph: all of them)")
    parser.add_argument("--user-label", type=int, default=-1, help="langgraph: which label of a namespace is the user")
    parser.add_argument("--dry-run", action="store_true", help="read and check only")
    parser.add_argument("--embedder", help="of a new store, or to embed at once; else the app does, later")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        report = run(
            args.source,
            args.path,
            args.store,
            user_id=args.user,
            user_label=args.user_label,
            dry_run=args.dry_run,
            embedder=args.embedder,
        )
    except MemkitError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write((json.dumps(report.to_dict(), ensure_ascii=False) if args.json else str(report)) + "\n")
    return report.code


if __name__ == "__main__":
    sys.exit(main())
