"""A bank that may not be learned from stays out, also where a read covered all of its user's banks."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit import Memory
from memkit.embedders import make_embedder
from memkit_train.credit.questions import episode_probes
from memkit_train.credit.topics import Topics
from memkit_train.learn.export import export
from memkit_train.log import StoreSource
from memkit_train.log import bundle as bundles
from tests.train.stores import lived, teacher, world

FACTS = {"work": "Ana leads the harbour team.", "money": "Ana owes 4711-0815 francs."}
ASKED = {"work": "Which team does Ana lead?", "money": "How many francs does Ana owe?"}


def say(messages: list[dict[str, str]]) -> str:
    asked = messages[-1]["content"]
    if "Question" in asked and not any(fact in asked for fact in FACTS.values()):
        return "USE NONE\nANSWER unknown"
    if "Question" in asked:
        return f"USE 1\nANSWER {'4711-0815 francs' if ASKED['money'] in asked else 'the harbour team'}"
    if "NEW fact" in asked:
        return "ADD"
    return next(f"1 {fact}" for fact in FACTS.values() if fact in asked.rpartition("NEW turns:")[2])


def told(path: Path, *, observed: bool = False, sealed: bool = False) -> dict[str, str]:
    """Ana tells two agents something each, and asks about both without naming an agent; the best memory alone is
    served. Returns the agent that each question is about → its trace."""
    traces: dict[str, str] = {}
    with Memory(path, model=say, mode="split", style="compact", config={"answer_candidates": 1}) as memory:
        for agent, fact in FACTS.items():
            memory.add(fact, user_id="ana", agent_id=agent)
        for agent, question in ASKED.items():
            if observed:
                traces[agent] = memory.search(question, user_id="ana", k=1).trace_id
                memory.observe(traces[agent], FACTS[agent], user_id="ana")
            else:
                traces[agent] = memory.answer(question, user_id="ana").trace_id
            memory.feedback(traces[agent], reward=1.0, user_id="ana")
        if sealed:
            memory.flush()
    return traces


def allow(path: Path, value: bool, *agents: str) -> None:
    with Memory(path) as memory:
        for agent in agents:
            memory.trainable(value, user_id="ana", agent_id=agent)


@pytest.mark.parametrize("sealed", [False, True])
def test_what_was_served_from_a_closed_bank_is_not_learned_from(tmp_path: Path, sealed: bool) -> None:
    traces = told(tmp_path / "s", sealed=sealed)
    with StoreSource(tmp_path / "s") as source:
        assert {one.trace_id for one in source.answers()} == set(traces.values())
        allow(tmp_path / "s", False, "money")
        (answer,) = source.answers()
        assert answer.trace_id == traces["work"], "which was served from the other bank alone"
        found = list(source.decisions())
        assert [one.decision_id for one in found if one.role == "answerer"] == [answer.decision_id]
        assert not any("francs" in message.content for one in found for message in one.messages)
        (episode,) = source.trajectories()
        assert [one.decision_id for one in episode.decisions] == [one.decision_id for one in found]
        (probe,) = episode_probes(episode, Topics(), make_embedder("hash"))
        assert (probe.source, probe.expected) == ("confirmed", "the harbour team")
        assert source.list_closed() == {"ana": ("money",)}
        allow(tmp_path / "s", True, "money")
        assert len(list(source.answers())) == 2
        assert source.list_closed() == {}


def test_an_app_s_own_answer_is_bound_by_the_banks_it_was_served_from(tmp_path: Path) -> None:
    traces = told(tmp_path / "s", observed=True)
    allow(tmp_path / "s", False, "money")
    with StoreSource(tmp_path / "s") as source:
        assert [one.trace_id for one in source.answers()] == [traces["work"]]


def test_an_answer_that_was_served_nothing_speaks_of_every_bank(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", model=say, mode="split", style="compact") as memory:
        for agent, fact in FACTS.items():
            memory.add(fact, user_id="ana", agent_id=agent)
        memory.answer(ASKED["work"], user_id="ana", session_id="another")
        named = memory.answer(ASKED["work"], user_id="ana", agent_id="work", session_id="another")
    with StoreSource(tmp_path / "s") as source:
        assert [len(one.served) for one in source.answers()] == [0, 0]
        allow(tmp_path / "s", False, "money")
        assert [one.trace_id for one in source.answers()] == [named.trace_id]
        assert sum(one.role == "answerer" for one in source.decisions()) == 1
        allow(tmp_path / "s", False, "work")
        assert list(source.decisions()) == []


@pytest.mark.parametrize("observed", [False, True])
def test_a_bundle_holds_nothing_of_a_closed_bank(tmp_path: Path, observed: bool) -> None:
    traces = told(tmp_path / "s", observed=observed)
    with StoreSource(tmp_path / "s") as source:
        for name, values in (("open", {*traces.values()}), ("closed", {traces["work"]})):
            bundles.bundle(source, tmp_path / name)
            text = "".join(path.read_text() for path in (tmp_path / name).iterdir())
            assert "harbour" in text
            assert ("francs" in text, "4711-0815" in text) == (name == "open",) * 2
            assert {one for one in traces.values() if one in text} == values
            with bundles.BundleSource(tmp_path / name) as read:
                assert {one.trace_id for one in read.answers()} == values
            allow(tmp_path / "s", False, "money")


def test_an_opt_out_counts_for_a_source_that_is_open_already(tmp_path: Path) -> None:
    people = world(4, seed=7)
    lived(tmp_path / "s", people, teacher(people))
    left = people[0].user_id
    with StoreSource(tmp_path / "s") as source:
        assert left in source.users()
        assert list(source.decisions(user_id=left))
        subject = source.subject(left)
        with Memory(tmp_path / "s") as memory:
            memory.trainable(False, user_id=left)
        assert left not in source.users()
        assert not list(source.decisions(user_id=left))
        assert not list(source.answers(user_id=left))
        (episode,) = source.trajectories([left])
        assert (episode.decisions, episode.answers, episode.ops) == ((), (), ())
        export(source, tmp_path / "rows.jsonl", "parquet", make_embedder("hash"), side="all")
    assert subject.encode() not in (tmp_path / "rows.jsonl").read_bytes()
