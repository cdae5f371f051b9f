"""Good labels that are better not imitated."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from memkit.models import Bank, MemoryRecord, Op
from memkit_train.credit.label_noise import CreditedDecision, find_doubtful, marks

NAMES = ("Ana", "Ben", "Zoe", "Max", "Kim", "Lea")
AT = datetime(2025, 1, 1, tzinfo=UTC)


def memory(text: str) -> MemoryRecord:
    return MemoryRecord(id="m_1", text=text, at=AT)


def op(action: str, before: str = "", after: str = "") -> Op:
    old, new = (memory(text) if text else None for text in (before, after))
    return Op("o_1", 1, Bank("u"), action, "m_1", None, old, new, (), "d_1", AT, AT)  # type: ignore[arg-type]


def log(count: int, rng: random.Random) -> list[CreditedDecision]:
    """Most retractions are ignored, which is bad, but one label in five is wrong; some are heeded; new facts are added.
    Ids tell which is which."""
    out: list[CreditedDecision] = []
    for at in range(count):
        name, user = rng.choice(NAMES), f"u{rng.randrange(20)}"
        held, gone = f"{name} has a dog.", f"{name} no longer has a dog."
        wrong = rng.random() < 0.2
        match at % 5:
            case 0 | 1:
                out.append(
                    CreditedDecision(f"ignored/{at}", user, marks(gone, [op("noop")], [held]), float(wrong), 1.0)
                )
            case 2:
                found = marks(gone, [op("delete", held)], [held])
                out.append(CreditedDecision(f"heeded/{at}", user, found, float(not wrong), 1.0))
            case _:
                found = marks(held, [op("add", after=held)], [f"{name} likes tea."])
                out.append(CreditedDecision(f"new/{at}", user, found, float(not wrong), 1.0))
    return out


def test_the_good_labels_of_a_bad_habit_are_doubted_and_no_others() -> None:
    cases = log(800, random.Random(0))
    lucky = {one.decision_id for one in cases if one.y and one.decision_id.startswith("ignored")}
    found = find_doubtful(cases)
    assert found <= lucky
    assert len(found) >= 0.9 * len(lucky) >= 20


def test_nothing_is_doubted_where_nothing_is_known() -> None:
    cases = log(300, random.Random(0))
    assert find_doubtful(cases)
    assert find_doubtful([]) == set()
    assert find_doubtful(cases[:40]) == set(), "too few"
    assert find_doubtful([one for one in cases if one.y]) == set(), "no bad ones"
    for known in (cases, [one for one in cases if one.decision_id.startswith("new")]):  # half good, and most
        alone = [CreditedDecision(one.decision_id, "ana", one.marks, one.y, one.weight) for one in known]
        assert find_doubtful(alone) == set(), "other users must say so"


def test_marks_tell_an_update_that_keeps_from_one_that_loses() -> None:
    said, held = "Ana also has a cat.", "Ana has a dog."
    keeps = marks(said, [op("update", held, "Ana has a dog and a cat.")], [held])
    loses = marks(said, [op("update", held, "Ana also has a cat.")], [held])
    assert {one for one in keeps if one.startswith("says ")} == {one for one in loses if one.startswith("says ")}
    assert not {one for one in keeps & loses if one.startswith("update")}
