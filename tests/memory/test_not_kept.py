"""`keep_turns="none"`: once a turn is decided its words are nowhere, and what was decided of it teaches nobody."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memkit import Memory
from memkit import errors as e
from memkit_train.credit.inspect import inspect
from memkit_train.log import StoreSource
from memkit_train.replay import scripts_of
from tests.cli.test_cli import memkit
from tests.memory.test_erase import banks_agree, holding

SECRET = "zebrafluke-4408"
SAID = f"I moved to Oslo, and the code of my door is {SECRET}."


def model(messages: list[dict[str, str]]) -> str:
    """Writes where somebody lives, and repeats what it read where the format lets it."""
    new = messages[-1]["content"].split("NEW turns:")[-1]
    fact = "User lives in Oslo." if "Oslo" in new else "User told something."
    return json.dumps({"thought": new, "operations": [{"op": "ADD", "id": None, "text": fact, "turn": 1}]})


OPTIONS = {"rules": {}, "model": {"model": model, "mode": "fused"}}


@pytest.mark.parametrize("by", OPTIONS)
def test_once_decided_the_words_are_in_no_file_and_in_no_later_prompt(tmp_path: Path, by: str) -> None:
    store = tmp_path / "store"
    with Memory(store, **OPTIONS[by]) as memory:
        added = memory.add(SAID, user_id="ana", session_id="s", keep_turns="none", idempotency_key="k")
        memory.add("I play the violin.", user_id="ana", session_id="s")
        memory.add(f"Forget that the code is {SECRET}.", user_id="ana", session_id="s", keep_turns="none")
        assert added.status == "applied"
        assert [turn.text for turn in memory._runtime.journal.turns(bank=memory._bank("ana", None))][::2] == ["", ""]
        assert memory.add(SAID, user_id="ana", session_id="s", keep_turns="none", idempotency_key="k").replayed
        assert "Oslo" in memory.search("where does Ana live?", user_id="ana", k=1, expand="sources")[0].text
        assert memory.doctor() == []
        memory.flush()
    assert holding(store, SECRET) == []


def test_what_could_not_be_decided_waits_with_its_words_and_goes_once_it_is(tmp_path: Path) -> None:
    broken = True

    def failing(messages: list[dict[str, str]]) -> str:
        hears = SECRET in messages[-1]["content"]
        return json.dumps({"operations": [{"op": SECRET}]}) if broken and hears else model(messages)

    store = tmp_path / "store"
    with Memory(store, model=failing, mode="fused", keep_turns="none") as memory:
        memory.add("I live in Oslo.", user_id="ana", session_id="s")
        assert memory.add(SAID, user_id="ana", session_id="s").status == "parked"
        memory.add("I play the violin.", user_id="ana", session_id="s", keep_turns="all")
        prompts = [text for one in memory._runtime.journal.decisions() for text in one.blobs.values()]
        assert SECRET not in "".join(prompts)
        (waiting,) = memory.parked(user_id="ana")
        assert memory._runtime.journal.intake(waiting.trace_id).intake.turns[0].text == SAID
        broken = False
        assert memory.retry(user_id="ana") == 1
        assert any("Oslo" in record.text for record in memory.list(user_id="ana"))
        memory.flush()
    assert holding(store, SECRET) == []


def test_history_and_log_say_that_the_words_were_not_kept(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        added = memory.add("I live in Oslo.", user_id="ana", keep_turns="none")
        (_, said) = memory.history(user_id="ana")
        (decision, *_) = memory.decisions(user_id="ana")
    assert (said.action, said.text) == ("noop", 'the words were not kept (keep_turns="none")')
    assert said.source_turns == tuple(turn.turn_id for turn in added.turns)
    assert decision["reply"] is None
    assert "not kept" in decision["missing"]["reply"]
    for command in ("history", "log"):
        assert 'the words were not kept (keep_turns="none")' in memkit(command, "-u", "ana", "-s", "s", cwd=tmp_path)[1]


def test_why_nothing_was_written_is_still_said(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        kept = memory.add("Hi there, how are you?", user_id="ana").reason
        assert kept
        assert memory.add("Hi there, how are you?", user_id="ben", keep_turns="none").reason == kept


def test_a_blanked_store_travels_and_an_empty_turn_of_another_kind_is_refused(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Oslo.", user_id="ana", keep_turns="none")
        memory.export(tmp_path / "out.jsonl")
    with Memory(tmp_path / "t") as other:
        other.import_(tmp_path / "out.jsonl")
        assert [record.text for record in other.list(user_id="ana")] == ["User lives in Oslo."]
        assert other.doctor() == []
    forged = (tmp_path / "out.jsonl").read_text().replace('"trainable":false', '"trainable":true')
    (tmp_path / "forged.jsonl").write_text(forged)
    with Memory(tmp_path / "u") as third, pytest.raises(e.InvalidInput, match="text is empty"):
        third.import_(tmp_path / "forged.jsonl")


@pytest.mark.parametrize("sealed", [False, True])
def test_nothing_is_learned_from_it_and_the_bank_replays(tmp_path: Path, sealed: bool) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Oslo.", user_id="ana", session_id="s", keep_turns="none")
        memory.add("I play the violin.", user_id="ana", session_id="s")
        if sealed:
            memory.flush()
        assert banks_agree(memory, tmp_path / "s")
    with StoreSource(tmp_path / "s") as source:
        (episode,) = source.trajectories(["ana"])
        (script,) = scripts_of(episode)
        found = inspect(source)
        assert {one.intake_id for one in source.decisions()} == {script.scenes[0].intake_id}
    assert [(scene.turns[0].text, scene.context_turns) for scene in script.scenes] == [("I play the violin.", ())]
    assert found.to_json()["words_not_kept"] == 1


KILLED = """
import os, signal, sys
from memkit import Memory
from memkit.journal import intakes
from tests.memory.test_not_kept import SAID

blank = intakes.blank
def dying(tx, number):
    if sys.argv[2] == "after":
        blank(tx, number)
    os.kill(os.getpid(), signal.SIGKILL)

intakes.blank = dying
Memory(sys.argv[1]).add(SAID, user_id="ana", keep_turns="none")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_between_decision_and_blanking_it_is_decided_again_and_blanked(tmp_path: Path, when: str) -> None:
    store = tmp_path / "store"
    died = subprocess.run([sys.executable, "-c", KILLED, store, when], cwd=Path(__file__).parents[2])
    assert died.returncode == -signal.SIGKILL
    with Memory(store) as memory:
        memory.flush()
        assert any("Oslo" in record.text for record in memory.list(user_id="ana"))
        assert [turn.text for turn in memory._runtime.journal.turns()] == [""]
    assert holding(store, SECRET) == []
