"""What was ended stays ended: whichever way it ends, no read serves it, and what was erased is in no file."""

from __future__ import annotations

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
