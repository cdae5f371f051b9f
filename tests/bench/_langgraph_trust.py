"""Runs in the peer's environment: LangGraph's SQLite store. Counts what `trust` counts, as far as a store that nobody
asks a model for has such a case, as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from langgraph.store.sqlite import SqliteStore  # pyright: ignore[reportMissingImports]


def ids(path: Path, given: list[str]) -> int:
    """Ids by which rows of others are read, each the first name of a namespace."""
    let_in: list[str] = []
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        for number, one in enumerate(given):
            try:
                store.put((one, "memories"), f"m{number}", {"text": f"The secret word is canary{number}."})
                let_in.append(one)
            except Exception:
                continue
        return sum(_reads_others(store, one) for one in let_in)


def _reads_others(store: SqliteStore, user: str) -> bool:
    try:
        return len(store.search((user,), limit=10_000)) > 1
    except Exception:
        return False


def erased(path: Path, count: int) -> int:
    """Canaries of a user that are in the files after everything of the user was deleted."""
    words = [f"canary{number:04d}zq" for number in range(count)]
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        for word in words:
            store.put(("eve", "memories"), word[-6:], {"text": f"The {word} sings."})
        for item in store.search(("eve",), limit=10_000):
            store.delete(item.namespace, item.key)
    raw = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    return sum(word.encode() in raw for word in words)


def main() -> None:
    request = json.loads(sys.stdin.read())
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        told = {
            "ids that read rows of others": ids(Path(one) / "s.sqlite", request["ids"]),
            "canaries left": erased(Path(other) / "s.sqlite", request["canaries"]),
        }
    print(json.dumps(told))


main()
