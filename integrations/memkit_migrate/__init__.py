"""Moving in: memories from mem0 (its local store, its exports), LangGraph stores and plain JSON lines.

    from memkit_migrate import from_mem0, migrate
    print(migrate(memory, from_mem0("~/.mem0"), dry_run=True))

Each memory keeps its text, user, time and metadata, and gets the origin `import`. Coming again is safe: what has been
moved once is known by its old id. `python -m memkit_migrate --help` does the same from the command line.
"""

from __future__ import annotations

from memkit_migrate.langgraph import from_langgraph
from memkit_migrate.lines import from_jsonl
from memkit_migrate.mem0 import from_mem0
from memkit_migrate.moving import Foreign, MoveReport, Unreadable, migrate
from memkit_migrate.sources import run

__all__ = ["Foreign", "MoveReport", "Unreadable", "from_jsonl", "from_langgraph", "from_mem0", "migrate", "run"]
