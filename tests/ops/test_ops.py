"""The four operations, as rules and as laws."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import DuplicateMemory, MemkitError, NotFound, OpRejected, RevisionConflict, UndoConflict
from memkit.models import Bank, MemoryRecord, Op, OpDraft, content_hash, to_json
from memkit.ops import BankState, Context, GuardLimits, Past, apply, check_batch, check_caps, inverse, resolve

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BANK = Bank("ana")


def at(state: BankState, decision: str, **changes: object) -> Context:
    fields = {"bank": BANK, "decision_id": decision, "first_seq": state.seq + 1, "now": NOW, "at": NOW} | changes
    return Context(**fields)  # type: ignore[arg-type]


def add(text: str, turn: str = "t1", **rest: object) -> OpDraft:
    return OpDraft("add", text=text, source_turns=(turn,), **rest)  # type: ignore[arg-type]


def bank_of(*texts: str) -> BankState:
    state, _ = apply(BankState(), [add(text, f"t{n}") for n, text in enumerate(texts)], at(BankState(), "seed"))
    return state


def test_an_exact_duplicate_add_becomes_a_noop_that_joins_source_turns() -> None:
    state = bank_of("Ana has a dog.")
    state, ops = apply(state, [add("ana has  a dog", "t9")], at(state, "d2"))
    assert [op.action for op in ops] == ["noop"]
    assert [(r.source_turns, r.revision) for r in state] == [(("t0", "t9"), 1)]


def test_a_memory_said_for_ever_names_its_first_and_latest_turns_and_the_log_names_all() -> None:
    state, log = bank_of("Ana has a dog."), list[Op]()
    for n in range(1, 500):
        state, ops = apply(state, [add("Ana has a dog", f"t{n}")], at(state, f"d{n}"))
        log += ops
    (record,) = state
    assert record.source_turns == tuple(f"t{n}" for n in (*range(8), *range(476, 500)))
    assert [op.source_turns for op in log] == [(f"t{n}",) for n in range(1, 500)]
    assert len(to_json(log[-1].to_dict())) < 2 * len(to_json(log[40].to_dict()))
    again, ops = apply(state, [add("Ana has a dog", "t499")], at(state, "again"))
    assert ops[0].before is ops[0].after
    assert again.hash() == state.hash()


def test_episodes_said_twice_are_two_memories_facts_are_one() -> None:
    twice = [add("Thanks!", kind="episode", content_salt=salt) for salt in ("monday", "tuesday")]
    assert len(apply(BankState(), twice, at(BankState(), "d"))[0]) == 2


def test_update_keeps_the_id_raises_the_revision_and_joins_sources() -> None:
    state = bank_of("Ana has a dog named Buddy.")
    (before,) = state
    state, ops = apply(state, [OpDraft("update", before.id, "Ana has two dogs.", ("t5",))], at(state, "d2"))
    (after,) = state
    assert (after.id, after.text, after.revision, after.source_turns) == (
        before.id,
        "Ana has two dogs.",
        2,
        ("t0", "t5"),
    )
    assert ops[0].before == before
    assert ops[0].after == after


def test_update_that_changes_nothing_is_a_noop() -> None:
    state = bank_of("Ana has a dog.")
    (record,) = state
    _, ops = apply(state, [OpDraft("update", record.id, record.text)], at(state, "d2"))
    assert ops[0].action == "noop"


def test_update_into_the_content_of_another_memory_is_refused() -> None:
    state = bank_of("Ana has a dog.", "Ana has a cat.")
    first, _second = state
    with pytest.raises(DuplicateMemory):
        apply(state, [OpDraft("update", first.id, "ana has a CAT")], at(state, "d2"))


def test_later_drafts_see_earlier_ones_and_a_bad_one_refuses_the_whole_batch() -> None:
    state = bank_of("Ana has a dog.")
    (record,) = state
    gone_then_updated = [OpDraft("delete", record.id), OpDraft("update", record.id, "x")]
    with pytest.raises(NotFound) as error:
        apply(state, gone_then_updated, at(state, "d2"))
    assert error.value.details["index"] == 1
    assert len(state) == 1


def test_expected_revision_guards_against_lost_updates() -> None:
    state = bank_of("one")
    (record,) = state
    state, _ = apply(state, [OpDraft("update", record.id, "two", expected_revision=1)], at(state, "d2"))
    with pytest.raises(RevisionConflict):
        apply(state, [OpDraft("update", record.id, "three", expected_revision=1)], at(state, "d3"))


def test_ids_are_derived_from_the_decision_so_replay_yields_the_same() -> None:
    once, again = bank_of("a", "b"), bank_of("a", "b")
    assert once.hash() == again.hash()
    assert [r.id for r in once] == [r.id for r in again]


def test_undo_refuses_when_something_was_built_on_top() -> None:
    state = bank_of("one")
    (record,) = state
    state, first = apply(state, [OpDraft("update", record.id, "two")], at(state, "d2"))
    state, _ = apply(state, [OpDraft("update", record.id, "three")], at(state, "d3"))
    undo = inverse(first[0])
    assert undo is not None
    with pytest.raises(RevisionConflict):
        apply(state, [undo], at(state, "d4"))


def test_undo_of_a_deletion_refuses_to_make_a_twin() -> None:
    state = bank_of("one")
    (record,) = state
    state, gone = apply(state, [OpDraft("delete", record.id)], at(state, "d2"))
    state, _ = apply(state, [add("one")], at(state, "d3"))
    undo = inverse(gone[0])
    assert undo is not None
    with pytest.raises(UndoConflict):
        apply(state, [undo], at(state, "d4"))


# ---- laws ------------------------------------------------------------------------------------------------

WORDS = ["dog", "cat", "Oslo", "Bergen", "tea", "🙂", "\u202eabc", "NUL\x00byte"]


def random_history(seed: int, steps: int) -> tuple[BankState, list[Op]]:
    rng, state, log = random.Random(seed), BankState(), []
    for step in range(steps):
        live = [record.id for record in state]
        drafts: list[OpDraft] = []
        for _ in range(rng.randint(1, 3)):
            action = rng.choice(["add", "add", "update", "delete", "noop"])
            target = rng.choice(live) if live else None
            text = " ".join(rng.sample(WORDS, rng.randint(1, 3)))
            if action != "add" and target is None:
                action = "add"
            drafts.append(OpDraft(action, None if action == "add" else target, text, (f"t{step}",)))  # type: ignore[arg-type]
        # The clock runs backwards on purpose: order must come from sequence numbers alone.
        context = at(state, f"d{step}", now=NOW - timedelta(days=step), at=NOW - timedelta(hours=step))
        try:
            state, ops = apply(state, drafts, context)
        except MemkitError:
            continue
        log.extend(ops)
    return state, log


@given(st.integers(0, 10_000), st.integers(1, 12), st.randoms())
@settings(max_examples=150, deadline=None)
def test_folding_the_log_in_any_delivery_order_gives_the_state(seed: int, steps: int, rng: random.Random) -> None:
    state, log = random_history(seed, steps)
    shuffled = list(log)
    rng.shuffle(shuffled)
    assert BankState().fold(shuffled) == state
    over_the_wire = [Op.from_dict(json.loads(to_json(op.to_dict()))) for op in log]
    assert BankState().fold(over_the_wire).hash() == state.hash()


@given(st.integers(0, 10_000), st.integers(1, 10))
@settings(max_examples=150, deadline=None)
def test_undo_of_the_last_op_restores_the_content(seed: int, steps: int) -> None:
    state, log = random_history(seed, steps)
    before = BankState().fold(log[:-1])
    undo = inverse(log[-1])
    if undo is None:
        assert before.content() == state.content()
        return
    undone, _ = apply(state, [undo], at(state, "undo", cause="undo"))
    assert undone.content() == before.content()
    assert [r.revision for r in undone] >= [1] * len(undone)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_content_is_unique_and_indexed_in_every_state(seed: int) -> None:
    state, _ = random_history(seed, 10)
    hashes = [record.content_hash for record in state]
    assert len(set(hashes)) == len(hashes)
    assert all(state.find(record.content_hash) == record.id for record in state)
    assert all(record.content_hash == content_hash(record.text, record.kind) for record in state)


# ---- the guard -------------------------------------------------------------------------------------------


def shown(count: int, **fields: object) -> dict[str, MemoryRecord]:
    return {f"m{n}": MemoryRecord(f"m{n}", f"text {n}", **fields) for n in range(count)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "drafts", "size"),
    [
        ("not_shown", [OpDraft("delete", "m_of_another_tenant")], 10),
        ("target_twice", [OpDraft("update", "m1", "a"), OpDraft("delete", "m1")], 10),
        ("too_many_deletes", [OpDraft("delete", f"m{n}") for n in range(4)], 100),
        ("too_many_ops", [OpDraft("add", text=f"x{n}") for n in range(10_000)], 10),
        ("blast_radius", [OpDraft("update", f"m{n}", f"nothing but {n}ths") for n in range(3)], 5),
        ("blast_radius", [OpDraft("delete", "m0"), OpDraft("delete", "m1"), OpDraft("update", "m2", "x")], 5),
        ("empty_text", [OpDraft("add", text="   ")], 10),
        ("text_too_long", [OpDraft("add", text="x" * 9_000)], 10),
        ("no_target", [OpDraft("update", None, "x")], 10),
        ("origin", [OpDraft("delete", "m1", origin="tool")], 10),
    ],
)
def test_a_lie_is_refused_by_the_rule_meant_for_it(rule: str, drafts: list[OpDraft], size: int) -> None:
    with pytest.raises(OpRejected) as error:
        check_batch(drafts, shown(5), size, GuardLimits())
    assert error.value.details["rule"] == rule


def test_the_caps_are_exact() -> None:
    limits = GuardLimits()
    check_batch([OpDraft("add", text=f"x{n}") for n in range(limits.max_ops)], {}, 0, limits)
    check_batch([OpDraft("add", text="x" * limits.max_text)], {}, 0, limits)
    check_batch([OpDraft("delete", "m1"), OpDraft("update", "m2", "x")], shown(5), 4, limits)


def test_a_small_bank_may_be_brought_up_to_date_as_a_whole() -> None:
    kept = [OpDraft("update", f"m{n}", f"now text {n} and more") for n in range(5)]
    check_batch(kept, shown(5), 5, GuardLimits())
    check_caps(kept, shown(5).get, 5, GuardLimits())
    with pytest.raises(OpRejected):
        check_batch(kept, shown(5), 5, GuardLimits(), edition=3)


def test_resolve_does_not_touch_the_view() -> None:
    state = bank_of("one", "two")
    before = state.hash()
    resolve(state, [OpDraft("delete", next(iter(state)).id), add("three")], at(state, "d2"))
    assert state.hash() == before


# ---- what was said when ----------------------------------------------------------------------------------

MAY, JUNE, JULY = (NOW.replace(month=month) for month in (5, 6, 7))


@pytest.mark.parametrize("again", [add("Ana has a dog", "t9", at=JULY), OpDraft("noop", None, None, ("t9",), at=JULY)])
def test_what_is_said_again_keeps_its_time_and_is_confirmed(again: OpDraft) -> None:
    state = bank_of("Ana has a dog.")
    (record,) = state
    state, (op,) = apply(state, [replace(again, memory_id=record.id if again.text is None else None)], at(state, "d2"))
    (after,) = state
    assert (op.action, after.at, after.confirmed_at, after.revision) == ("noop", MAY, JULY, 1)
    state, _ = apply(state, [add("Ana has a dog", "t10", at=JUNE)], at(state, "d3"))
    assert [(r.at, r.confirmed_at) for r in state] == [(MAY, JULY)], "older words say nothing newer"


@pytest.mark.parametrize("sources", [("t9",), ()])
def test_an_update_has_the_time_of_the_new_words_and_the_revision_before_keeps_its_own(
    sources: tuple[str, ...],
) -> None:
    state = bank_of("Ana lives in Oslo.")
    state, _ = apply(state, [add("Ana lives in Oslo", "t5", at=JULY)], at(state, "d2"))
    (before,) = state
    moved = OpDraft("update", before.id, "Ana lives in Bergen.", sources, at=JUNE)
    state, (op,) = apply(state, [moved], at(state, "d3"))
    (after,) = state
    assert (after.at, after.confirmed_at) == (JUNE, None)
    assert op.before == before
    assert (before.at, before.confirmed_at) == (MAY, JULY)
    state, _ = apply(state, [OpDraft("update", before.id, metadata={"a": 1}, at=JULY)], at(state, "d4"))
    assert [r.at for r in state] == [JUNE], "a note beside the words does not say them anew"


def test_a_decision_of_the_first_edition_is_replayed_by_its_rules() -> None:
    state = bank_of("Ana has a dog.")
    again = [add("Ana has a dog", "t9", at=JULY)]
    state, _ = apply(state, again, at(state, "d2", edition=1))
    assert [(r.at, r.confirmed_at) for r in state] == [(JULY, None)]
    (record,) = state
    state, _ = apply(state, [OpDraft("update", record.id, "Ana has a cat.", at=JUNE)], at(state, "d3", edition=1))
    assert [r.at for r in state] == [JULY]
    assert "confirmed_at" not in to_json(record.to_dict())


# ---- undo ------------------------------------------------------------------------------------------------


class OneMemory:
    """A bank in which things are done and taken back, as the store does it."""

    def __init__(self) -> None:
        self.state, self.log = BankState(), list[Op]()

    def do(self, draft: OpDraft, *undoes: str) -> Op:
        context = at(self.state, f"d{len(self.log)}", at=NOW + timedelta(minutes=len(self.log)))
        (op,) = resolve(self.state, [draft], context, undoes)
        self.state = self.state.fold([op])
        self.log.append(op)
        return op

    def undo(self, *ops: Op | str) -> Op | None:
        names = {op if isinstance(op, str) else op.op_id for op in ops}
        found = Past(self.log).compensate(names)
        return None if found is None else self.do(found.draft, found.undoes)

    @property
    def text(self) -> str | None:
        return next((record.text for record in self.state), None)


def three_ops() -> tuple[OneMemory, list[Op]]:
    one = OneMemory()
    first = one.do(add("one"))
    ops = [first, *(one.do(OpDraft("update", first.memory_id, text)) for text in ("two", "three"))]
    return one, ops


def test_an_op_is_undone_once_the_ops_after_it_are() -> None:
    one, (first, second, third) = three_ops()
    with pytest.raises(UndoConflict) as refused:
        one.undo(second)
    assert refused.value.details["ops"] == [third.op_id]
    assert third.op_id in refused.value.fix
    one.undo(third)
    back = one.undo(second)
    assert one.text == "one"
    one.undo(first)
    assert one.text is None
    assert back is not None
    assert Past(one.log).undone.keys() >= {first.op_id, second.op_id, third.op_id}
    assert one.undo(third) is None, "it is undone already"


def test_an_undo_is_undone_by_its_own_name_alone() -> None:
    one, (_, second, third) = three_ops()
    of_third, of_second = (one.undo(op) for op in (third, second))
    assert of_third is not None
    assert of_second is not None
    assert one.undo(of_third) is None, "it went with what was undone after it"
    one.undo(of_second)
    assert one.text == "two"
    one.undo(of_third)
    assert one.text == "three"


def test_what_a_window_holds_is_taken_back_with_the_undos_in_it() -> None:
    one, (first, second, third) = three_ops()
    undo = one.undo(third)
    fourth = one.do(OpDraft("update", first.memory_id, "four"))
    assert undo is not None
    one.undo(second, third, undo, fourth)
    assert one.text == "one"
    assert Past(one.log).undone.keys() == {op.op_id for op in (second, third, undo, fourth)}


def test_an_undo_of_version_0_1_names_the_newest_op_that_it_took_back() -> None:
    one, (first, second, third) = three_ops()
    assert first.after is not None
    one.do(OpDraft("update", first.memory_id, restore=first.after), third.op_id)
    assert Past(one.log).undone.keys() == {second.op_id, third.op_id}
    assert one.undo(second) is None
    one.undo(first)
    assert one.text is None


STEP = st.tuples(
    st.sampled_from(["write", "write", "write", "end", "undo", "undo", "undo", "window"]), st.integers(0, 30)
)


@given(st.lists(STEP, max_size=25))
@settings(max_examples=150, deadline=None)
def test_whatever_is_undone_the_memory_says_what_stands_and_the_advice_leads_there(
    steps: list[tuple[str, int]],
) -> None:
    one = OneMemory()
    key = one.do(add("text 0")).memory_id
    for number, (what, pick) in enumerate(steps, start=1):
        live = one.state.get(str(key)) is not None
        if what in ("write", "end"):
            if live:
                text = f"text {number % 4}" if pick % 2 else None  # texts come back, as do images
                one.do(OpDraft("delete" if what == "end" else "update", key, text, (f"t{number % 3}",)))
            continue
        chosen = one.log[pick % len(one.log)]
        names = {op.op_id for op in one.log if op is chosen or (what == "window" and op.seq > chosen.seq)}
        try:
            one.undo(*names)
        except UndoConflict as refused:
            in_the_way = refused.details["ops"]
            assert what == "undo"
            assert all(one.undo(op_id) for op_id in in_the_way), "they can be undone, in this order"
            assert one.undo(*names)
        if what == "window" and chosen.before is not None:
            assert said(one.state.get(str(key))) == said(chosen.before)
        standing = [op for op in one.log if op.op_id not in Past(one.log).undone and op.undoes is None]
        changed = [op for op in standing if op.before != op.after]
        assert said(one.state.get(str(key))) == said(changed[-1].after if changed else None)
    revisions = {(op.after.revision, op.after.text) for op in one.log if op.after}
    assert len({revision for revision, _ in revisions}) == len(revisions), "a revision never names two texts"


def said(record: MemoryRecord | None) -> object:
    return record and (record.text, record.source_turns, record.at, record.confirmed_at)
