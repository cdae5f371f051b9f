"""Who is remembered, and what: now, or as of any of a user's operations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from memkit.errors import NotFound
from memkit.models import MEMORIES, SPACE, MemoryRecord, Op
from memkit.ops import BankState
from memkit.views.records import Chunk, Person, Remembered

if TYPE_CHECKING:
    from memkit.journal.journal import Journal


def list_people(journal: Journal) -> list[Person]:
    """All users, those who said the most first."""
    parked = Counter(state.intake.bank.user_id for state in journal.list_parked())
    found = [
        Person(one.user_id, one.agents, one.memories, one.turns, parked[one.user_id], one.last_seq, one.trainable)
        for one in journal.users()
        if not one.user_id.startswith(SPACE)
    ]
    return sorted(found, key=lambda one: (-one.turns, one.user_id))


def find_person(journal: Journal, user_id: str) -> Person:
    banks = journal.user_banks(user_id)
    said = journal.recent_intakes(user_id, limit=1)
    if not banks and not said:
        raise NotFound(
            "nothing of this user is here",
            why="nobody of that id said anything, or everything of them was erased",
            fix="look at the list of users: ids are compared letter by letter",
        )
    return Person(
        user_id,
        tuple(bank.agent_id for bank, _ in banks),
        journal.count_live(user_id=user_id, kinds=MEMORIES),
        journal.count_turns(user_id),
        len(journal.list_parked(user_id)),
        max((seq for _, seq in banks), default=0),
        all(journal.is_trainable(bank) for bank, _ in banks),
    )


def recall(journal: Journal, user_id: str, step: int | None, page: int, size: int) -> Remembered:
    """What is remembered after the `step`-th operation of the user; now where it is None. `page`: from 0."""
    ops = journal.ops(user_id=user_id)
    steps = len(ops)
    at = steps if step is None else max(0, min(step, steps))
    state = BankState().fold(ops[:at])
    everything = sorted(state, key=lambda one: -one.seq)
    memories = [one for one in everything if one.kind != "turn" and not one.standing]
    last = ops[at - 1] if at else None
    return Remembered(
        user_id,
        last.seq if last else 0,
        last.recorded_at if last else None,
        ops[-1].seq if ops else 0,
        at,
        steps,
        tuple(one for one in everything if one.standing and one.kind != "turn"),
        tuple(memories[page * size : (page + 1) * size]),
        sum(one.kind == "turn" for one in everything),
        len(memories),
    )


def list_words(journal: Journal, user_id: str, after: int, limit: int) -> Chunk:
    """The words of turns that are searchable, in the order in which they were said."""
    rows = journal.live(user_id=user_id, kinds=("turn",), after_seq=after, limit=limit)
    records: list[MemoryRecord] = [record for _, record in rows]
    return Chunk(records, str(records[-1].seq) if len(rows) == limit else None)


def list_ops(journal: Journal, user_id: str, before: int | None, limit: int, grep: str = "") -> Chunk:
    """Operations, newest first, with what was there before and after; `grep`: only those that say it."""
    found: list[Op] = []
    upto = None if before is None else before - 1
    needle = grep.casefold()
    while len(found) < limit:
        page = journal.ops(user_id=user_id, upto=upto, limit=limit, newest_first=True, words=False)
        for op in page:
            texts = (op.text, op.before and op.before.text, op.after and op.after.text)
            if not needle or any(text and needle in text.casefold() for text in texts):
                found.append(op)
        if len(page) < limit:
            return Chunk(found[:limit], str(found[limit - 1].seq) if len(found) > limit else None)
        upto = page[-1].seq - 1
    return Chunk(found[:limit], str(found[limit - 1].seq))
