"""Stores that live on: what 0.1.0 wrote, opened by this memkit, killed at each step of taking it over, and of a format
that is not known yet; and talks decided again from their log, with every read that came while turns were pending.

Set MEMKIT_TALKS for the replay.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from memkit import Memory
from memkit.embedders import make_embedder
from memkit.engine.serve import serve
from memkit.models import Bank
from memkit.ops import BankState
from memkit.retrieval import BankIndex, Query, embed_text
from memkit_train.log import StoreSource
from tests.bench._real_talks import K, Talk, talks
from tests.bench._replayed import replay
from tests.bench._runtime_parity import NOW, Stopped
from tests.bench._table import Row
from tests.bench.real import is_set
from tests.journal.test_opening import test_a_newer_format_is_refused_untouched as refuses
from tests.memory import test_old_stores as old

OPENED = (
    old.test_it_holds_what_it_held,
    old.test_it_finds_what_it_found,
    old.test_a_turn_that_it_never_decided_is_decided_now,
    old.test_what_it_holds_is_confirmed,
    old.test_its_deletion_is_undone_and_its_users_are_erased,
    old.test_what_was_said_earlier_becomes_searchable_on_request,
)
"""Each holds of a store that was just opened."""
T = TypeVar("T")
FLUSHED = 4
"""Turns that are told before they are decided; after the third, something is asked."""
Read = tuple[str, str, int, list[tuple[str, float]]]
"""Whom it was about, what was asked, the newest operation there was, and what was served."""


def run(*, full: bool = False) -> list[Row]:
    rows = [
        _row("a store of 0.1.0: same banks, search, history, undo, erase, kept turns", OPENED, _opened),
        _row("a store of 0.1.0, killed while it is taken over: whole the next time", old.KILLED, _killed),
        _row("a store of a later format: refused in words, and untouched", ("marker", "journal"), _refused),
    ]
    return [*rows, *_talks_again()] if is_set("MEMKIT_TALKS", rows) else rows


def _row(name: str, cases: Iterable[T], holds: Callable[[T], None]) -> Row:
    failed: list[str] = []
    cases = list(cases)
    for case in cases:
        try:
            holds(case)
        except AssertionError:
            failed.append(getattr(case, "__name__", str(case)))
    held, bar = len(cases) - len(failed), f"{len(cases)} of {len(cases)}"
    return Row(name, held, f"of {len(cases)}", bar, not failed, "; ".join(failed))


@contextmanager
def _made() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(old.DATA / "made.tar.gz") as tar:
        tar.extractall(folder, filter="data")
        yield Path(folder)


def _opened(check: Callable[[Memory], None]) -> None:
    with _made() as made, Memory(made / "store", config={"workers": 0}) as memory:
        check(memory)


def _killed(step: str) -> None:
    with _made() as made:
        old.test_killed_at_any_step_it_is_whole_and_taken_over_the_next_time(made, step)


def _refused(where: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        refuses(Path(folder), where)


def _talks_again() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with Memory(path, clock=Stopped(), config={"workers": 0}) as memory:
            reads = [read for talk in talks() for read in _told(memory, talk)]
            others = sum(_again(memory, read) != read[3] for read in reads)
        with StoreSource(path) as source:
            found = replay(source)
    decided, of = f"n={found.decisions} decisions", len(reads)
    is_same = found.decisions > 0 and not found.different
    has_same = found.decisions > 0 and not found.other_prompts
    return [
        Row(
            "replay with turns in the bank: scenes that end in another bank", found.different, "", "0", is_same, decided
        ),
        Row("replay with turns in the bank: other prompts", found.other_prompts, "", "0", has_same, decided),
        Row(
            "replay with turns in the bank: reads with pending turns that serve something else",
            others,
            "",
            "0",
            of > 0 and not others,
            f"n={of} reads",
        ),
    ]


def _told(memory: Memory, talk: Talk) -> Generator[Read]:
    user, questions = talk.name, [one["question"] for one in talk.questions]
    for number, turn in enumerate(talk.turns):
        message = {"role": turn["role"], "content": turn["content"]}
        memory.add(message, user_id=user, session_id=turn["session"], at=turn["at"], wait=False)
        if number % FLUSHED == FLUSHED - 2:
            asked = questions[number % len(questions)]
            hits = memory.search(asked, user_id=user, k=K)
            newest = max((op.seq for op in memory._runtime.journal.ops(bank=Bank(user))), default=0)
            yield user, asked, newest, [(hit.memory.id, hit.score) for hit in hits]
        if number % FLUSHED == FLUSHED - 1:
            memory.flush()
    memory.flush()


def _again(memory: Memory, read: Read) -> list[tuple[str, float]]:
    user, asked, newest, _ = read
    ops = memory._runtime.journal.ops(bank=Bank(user))
    records = list(BankState().fold([op for op in ops if op.seq <= newest]))
    embedder = make_embedder("hash")
    index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
    query = Query(asked, embedder.embed([asked])[0], k=K, now=NOW)
    return [(one.record.id, one.score) for one in serve(index, query)]
