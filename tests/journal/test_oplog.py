"""The bank is the fold of its log, whatever was done to it."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memkit.errors import Conflict, NotFound, OpRejected
from memkit.journal import Journal
from memkit.models import Bank, OpDraft
from memkit.ops import BankState, inverse
from tests.journal.making import ANA, AT, IDS, add, adds, open_journal

BANKS = (ANA, Bank("ana", "coach"), Bank("bob"))
TEXTS = st.sampled_from(["tea", "Tea.", "coffee", "a dog\0named Rex", "‮rtl", "\U0001f9d1‍\U0001f680"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(BANKS),
        st.sampled_from(["add", "add", "update", "delete", "noop", "undo", "two"]),
        TEXTS,
        st.integers(0, 9),
        st.sampled_from([None, {"a": {"b": [1, "x", None]}}]),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_heads_are_the_fold_of_the_log(tmp_path: Path, steps: list[tuple[Bank, str, str, int, dict[str, int]]]) -> None:
    journal = open_journal(tmp_path / IDS.new("store"))
    returned = []
    for number, (bank, action, text, pick, metadata) in enumerate(steps):
        live = journal.live(bank=bank)
        target = live[pick % len(live)][1].id if live else "m_none"
        zone = timezone(timedelta(hours=pick))
        fields = {"source_turns": (f"t_{number}",), "metadata": metadata, "at": AT.astimezone(zone)}
        undoes: list[str] = []
        if action == "undo":
            log = journal.ops(bank=bank)
            back = inverse(log[pick % len(log)]) if log else None
            drafts, undoes = ([back], [log[pick % len(log)].op_id]) if back else ([], [])
        elif action == "two":
            drafts = [OpDraft("delete", target), OpDraft("add", text=text, **fields)]
        else:
            drafts = [OpDraft(action, None if action == "add" else target, text, **fields)]
        try:
            returned += journal.apply(
                bank, drafts, decision_id=f"d_{number}", at=AT, undoes=undoes, cause="undo" if undoes else "decision"
            )
        except (Conflict, NotFound, OpRejected):
            continue
    try:
        assert journal.ops() == returned
        assert [op.seq for op in returned] == sorted({op.seq for op in returned})
        for bank in BANKS:
            log = journal.ops(bank=bank)
            state = BankState().fold(log)
            assert [record for _, record in journal.live(bank=bank)] == list(state)
            assert journal.bank_seq(bank) == max((op.seq for op in log), default=0)
            for memory_id in {op.memory_id for op in log if op.memory_id}:
                wanted = [op for op in log if op.memory_id == memory_id and (op.before or op.after)]
                assert journal.ops(bank=bank, memory_id=memory_id) == wanted
        assert journal.check() == []
    finally:
        journal.close()


def test_times_keep_their_offset_and_metadata_its_shape(journal: Journal) -> None:
    said = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=-7)))
    draft = OpDraft(
        "add",
        text="x",
        at=said,
        expires_at=said,
        metadata={"a": {"b": [1.5, None, "é"]}},
        speaker="Ana",
        session_id="s",
        origin="tool",
        trust=0.5,
        trainable=False,
        kind="episode",
        content_salt="s",
    )
    (op,) = journal.apply(ANA, [draft], decision_id="d", at=AT)
    found = journal.get("ana", str(op.memory_id))
    assert found == (ANA, op.after)
    assert found is not None
    assert found[1].at is not None
    assert found[1].at.isoformat() == said.isoformat()


def test_reads_are_scoped_by_user(journal: Journal) -> None:
    (mine,) = add(journal, "mine")
    (coached,) = add(journal, "coached", bank=Bank("ana", "coach"))
    add(journal, "theirs", bank=Bank("bob"))
    assert journal.get("bob", mine) is None
    assert [bank for bank, _ in journal.user_banks("ana")] == [ANA, Bank("ana", "coach")]
    assert [record.id for _, record in journal.live(user_id="ana")] == [mine, coached]
    assert (journal.count_live(user_id="ana"), journal.count_live()) == (2, 3)
    assert [op.memory_id for op in journal.ops(user_id="bob", op_id=journal.ops(bank=ANA)[0].op_id)] == []
    assert [(u.user_id, u.agents, u.memories) for u in journal.users()] == [
        ("ana", ("", "coach"), 2),
        ("bob", ("",), 1),
    ]


HOSTILE = [
    "*", "%", "_", "'", '"', "a' OR '1'='1", "'; DROP TABLE ops; --", " lead", "trail ", "Ana", "ANA", "\\", "\n",
    "a\x1fb", "\U0001f600", "‮ana", "ａｎａ", "é", "e\u0301", "x" * 512, "null", "0", "?", ":user", "$1",
]  # fmt: skip


def test_hostile_ids_match_only_themselves(journal: Journal) -> None:
    for name in HOSTILE:
        add(journal, f"fact of {name!r}", bank=Bank(name, name))
    random.shuffle(HOSTILE)
    for name in HOSTILE:
        (found,) = journal.live(user_id=name)
        assert found[0] == Bank(name, name)
        assert found[1].text == f"fact of {name!r}"
    for name in HOSTILE[:5]:
        journal.erase(name)
    assert len(journal.live()) == len(HOSTILE) - 5


def test_undo_of_an_op_of_another_bank_is_refused(journal: Journal) -> None:
    add(journal, "mine")
    (op,) = journal.ops(bank=ANA)
    back = inverse(op)
    assert back is not None
    with pytest.raises(NotFound):
        journal.apply(Bank("bob"), [back], decision_id="u", at=AT, cause="undo", undoes=[op.op_id])


def test_iterating_pages_through_the_whole_log(journal: Journal) -> None:
    for number in range(6):
        journal.apply(ANA, adds(*(f"{number}-{i}" for i in range(200))), decision_id=f"d{number}", at=AT)
    assert [op.seq for op in journal.iter_ops(user_id="ana")] == list(range(1, 1201))
    assert [op.seq for op in journal.ops(after=5, upto=8)] == [6, 7, 8]
    assert [op.seq for op in journal.ops(newest_first=True, limit=2)] == [1200, 1199]
    assert [record.seq for _, record in journal.live(after_seq=1198)] == [1199, 1200]
