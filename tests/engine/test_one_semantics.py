"""Law 1: what the runtime asks a model, the trainer asks it too, byte for byte, and reads the replies alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memkit import Memory
from memkit.embedders import make_embedder
from memkit.embedders.hash import HashEmbedder
from memkit.engine.bank import LiveBank
from memkit.engine.record import prompt_text
from memkit.errors import BadReply
from memkit.models import Bank, to_json
from memkit.ops import BankState
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy, scripts_of
from memkit_train.rewards import Answers, CachedBackbone, Probed
from tests.train.stores import Hands

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
NAMES = ("Ana", "Ben", "Cleo")
QUESTION = "Who went for a long walk with the dog in Lisbon?"


class Noting:
    """Notes every prompt, and replies with a line for each turn, or from the first memory. `cut`: the first reply to
    each prompt is cut at its limit, wherever that leaves it."""

    identity, max_parallel = "noting", 8

    def __init__(self, style: str, *, cut: bool = False) -> None:
        self.style, self.cut = style, cut
        self.prompts: list[str] = []

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._reply(one) for one in requests]

    def _reply(self, request: GenRequest) -> GenReply:
        self.prompts.append(prompt_text(request.prompt))
        stump = self.cut and len(request.prompt.messages) == 2
        text = (_compact if self.style == "compact" else _json)(request)
        return GenReply(text[:-2] if stump else text, finish="length" if stump else "stop")

    def close(self) -> None:
        """Nothing is held."""


def _compact(request: GenRequest) -> str:
    view = request.prompt.view
    match request.prompt.role:
        case "answerer":
            return f"USE {'1' if view.shown else 'NONE'}\nANSWER a dog named Buddy"
        case "extractor":
            return "\n".join(f"{n} {turn.text}" for n, turn in enumerate(view.turns, 1))
        case "manager":
            return "ADD"
        case _:
            return "\n".join(f"ADD {n} {turn.text}" for n, turn in enumerate(view.turns, 1))


def _json(request: GenRequest) -> str:
    view = request.prompt.view
    match request.prompt.role:
        case "answerer":
            return to_json({"memories": [1] if view.shown else [], "answer": "a dog named Buddy"})
        case "extractor":
            return to_json({"facts": [{"turn": n, "fact": turn.text} for n, turn in enumerate(view.turns, 1)]})
        case "manager":
            return to_json({"operations": [{"op": "ADD", "id": None, "text": view.facts[0].text}]})
        case _:
            ops = [{"op": "ADD", "id": None, "text": turn.text, "turn": n} for n, turn in enumerate(view.turns, 1)]
            return to_json({"operations": ops})


def said(number: int, speakers: int) -> dict[str, str]:
    who = NAMES[number % speakers]
    place = ("Lisbon", "Porto", "the park", "Sintra")[number % 4]
    return {"role": "user", "name": who, "content": f"{who} walked {number} miles with the dog in {place}."}


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("style", ["compact", "json"])
@pytest.mark.parametrize("speakers", [1, 3])
@pytest.mark.parametrize("size", [5, 20, 60, 300])
def test_a_question_is_asked_as_memory_answers_it(
    size: int, speakers: int, style: str, cut: bool, tmp_path: Path
) -> None:
    served, clock = Noting(style, cut=cut), Hands(START + timedelta(days=400))
    with Memory(tmp_path / "store", model=served, clock=clock) as memory:
        for day in range(0, size, 100):
            turns = [said(n, speakers) for n in range(day, min(size, day + 100))]
            memory.add(turns, user_id="ana", at=START + timedelta(days=day), infer=False)
        answer = memory.answer(QUESTION, user_id="ana")
    trained = Noting(style, cut=cut)
    with StoreSource(tmp_path / "store") as source:
        env = Env(make_embedder("hash"), source.served_with)
        (episode,) = source.trajectories()
        (event,) = episode.answers
        (script,) = scripts_of(episode)
        bank = env.list_states(script)[-1].live
        answers = Answers(CachedBackbone(trained), env.embedder, source.served_with)
        (found,) = answers.ask([(Probed(event.question, "", clock.now()), bank)])
    assert len(bank) == size
    assert trained.prompts == served.prompts
    assert len(served.prompts) == 1 + cut
    assert [type(attempt.error) for attempt in found.call.attempts] == [BadReply] * cut + [type(None)]
    assert found.text == answer.text
    assert found.draft is not None
    assert found.draft.memory_ids == tuple(record.id for record in answer.cited)


@pytest.mark.parametrize("wording", [1, 2])
def test_replies_are_shown_for_an_answer_as_its_edition_has_it(wording: int, tmp_path: Path) -> None:
    """Each of 20 turns has a reply: the first edition shows all of them, the second those among the ten best."""
    served, trained, clock = Noting("json"), Noting("json"), Hands(START)
    with Memory(tmp_path / "store", model=served, clock=clock, config={"wording": wording}) as memory:
        for n in range(20):
            reply = {"role": "assistant", "content": f"{n} miles with the dog make a long walk, Ana!"}
            memory.add([said(n, 1), reply], user_id="ana", at=START, infer=False)
        best = memory.search(QUESTION, user_id="ana", k=60)
        memory.answer(QUESTION, user_id="ana")
    with StoreSource(tmp_path / "store") as source:
        env = Env(make_embedder("hash"), source.served_with)
        (episode,) = source.trajectories()
        (script,) = scripts_of(episode)
        bank = env.list_states(script)[-1].live
        answers = Answers(CachedBackbone(trained), env.embedder, source.served_with)
        (found,) = answers.ask([(Probed(QUESTION, "", START), bank)])
    assert trained.prompts == served.prompts
    shown = {hit.memory.id for hit in (best if wording == 1 else best[:10])}
    assert {one.record.id for one in found.served} == shown | {
        hit.memory.id for hit in best if hit.memory.origin == "user"
    }
    assert 0 < sum(hit.memory.origin == "assistant" for hit in best[:10]) < 10


@pytest.mark.parametrize(
    ("config", "shown"),
    [({"answer_candidates": 7, "reasks": 0}, 7), ({}, 20), ({"answer_tokens": 100}, None)],
    ids=["chosen", "default", "within a budget"],
)
def test_a_question_that_is_given_up_is_given_up_alike(
    config: dict[str, int], shown: int | None, tmp_path: Path
) -> None:
    class Mute(Noting):
        def generate(self, requests: Sequence[GenRequest]) -> Replies:
            self.prompts += [prompt_text(one.prompt) for one in requests]
            return [GenReply("Hm.") for _ in requests]

    served, trained, clock = Mute("compact"), Mute("compact"), Hands(START)
    with Memory(tmp_path / "store", model=served, clock=clock, config=config) as memory:
        memory.add([said(n, 1) for n in range(20)], user_id="ana", at=START, infer=False)
        with pytest.raises(BadReply):
            memory.answer(QUESTION, user_id="ana")
    with StoreSource(tmp_path / "store") as source:
        env = Env(make_embedder("hash"), source.served_with)
        (episode,) = source.trajectories()
        (script,) = scripts_of(episode)
        bank = env.list_states(script)[-1].live
        answers = Answers(CachedBackbone(trained), env.embedder, source.served_with)
        (found,) = answers.ask([(Probed(QUESTION, "", START), bank)])
    assert trained.prompts == served.prompts
    assert len(served.prompts) == 1 + config.get("reasks", 2)
    assert len(found.served) == shown or (shown is None and 0 < len(found.served) < 7)
    assert isinstance(found.error, BadReply)


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("mode", ["split", "fused"])
@pytest.mark.parametrize("style", ["compact", "json"])
@pytest.mark.parametrize("speakers", [1, 3])
def test_a_turn_is_decided_again_as_memory_decided_it(
    speakers: int, style: str, mode: str, cut: bool, tmp_path: Path
) -> None:
    served, clock = Noting(style, cut=cut), Hands(START)
    config = {"candidates": 3, "context_turns": 2}
    with Memory(tmp_path / "store", model=served, clock=clock, mode=mode, config=config) as memory:
        for n in range(0, 12, 2):
            clock.at = START + timedelta(days=n)
            turns = [said(n, speakers), said(n + 1, speakers)]
            memory.add(turns, user_id="ana", session_id=f"s{n // 4}", at=clock.at)
        kept = [record.text for record in memory.list(user_id="ana")]
    trained = Noting(style, cut=cut)
    with StoreSource(tmp_path / "store") as source:
        env = Env(make_embedder("hash"), source.served_with)
        (episode,) = source.trajectories()
        (script,) = scripts_of(episode)
        (trail,) = env.run([(env.start(script), Policy(trained))], upto=None)
    assert trained.prompts == served.prompts
    assert len(kept) == 12
    assert [record.text for record in trail.end.live.state if record.kind != "turn"] == kept


def test_what_was_asked_while_turns_were_pending_is_asked_again_of_the_same_bank(tmp_path: Path) -> None:
    served, clock = Noting("compact"), Hands(START)
    config = {"candidates": 3, "workers": 0}
    cited: list[list[str]] = []
    undecided: set[str] = set()
    with Memory(tmp_path / "store", model=served, clock=clock, mode="fused", config=config) as memory:
        for n in range(9):
            clock.at = START + timedelta(days=n)
            told = memory.add(said(n, 3), user_id="ana", session_id=f"s{n // 4}", at=clock.at, wait=False)
            undecided.add(told.turns[0].turn_id)
            answer = memory.answer(f"Who walked {n} miles in {said(n, 3)['content'][-8:]}?", user_id="ana")
            cited.append([record.id for record in answer.cited])
            if n % 3 == 1:
                memory.flush()
        memory.flush()
        whole = BankState({record.id: record for _, record in memory._runtime.journal.live(bank=Bank("ana"))})
    assert undecided & {one for ids in cited for one in ids}
    trained = Noting("compact")
    with StoreSource(tmp_path / "store") as source:
        env = Env(make_embedder("hash"), source.served_with)
        (episode,) = source.trajectories()
        (script,) = scripts_of(episode)
        (trail,) = env.run([(env.start(script), Policy(trained))], upto=None)
        answers = Answers(CachedBackbone(trained), env.embedder, source.served_with)
        asked: list[tuple[Probed, LiveBank]] = []
        for event in episode.answers:
            state = BankState().fold([op for op in script.ops if op.seq <= event.state_seq])
            bank = LiveBank.of(list(state), env.embedder, state.seq)
            asked.append((Probed(event.question, "", event.at), bank))
        found = [one.draft.memory_ids if one.draft else () for one in answers.ask(asked)]
    assert [list(ids) for ids in found] == cited
    assert trail.end.live.state.hash() == whole.hash()
    assert sorted(trained.prompts) == sorted(served.prompts)


class Contrary(HashEmbedder):
    """Takes a query for its opposite, so that it shows where one is embedded as if it were to be stored."""

    identity, cheap = "contrary:384", False

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return -self.embed(texts)


def test_an_embedder_that_tells_queries_apart_is_told_them_in_replay(tmp_path: Path) -> None:
    served, clock = Noting("compact"), Hands(START + timedelta(days=9))
    config = {"candidates": 3, "context_turns": 2, "answer_candidates": 3}
    with Memory(tmp_path / "store", model=served, clock=clock, embedder=Contrary(), config=config) as memory:
        memory.add([said(n, 3) for n in range(12)], user_id="ana", at=START)
        answer = memory.answer(QUESTION, user_id="ana")
    trained = Noting("compact")
    with StoreSource(tmp_path / "store") as source:
        env = Env(Contrary(), source.served_with)
        (episode,) = source.trajectories()
        (script,) = scripts_of(episode)
        (trail,) = env.run([(env.start(script), Policy(trained))], upto=None)
        answers = Answers(CachedBackbone(trained), env.embedder, source.served_with)
        (found,) = answers.ask([(Probed(QUESTION, "", clock.now()), trail.end.live)])
    assert trained.prompts == served.prompts
    assert found.draft is not None
    assert found.draft.memory_ids == tuple(record.id for record in answer.cited)
