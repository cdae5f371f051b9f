"""A bank that is stepped: whatever is searched, and in whichever order, ranks as the same records indexed at once."""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from memkit.embedders.hash import HashEmbedder
from memkit.engine.bank import LiveBank
from memkit.models import Bank, MemoryRecord, Op, OpDraft
from memkit.ops import Context, resolve
from memkit.retrieval import BankIndex, Query, rank
from memkit.retrieval.columns import Columns, Records
from tests.retrieval._banks import WORDS, bank, question, record, results, vector

NOW = datetime(2026, 5, 1, tzinfo=UTC)
EMBEDDER = HashEmbedder()


class Counting(HashEmbedder):
    texts = 0

    def embed(self, texts):  # type: ignore[no-untyped-def]
        Counting.texts += len(texts)
        return super().embed(texts)


def stepped(rng: random.Random, live: LiveBank, embedder: HashEmbedder = EMBEDDER) -> tuple[LiveBank, list[Op]]:
    """One random batch further."""
    here = [record.id for record in live.state]
    drafts: list[OpDraft] = []
    for _ in range(rng.randint(1, 3)):
        text = " ".join(rng.choices(WORDS, k=6)) + f" {rng.random()}"
        action = rng.choice(("add", "add", "add", "update", "delete")) if here else "add"
        target = here.pop(rng.randrange(len(here))) if action != "add" else None
        kind = rng.choice(("fact", "episode"))
        drafts.append(OpDraft(action, target, None if action == "delete" else text, (f"t{live.seq}",), kind=kind))  # type: ignore[arg-type]
    at = NOW + timedelta(minutes=live.seq)
    ops = resolve(live.state, drafts, Context(Bank("ana"), f"d{live.seq}-{rng.random()}", live.seq + 1, at, at))
    return live.after(ops, embedder), ops


def found(index: BankIndex) -> list[tuple[str, float, dict[str, float]]]:
    text = "When did Ana paint the lake in May 2023 with two dogs?"
    query = Query(text, EMBEDDER.embed([text])[0], k=50, now=NOW)
    return [(one.record.id, one.score, one.signals) for one in rank(index, query)]


def at_once(live: LiveBank) -> list[tuple[str, float, dict[str, float]]]:
    return found(LiveBank.of(list(live.state), EMBEDDER, live.seq).index)


def test_every_state_of_a_long_run_ranks_as_if_built_at_once_in_any_order() -> None:
    rng = random.Random(7)
    live, states = LiveBank.empty(EMBEDDER), list[LiveBank]()
    for number in range(90):
        live, _ = stepped(rng, live)
        if number % 3:  # every third state is forgotten before anybody searched it
            states.append(live)
    rng.shuffle(states)
    gc.collect()
    assert all(found(state.index) == at_once(state) for state in states)
    assert len(states[0]) == len(states[0].state)


def test_branches_of_one_state_do_not_see_each_other() -> None:
    rng = random.Random(8)
    live = LiveBank.empty(EMBEDDER)
    for _ in range(30):
        live, _ = stepped(rng, live)
        assert found(live.index)
    before = found(live.index)
    branches = [stepped(rng, live)[0] for _ in range(60)]  # more than one shelf of vectors holds
    branches += [stepped(rng, branch)[0] for branch in branches[:20]]
    for branch in branches:
        assert found(branch.index) == at_once(branch)
    assert found(live.index) == before


def test_what_nobody_searches_is_not_embedded() -> None:
    rng = random.Random(9)
    live, Counting.texts = LiveBank.empty(EMBEDDER), 0
    for _ in range(20):
        live, _ = stepped(rng, live, Counting())
    assert Counting.texts == 0
    assert found(live.index) == at_once(live)
    assert Counting.texts == len(live)
    after, ops = stepped(rng, live, Counting())
    assert found(after.index) == at_once(after)
    assert Counting.texts - len(live) == sum(op.after is not None and op.before != op.after for op in ops)


def test_a_noop_keeps_the_index() -> None:
    live, _ = stepped(random.Random(1), LiveBank.empty(EMBEDDER))
    index = live.index
    noop = resolve(live.state, [OpDraft("noop")], Context(Bank("ana"), "d", live.seq + 1, NOW, NOW))
    assert live.after(noop, EMBEDDER).index is index
    assert live.after(noop, EMBEDDER).seq == live.seq + 1


def test_branches_that_share_a_shelf_until_it_is_full_keep_their_own_rows() -> None:
    rng = random.Random(3)
    grown = [bank(rng, 40)]
    states = [BankIndex.build(*grown[0])]
    for number in range(60):
        at = rng.randrange(len(grown))
        records, vectors = grown[at]
        gone = sorted(rng.sample(range(len(records)), min(3, len(records))))
        more = [record(rng, 1000 + 100 * number + n, 1000 + 100 * number + n) for n in range(rng.randrange(12))]
        added = np.array([vector(rng) for _ in more], dtype=np.float32).reshape(len(more), 16)
        ended = [records[row].id for row in gone]
        states.append(states[at].with_changes(list(zip(more, added, strict=True)), ended))
        kept = [one for row, one in enumerate(records) if row not in gone]
        grown.append((kept + more, np.concatenate([np.delete(vectors, gone, axis=0), added])))
    query = question(rng)
    for state, (records, vectors) in zip(states, grown, strict=True):
        assert state.records == records
        assert results(state, query) == results(BankIndex.build(records, vectors), query)


def test_following_a_cold_bank_makes_only_the_records_that_are_found() -> None:
    rng = random.Random(4)
    records, vectors = bank(rng, 400)
    made: list[int] = []

    def make(rows: list[int]) -> list[MemoryRecord]:
        made.extend(rows)
        return [records[row] for row in rows]

    index = BankIndex.of_columns(Columns.of(records), vectors, Records([None] * len(records), make))
    query, held = replace(question(rng), k=5), list(zip(records, vectors, strict=True))
    for number in range(150):  # more than a shelf has room for
        fresh = record(rng, 1000 + number, 1000 + number), vector(rng)
        gone = held.pop(rng.randrange(len(held)))[0].id
        index, held = index.with_changes([fresh], [gone]), [*held, fresh]
    here = [one for one, _ in held]
    assert results(index, query) == results(BankIndex.build(here, np.array([row for _, row in held])), query)
    assert len(made) <= 5
    assert index.records == here
    assert len(set(made)) == len(made)


def test_states_that_only_grow_share_their_columns() -> None:
    rng = random.Random(6)
    before = BankIndex.build(*bank(rng, 1_000))
    after = before.with_changes([(record(rng, 5000, 5000), vector(rng))], [])
    assert np.shares_memory(before.rows.vectors, after.rows.vectors)
    assert np.shares_memory(before.rows.expires, after.rows.expires)
