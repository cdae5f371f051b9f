"""From ratings of answers to decisions: in hand-made talks where the fault is known, and over simulated users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memkit import Memory
from memkit.embedders import make_embedder
from memkit_train.credit.assign import Credited, assign, credit, learn_topics
from memkit_train.credit.inspect import Inspection, inspect, need_credits, need_labels
from memkit_train.credit.labels import labels
from memkit_train.credit.questions import episode_probes, probes, too_few, without_question
from memkit_train.credit.topics import Topics
from memkit_train.errors import NoRows, NoSignal
from memkit_train.log import Credit, StoreSource, Trajectory
from memkit_train.rewards.trial import held_out
from tests.trajectories._logs import Judge

Script = dict[str, str]


def scripted(replies: Script) -> Callable[[list[dict[str, str]]], str]:
    """A model that says what the script says for the first key found in the last message."""

    def say(messages: list[dict[str, str]]) -> str:
        asked = messages[-1]["content"].rpartition("NEW turns:")[2]
        return next((reply for key, reply in replies.items() if key in asked), "NONE")

    return say


def talked(
    path: Path, replies: Script, said: list[str], question: str, keep_turns: str = "logged", **feedback: object
) -> tuple[Trajectory, Credited]:
    with Memory(path, model=scripted(replies), mode="split", style="compact", keep_turns=keep_turns) as memory:
        for text in said:
            memory.add(text, user_id="ana")
        answer = memory.answer(question, user_id="ana")
        memory.feedback(answer.trace_id, user_id="ana", **feedback)  # type: ignore[arg-type]
    with StoreSource(path) as source:
        ((episode, credited),) = assign(source)
    return episode, credited


OSLO = {"I moved to Oslo": "1 Ana works in Oslo.", "I moved to Rome": "1 Ana works in Rome.", "Hi!": "NONE"}


def of(episode: Trajectory, credited: Credited, fact: str) -> list[Credit]:
    """The credit of the manager's decision on `fact`."""
    named = {
        one.decision_id
        for one in episode.decisions
        if one.role == "manager" and f'"{fact}"' in one.messages[-1].content.rpartition("NEW fact")[2]
    }
    return [one for one in credited.credits if one.decision_id in named]


def test_a_good_answer_credits_who_wrote_what_it_cites(tmp_path: Path) -> None:
    replies = {"Question": "USE 1\nANSWER Rome", "NEW fact": "ADD", **OSLO}
    episode, credited = talked(tmp_path / "s", replies, ["I moved to Rome", "Hi!"], "Where does Ana work?", reward=1.0)
    (one,) = of(episode, credited, "Ana works in Rome.")
    assert (one.y, one.weight, one.why) == (1.0, 1.0, "cited")
    assert {c.why for c in credited.credits} == {"cited", "answered", "chitchat"}


def test_a_good_answer_from_somebody_s_own_words_credits_the_fact_that_says_them(tmp_path: Path) -> None:
    replies = {"Question": "USE 1 2\nANSWER Rome", "NEW fact": "ADD", **OSLO}
    episode, credited = talked(tmp_path / "s", replies, ["I moved to Rome"], "Where is Ana?", "all", reward=1.0)
    assert _kinds(episode) == ["turn", "fact"]
    (one,) = of(episode, credited, "Ana works in Rome.")
    assert (one.y, one.why) == (1.0, "cited")


def test_a_good_answer_from_words_that_no_fact_says_blames_who_heard_them(tmp_path: Path) -> None:
    replies = {"Question": "USE 1\nANSWER Rome", "I moved to Rome": "NONE"}
    episode, credited = talked(tmp_path / "s", replies, ["I moved to Rome"], "Where is Ana?", "all", reward=1.0)
    assert _kinds(episode) == ["turn"]
    assert [(one.role, one.y, one.why) for one in credited.credits] == [
        ("extractor", 0.0, "missed"),
        ("answerer", 1.0, "answered"),
    ]


def _kinds(episode: Trajectory) -> list[str]:
    """What the answer was served."""
    kinds = {op.after.id: op.after.kind for op in episode.ops if op.after is not None}
    return [kinds[one.memory_id] for one in episode.answers[0].served]


def test_a_bad_answer_blames_the_later_turn_that_failed_to_update(tmp_path: Path) -> None:
    """…and not the decision that wrote what was cited."""
    replies = {"Question": "USE 1\nANSWER Oslo", '"Ana works in Rome."': "NOOP", "NEW fact": "ADD", **OSLO}
    said = ["I moved to Oslo", "I moved to Rome", "Hi!"]
    episode, credited = talked(tmp_path / "s", replies, said, "Where does Ana work?", reward=0.0)
    (one,) = of(episode, credited, "Ana works in Rome.")
    assert (one.y, one.why) == (0.0, "missed")
    assert of(episode, credited, "Ana works in Oslo.") == []


def test_served_but_answered_wrong_is_the_answerers(tmp_path: Path) -> None:
    replies = {"Question": "USE 1\nANSWER Oslo", "NEW fact": "ADD", **OSLO}
    episode, credited = talked(tmp_path / "s", replies, ["I moved to Rome"], "Where does Ana work?", label="down")
    assert of(episode, credited, "Ana works in Rome.") == []
    assert [(one.role, one.y) for one in credited.credits] == [("answerer", 0.0)]


@pytest.mark.parametrize(("reply", "fault"), [("USE 1\nANSWER Rome", "lost"), ("USE NONE\nANSWER unknown", "")])
def test_an_update_that_loses_something_is_blamed_where_the_answer_used_it(
    tmp_path: Path, reply: str, fault: str
) -> None:
    """An answer that passed over the new text would have passed over the old one as well."""
    replies = {
        "Where does Ana work now?": reply,
        "Where does Ana work?": "USE 1\nANSWER Oslo",
        '"Ana works in Rome."': "UPDATE 1",
        "NEW fact": "ADD",
        **OSLO,
    }
    with Memory(tmp_path / "s", model=scripted(replies), mode="split", style="compact", keep_turns="logged") as memory:
        memory.add("I moved to Oslo", user_id="ana")
        memory.answer("Where does Ana work?", user_id="ana")
        memory.add("I moved to Rome", user_id="ana")
        answer = memory.answer("Where does Ana work now?", user_id="ana")
        memory.feedback(answer.trace_id, reward=0.0, user_id="ana")
    with StoreSource(tmp_path / "s") as source:
        ((episode, credited),) = assign(source)
    assert [one.why for one in of(episode, credited, "Ana works in Rome.")] == [fault] * bool(fault)
    assert [one.why for one in credited.credits if one.role == "answerer"] == ["answered"] * (not fault)


def test_what_the_log_knows_nothing_of_is_dropped_and_counted(tmp_path: Path) -> None:
    replies = {"Question": "USE NONE\nANSWER unknown", "NEW fact": "ADD", **OSLO}
    _, credited = talked(tmp_path / "s", replies, ["I moved to Rome"], "What is her blood group?", reward=0.0)
    assert credited.credits == []
    assert credited.dropped == {"no relevant turn": 1}


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        ({"reward": 0.4}, (0.4, 1.0, "reward")),
        ({"label": "up"}, (1.0, 1.0, "thumb")),
        ({"expected": "Rome"}, (1.0, 1.0, "expected")),
        ({"expected": "Oslo"}, (0.0, 1.0, "expected")),
        ({"expected": "Oslo", "reward": 1.0}, (1.0, 1.0, "reward")),
        ({"comment": "hm"}, None),
    ],
)
def test_labels(tmp_path: Path, feedback: dict[str, object], expected: tuple[float, float, str] | None) -> None:
    replies = {"Question": "USE 1\nANSWER Rome", "NEW fact": "ADD", **OSLO}
    episode, _ = talked(tmp_path / "s", replies, ["I moved to Rome"], "Where does Ana work?", **feedback)
    assert [(one.y, one.weight, one.source) for one in labels(episode)] == ([expected] if expected else [])


@pytest.mark.parametrize("rated", [False, True])
def test_corrections_and_repeated_questions_are_weak_labels(tmp_path: Path, rated: bool) -> None:
    """Rated as well, the rating is the label, and the correction still tells what the answer should have been."""
    replies = {"Question": "USE NONE\nANSWER unknown", "NEW fact": "ADD", "No. I moved": "1 Ana works in Rome.", **OSLO}
    with Memory(tmp_path / "s", model=scripted(replies), mode="split", style="compact", keep_turns="logged") as memory:
        memory.add("I moved to Oslo", user_id="ana")
        memory.answer("Where does Ana work?", user_id="ana")
        memory.answer("Where does Ana work now?", user_id="ana")
        memory.answer("And Ben?", user_id="ana")
        answer = memory.answer("Where does Ana work?", user_id="ana")
        if rated:
            memory.feedback(answer.trace_id, label="down", user_id="ana")
        memory.add("No. I moved to Rome.", user_id="ana")
    with StoreSource(tmp_path / "s") as source:
        (episode,) = source.trajectories()
        found = [(one.y, one.weight, one.source) for one in labels(episode)]
        (probe,) = probes(source, Topics())
    (tried,) = held_out(episode, [probe])
    assert found == [(0.0, 1.0, "thumb") if rated else (0.0, 0.5, "correction")]
    assert tried.thumbs == (0, int(rated))
    assert (probe.question, probe.expected, probe.source) == ("Where does Ana work?", "Rome", "correction")
    assert probe.as_of < episode.ops[-1].seq


ROME = "Ana works in Rome."


def two_banks(path: Path, managers: list[str], reply: str, agent: str | None, **feedback: object) -> Trajectory:
    """Ana tells her agent at work of Rome, then the one at home, who decide as the managers say, and asks one of them
    (or, None, nobody in particular)."""
    decided = iter(managers)

    def say(messages: list[dict[str, str]]) -> str:
        asked = messages[-1]["content"]
        if "Question" in asked:
            return reply
        return next(decided) if "NEW fact" in asked else f"1 {ROME}"

    with Memory(path, model=say, mode="split", style="compact", keep_turns="logged") as memory:
        for bank in ("work", "home"):
            memory.add("I moved to Rome", user_id="ana", agent_id=bank)
        answer = memory.answer("Where does Ana work?", user_id="ana", agent_id=agent)
        memory.feedback(answer.trace_id, user_id="ana", **feedback)  # type: ignore[arg-type]
    with StoreSource(path) as source:
        (episode,) = source.trajectories()
    return episode


def credited_by(episode: Trajectory, topics: Topics) -> dict[str, str]:
    """Agent whose manager was credited or blamed → why."""
    agents = {one.decision_id: one.bank.agent_id for one in episode.decisions if one.role == "manager"}
    found = credit(episode, topics, make_embedder("hash")).credits
    return {agents[one.decision_id]: one.why for one in found if one.decision_id in agents}


@pytest.mark.parametrize(("agent", "credited"), [("work", ["work"]), ("home", ["home"]), (None, ["home", "work"])])
def test_an_answer_speaks_of_the_banks_that_it_read(agent: str | None, credited: list[str], tmp_path: Path) -> None:
    reply = "USE 1 2\nANSWER Rome" if agent is None else "USE 1\nANSWER Rome"
    episode = two_banks(tmp_path / "s", ["ADD", "ADD"], reply, agent, expected="Rome")
    assert sorted(credited_by(episode, Topics())) == credited
    (probe,) = episode_probes(episode, Topics(), make_embedder("hash"))
    told = {
        log.intake.bank.agent_id for log in episode.intakes for turn in log.turns if turn.turn_id in probe.source_turns
    }
    assert sorted(told) == credited


def test_what_another_agent_knows_is_no_excuse(tmp_path: Path) -> None:
    """The bank at home holds it, but the answer was to come from the one at work, which missed it."""
    episode = two_banks(tmp_path / "s", ["NOOP", "ADD"], "USE NONE\nANSWER unknown", "work", reward=0.0)
    topics = Topics()
    topics.learn([(replace(episode.answers[0], abstained=False), [ROME])])  # that memories ever speak of work
    assert credited_by(episode, topics) == {"work": "missed"}


def test_what_remains_of_a_correction_is_its_value() -> None:
    assert without_question("Ana works in New York.", "Where does Ana work?", Topics()) == "New York"
    assert without_question("Ana works.", "Where does Ana work?", Topics()) == ""


def test_over_simulated_users_credit_and_blame_find_the_truth(source: StoreSource) -> None:
    found = inspect(source, truth=Judge())
    (credit, credits), (blame, blames) = found.checked["credit"], found.checked["blame"]
    assert credits >= 20
    assert blames >= 10
    assert credit / credits >= 0.85
    assert blame / blames >= 0.65
    assert found.credits["duplicate"]
    assert found.credits["chitchat"]
    assert {"reward", "reask"} <= set(found.labels)
    assert {"confirmed"} <= {probe.source for probe in found.probes}
    assert "200" in too_few(found.probes)


def test_words_of_questions_are_learned_from_citations_and_values_are_not(source: StoreSource) -> None:
    topics = learn_topics(source)
    assert "name" in topics.stands_for("pet")
    assert topics.stands_for("zebra") == {"zebra"}
    assert topics.covers({"name", "rabbit"}, "Which pets?")
    assert not topics.covers({"like", "soup"}, "Which pets?")


def test_the_share_of_the_largest_user_is_told_and_what_it_weighs_in_a_run() -> None:
    """40 users with 12 labels each, and one with 3,000 of them."""
    found = Inspection(labelled=Counter({f"u{number}": 12 for number in range(40)} | {"hostile": 3_000}))
    told = found.to_json()
    assert told["largest_user"] > 0.8
    assert told["largest_user_in_training"] == 0.05


def test_refusals_name_the_cause() -> None:
    with pytest.raises(NoSignal, match=r"none of 40 answers has a label.*feedback"):
        need_labels([], answers=40)
    with pytest.raises(NoSignal, match="all 2 labels say the same"):
        need_labels([Credit("d", "manager", 1.0, 1.0, "cited")] * 2)
    with pytest.raises(NoRows, match=r"(?i)no relevant turn: 3"):
        need_credits([Credit("d", "extractor", 1.0, 0.3, "chitchat")], {"no relevant turn": 3})
