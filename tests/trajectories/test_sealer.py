"""Payloads move from the journal to the `trajectories` table, and nothing that reads decisions notices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.errors import StoreDamaged
from memkit.journal import DecisionRecord, Journal
from memkit.models import Bank, digest
from memkit.runtime.sealer import GROUP, Sealer
from memkit.seams.clock import RandomIds, SystemClock
from memkit.store import SEALED, Trajectories


def decision(number: int, user: str = "ana") -> DecisionRecord:
    prompt = f'[["user","prompt {number // 2}"]]'
    return DecisionRecord(
        f"d_{number}",
        None,
        Bank(user),
        "manager",
        0,
        {
            "v": 1,
            "reply": f"ADD {number}",
            "prompt_ids": [1, 2, number],
            "token_ids": [7, 8],
            "logprobs": [-0.1 / 3, 0.0],
            "prompt_hash": digest(prompt),
            "parse": {"ok": number % 2 == 0},
        },
        SystemClock().now(),
        {digest(prompt): prompt},
    )


@pytest.fixture
def sealing(tmp_path: Path) -> Any:
    journal = Journal.open(tmp_path / "s", clock=SystemClock(), ids=RandomIds())
    table = Trajectories(tmp_path / "s" / SEALED, lock=journal.lance_lock)
    yield journal, table, Sealer(journal, lambda: table)
    journal.close()


def test_full_groups_are_sealed_and_read_back_as_they_were(sealing: Any) -> None:
    journal, table, sealer = sealing
    made = [decision(n) for n in range(GROUP + 5)]
    journal.record(*made)
    assert sealer.seal() == GROUP
    assert journal.unsealed_count() == 5
    assert list(journal.iter_decisions()) == made
    assert journal.decisions(decision_id="d_3") == [made[3]]
    assert sealer.seal() == 0
    assert sealer.seal(force=True) == 5
    assert (journal.check(), table.check()) == ([], [])


def test_a_crash_between_copy_and_drop_is_finished_by_the_next_call(
    sealing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, table, sealer = sealing
    made = [decision(n) for n in range(20)]
    journal.record(*made)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "drop_payloads", lambda numbers: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sealer.seal(force=True)
    assert table.last_seq() == 20
    journal.record(decision(20))
    assert sealer.seal(force=True) == 21
    assert list(journal.iter_decisions()) == [*made, journal.decisions(decision_id="d_20")[0]]
    assert table.check() == []


def test_a_copy_that_a_power_cut_tore_is_made_anew(tmp_path: Path) -> None:
    """It opens, and its rows are not those that were copied."""
    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        memory._runtime.sealer.seal(force=True)
        journal, table = memory._runtime.journal, memory._runtime.trajectories
        memory.add("I moved to Bergen.", user_id="ana")
        rows = [memory._runtime.sealer._row(*one) for one in journal.read_unsealed(limit=GROUP)]
        table.append([replace(row, payload={"v": 1, "reply": "x" * 40}) for row in rows])
        (torn,) = (one for one in table.path.rglob("data/*.lance") if b"x" * 40 in one.read_bytes())
        torn.write_bytes(torn.read_bytes().replace(b"x" * 40, b"y" * 40))
        assert memory._runtime.sealer.seal(force=True) == len(rows)
        said = [one for one in journal.iter_decisions() if "y" * 40 in str(one.payload)]
        assert (said, [one.code for one in memory.doctor()]) == ([], ["sealed_quarantine"])


def test_what_cannot_be_read_back_stays_in_the_journal(sealing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, table, sealer = sealing
    journal.record(decision(0))
    honest = table.append
    monkeypatch.setattr(
        table, "append", lambda rows: honest([replace(row, payload={"v": 1, "reply": "other"}) for row in rows])
    )
    with pytest.raises(StoreDamaged, match="cannot be read back"):
        sealer.seal(force=True)
    assert journal.unsealed_count() == 1
    assert journal.decisions()[0].payload["reply"] == "ADD 0"


def test_a_lost_table_is_an_error_and_not_an_empty_log(sealing: Any) -> None:
    journal, table, sealer = sealing
    journal.record(decision(0))
    sealer.seal(force=True)
    table.drop()
    with pytest.raises(StoreDamaged, match="d_0"):
        journal.decisions()


def test_erasing_reaches_the_sealed_rows_and_numbers_go_on(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        for user in ("bob", "ana"):
            for n in range(5):
                memory.add(f"My {user} code is zq{user}{n}.", user_id=user)
        memory.flush()
        before = memory.decisions(user_id="bob")
        assert memory.erase(user_id="ana").counts["sealed_decisions"] > 0
        files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
        assert not any(b"zqana" in path.read_bytes() for path in files)
        assert memory.decisions(user_id="bob") == before
        memory.add("I live in Oslo.", user_id="ana")
        memory.flush()
        assert len(memory.decisions(user_id="ana")) == 2
        assert memory.export(tmp_path / "all.jsonl") > 0
    with Memory(tmp_path / "t") as other:
        other.import_(tmp_path / "all.jsonl")
        assert [d["reply"] for d in other.decisions(user_id="bob")] == [d["reply"] for d in before]
