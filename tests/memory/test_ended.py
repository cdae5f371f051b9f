"""What was ended stays ended: whichever way it ends, no read serves it, and what was erased is in no file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memkit import Memory
from memkit.embedders import make_embedder
from memkit.engine.record import prompt_text
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy, scripts_of
from tests.canaries import WAYS, outcome


@pytest.mark.parametrize(
    ("way", "rules"),
    [(way, rules) for way in WAYS for rules in (True, False) if rules or way != "forget by message"],
)
def test_no_read_serves_what_was_ended(tmp_path: Path, way: str, rules: bool) -> None:
    found = outcome(tmp_path / "s", way, 2, rules=rules, control=3)
    assert found.leaks == {}
    assert found.blind == frozenset(), "reads that serve nothing prove nothing"
    assert found.on_disk == (0 if way.startswith("erase") else 2), "history keeps what was ended, and erases what was"


def test_earlier_turns_are_shown_to_a_manager_as_they_stand_and_so_in_replay(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("I like tea. My locker number is 4711.", user_id="ana", session_id="s1")
        memory.add("I play the violin.", user_id="ana", session_id="s1")
        (locker,) = [one for one in memory.list(user_id="ana") if "4711" in one.text]
        memory.delete(locker.id, user_id="ana")
        memory.add("I like rye bread.", user_id="ana", session_id="s1")
        memory.flush()
        backbone = memory._runtime.backbone
    with StoreSource(tmp_path / "s") as source:
        (episode,) = source.trajectories()
        (script,) = scripts_of(episode)
        env = Env(make_embedder("hash"), source.served_with)
        logged = {one.decision_id: one.blobs[one.prompt_hash or ""] for one in episode.decisions}
        (trail,) = env.run([(env.list_states(script)[-2], Policy(backbone))], upto=None)
    last = [prompt_text(call.prompt) for call in trail.calls]
    assert last == [logged[call.decision_id] for call in trail.calls]
    assert ["4711" in prompt for prompt in last] == [False] * len(last)
    assert "I like tea." in last[0]
    assert "violin" in last[0]


@pytest.mark.parametrize(
    ("said", "found"), [("I have two dogs, Rex and Bo.", True), ("Forget that I have a dog named Rex.", False)]
)
def test_words_of_a_memory_that_is_merged_into_another_stay_unless_they_are_to_be_forgotten(
    tmp_path: Path, said: str, found: bool
) -> None:
    first, second = "My dog is called Rex. Oslo is cold.", "Bo is my dog, too."
    facts = {first: "The user has a dog, Rex.", second: "The user has a dog, Bo."}

    def model(messages: list[dict[str, str]]) -> str:
        memories, new = messages[-1]["content"].split("NEW turns:")
        for words, fact in facts.items():
            if words in new:
                return f'{{"operations": [{{"op": "ADD", "id": null, "text": "{fact}", "turn": 1}}]}}'
        rex, bo = (re.findall(rf"^(\d+) .*dog, {name}", memories, re.M)[0] for name in ("Rex", "Bo"))
        merged = f'{{"op": "UPDATE", "id": {bo}, "text": "The user has two dogs, Rex and Bo.", "turn": 1}}'
        return f'{{"operations": [{merged}, {{"op": "DELETE", "id": {rex}, "text": null, "turn": 1}}]}}'

    with Memory(tmp_path / "s", model=model, mode="fused") as memory:
        for words in (first, second, said):
            memory.add(words, user_id="ana")
        assert memory.parked() == []
        hits = memory.search("Rex", user_id="ana", kinds=["turn"])
    assert any("My dog is called Rex." in hit.text for hit in hits) == found


@pytest.mark.parametrize(
    ("text", "stays"),
    [("Marta wants 55 printers, has a budget of 60k and decides by May.", True), ("Marta wants no printers.", False)],
)
def test_words_stay_where_one_of_two_memories_that_told_the_same_is_brought_up_to_date(
    tmp_path: Path, text: str, stays: bool
) -> None:
    replies = [
        '{"operations": [{"op": "ADD", "id": null, "text": "Marta wants 40 printers.", "turn": 1}, {"op": "ADD", "id": '
        'null, "text": "Marta wants 40 printers, has a budget of 60k and decides by May.", "turn": 1}]}',
    ]

    def model(messages: list[dict[str, str]]) -> str:
        if replies:
            return replies.pop()
        long, short = (
            re.findall(rf"^(\d+) .*40 printers{end}", messages[-1]["content"], re.M)[0] for end in (",", r"\.")
        )
        merged = f'{{"op": "UPDATE", "id": {short}, "text": "{text}", "turn": 1}}'
        return f'{{"operations": [{merged}, {{"op": "DELETE", "id": {long}, "text": null, "turn": 1}}]}}'

    with Memory(tmp_path / "s", model=model, mode="fused") as memory:
        for said, answer in (("met marta, 40 printers by may", "Logged, Marta."), ("news of marta", "Logged.")):
            talk = [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]
            memory.add(talk, user_id="ana", session_id="s")
        turns = [hit.text for hit in memory.search("marta", user_id="ana", kinds=["turn"])]
    assert ("met marta, 40 printers by may" in turns) is stays
    assert ("Logged, Marta." in turns) is stays
