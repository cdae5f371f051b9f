"""What the words cost: a search in banks of many turns beside a numpy scan of the same vectors, what keeping turns adds
to an `add` and to the disk, and the tokens that a model is asked with.

Needs MEMKIT_TALKS. Every bar is on CPU time, bytes or tokens, beside a control in the same run. `--full` fills the bank
to 100,000 turns.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from memkit import Memory
from memkit.results import Hits
from tests.bench import _big_banks, _prompt_tokens
from tests.bench._big_banks import cpu_ms
from tests.bench._real_talks import Talk, talks
from tests.bench._table import Row

FOUND_TURNS = 120
"""Told and looked for at once, with each embedder."""
BURST = 50
"""Turns that are told before they are decided."""
NAMED = 80
"""Characters of a turn that are asked for."""
IDLE = {"workers": 0}
"""Nobody decides meanwhile."""
Told = Sequence[tuple[dict[str, str], dict[str, Any]]]
"""Messages, and the scope and time that each is added with."""


def run(*, full: bool = False) -> list[Row]:
    rows = _big_banks.rows(full)
    if not os.environ.get("MEMKIT_TALKS"):
        return [*rows, Row("MEMKIT_TALKS is not set: its rows are left out", None, "", "", True)]
    found = talks()
    said = _said(found)
    rows += [_findable(embedder, said[:FOUND_TURNS]) for embedder in ("hash", "minilm", "multilingual")]
    return [*rows, _adding(said), *_on_disk(said), *_prompt_tokens.rows(found)]


def _said(found: Sequence[Talk]) -> Told:
    return [
        (
            {"role": turn["role"], "content": turn["content"]},
            {"user_id": talk.name, "session_id": turn["session"], "at": turn["at"]},
        )
        for talk in found
        for turn in talk.turns
    ]


def _findable(embedder: str, said: Told) -> Row:
    """What a search costs more than the next of the same words, because of a turn that was just told; and the `add`."""
    spent: list[float] = []
    lost = 0
    with tempfile.TemporaryDirectory() as folder, Memory(folder + "/s", embedder=embedder, config=IDLE) as memory:
        for message, scope in said:
            asked, user = message["content"][:NAMED], scope["user_id"]

            def search(asked: str = asked, user: str = user) -> Hits:
                return memory.search(asked, user_id=user)

            search()
            added, add = cpu_ms(lambda m=message, s=scope: memory.add(m, **s, wait=False))
            hits, first = cpu_ms(search)
            spent.append(add + first - cpu_ms(search)[1])
            lost += added.turns[0].turn_id not in [hit.memory.id for hit in hits]
    name = f"keeping turns: from add to findable with the embedding, {embedder}"
    return Row(name, median(spent), "CPU-ms", "reported", not lost, f"n={len(said)}, {lost} not found")


def _adding(said: Told) -> Row:
    """Two stores, told the same by turns, that decide between bursts."""
    spent: dict[str, list[float]] = {"all": [], "logged": []}
    with tempfile.TemporaryDirectory() as folder:
        stores = {keep: Memory(Path(folder) / keep, embedder="hash", keep_turns=keep, config=IDLE) for keep in spent}
        for number, (message, scope) in enumerate(said):
            for keep in sorted(spent, reverse=bool(number % 2)):
                add = stores[keep].add
                spent[keep].append(cpu_ms(lambda add=add, m=message, s=scope: add(m, **s, wait=False))[1])
            if number % BURST == 0:
                for memory in stores.values():
                    memory.flush()
        for memory in stores.values():
            memory.close()
    kept, none = (median(times) for times in spent.values())
    more = 100 * (kept / none - 1)
    note = f"{kept:.2f} CPU-ms with keep_turns='all', {none:.2f} with 'logged'; n={len(said)}"
    return Row("keeping turns: CPU of add(wait=False), more", more, "%", "<= 15", more <= 15, note)


def _on_disk(said: Told) -> Iterator[Row]:
    """The same talks decided with turns kept and without; what the journal has free, later turns fill."""
    kept, none = (_sizes(keep, said) for keep in ("all", "logged"))
    for place, (more, of) in enumerate(zip(kept, none, strict=True)):
        name = f"keeping turns: bytes per turn in {('the journal', 'lance/')[place]}"
        yield Row(name, more - of, "B", "reported", True, f"{more:.0f} in all; n={len(said)}")
    both = sum(kept) - sum(none)
    yield Row("keeping turns: bytes per turn in both", both, "B", "<= 2500", both <= 2_500)


def _sizes(keep: str, said: Told) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        with Memory(path, embedder="hash", keep_turns=keep) as memory:
            for message, scope in said:
                memory.add(message, **scope, wait=False)
            memory.flush()
            memory._runtime.projector.project(maintain=True)
        with closing(sqlite3.connect(path / "journal.sqlite")) as journal:
            pages, free, size = (
                journal.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        in_lance = sum(file.stat().st_size for file in (path / "lance").rglob("*") if file.is_file())
    return (pages - free) * size / len(said), in_lance / len(said)
