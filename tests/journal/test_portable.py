"""`load`: what `dump` gave, all or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memkit.errors import Conflict, IdempotencyConflict, InvalidInput, MemkitError
from memkit.journal import FeedbackRecord, Journal
from memkit.models import JSON, OpDraft, to_json
from tests.journal.making import ANA, AT, IDS, add, adds, intake, open_journal
from tests.journal.test_trail import decision


def dumped(journal: Journal) -> list[JSON]:
    return [json.loads(to_json(record)) for record in journal.dump()]


@pytest.fixture
def lines(tmp_path: Path) -> list[JSON]:
    """An intake, its op, two ops more (the last one an update), a decision, and what was said to them."""
    source = open_journal(tmp_path / "source")
    first = source.accept(intake("tea", key="k"), drafts=adds("tea")).state.intake
    (memory_id,) = add(source, "coffee")
    source.apply(ANA, [OpDraft("update", memory_id, "cocoa")], decision_id=IDS.new("d"), at=AT)
    source.record(decision(intake_id=first.intake_id))
    source.add_feedback(FeedbackRecord(IDS.new("f"), first.intake_id, {"label": "up"}, "user", AT))
    found = dumped(source)
    source.close()
    assert [line["record"] for line in found] == ["intake", "op", "op", "op", "decision", "feedback"]
    return found


def without(kind: str) -> Callable[[list[JSON]], object]:
    def change(lines: list[JSON]) -> None:
        lines[:] = [line for line in lines if line["record"] != kind]

    return change


def stranger_before(lines: list[JSON]) -> None:
    lines[3]["before"]["seq"] = lines[1]["seq"]


def copy_of_another(lines: list[JSON]) -> None:
    lines[3]["after"]["content_hash"] = lines[1]["after"]["content_hash"]


def born_twice(lines: list[JSON]) -> None:
    lines[3] |= {"action": "add", "before": None}


def too_deep(lines: list[JSON]) -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    lines[2]["after"]["metadata"] = {"a": value}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (without("intake"), InvalidInput),
        (stranger_before, InvalidInput),
        (copy_of_another, InvalidInput),
        (born_twice, InvalidInput),
        (too_deep, InvalidInput),
        (lambda lines: lines.pop(2), InvalidInput),
        (lambda lines: lines[4].update(intake_id="i_other"), Conflict),
        (lambda lines: lines[5].update(trace_id="s_other"), Conflict),
        (lambda lines: lines.append({"record": "stranger"}), InvalidInput),
    ],
)
def test_what_does_not_hang_together_is_refused_as_a_whole(
    journal: Journal, lines: list[JSON], change: Callable[[list[JSON]], object], error: type[MemkitError]
) -> None:
    change(lines)
    with pytest.raises(error) as refused:
        journal.load(lines)
    assert "row of this name" not in str(refused.value)
    assert refused.value.fix
    assert dumped(journal) == []


def test_a_name_that_means_another_turn_here_is_refused(journal: Journal, lines: list[JSON]) -> None:
    journal.accept(intake("milk", key="k"))
    with pytest.raises(IdempotencyConflict, match="'k'"):
        journal.load(lines)
    other = intake("milk")
    name = lines[0]["turns"][0]["turn_id"]
    journal.accept(replace(other, turns=(replace(other.turns[0], turn_id=name),)))
    lines[0]["idempotency_key"] = None
    with pytest.raises(Conflict, match=f"turn {name} .* already"):
        journal.load(lines)
    assert [line["record"] for line in dumped(journal)] == ["intake", "intake"]


def test_an_op_of_the_same_id_and_another_history_is_not_taken_for_known(journal: Journal, lines: list[JSON]) -> None:
    """A plug names its changes itself, so two stores may come to the same op id."""
    (op,) = journal.apply(ANA, adds("milk"), decision_id="chosen", at=AT)
    lines[1]["op_id"] = op.op_id
    with pytest.raises(Conflict, match="another history"):
        journal.load(lines)
    assert len(journal.ops()) == 1
