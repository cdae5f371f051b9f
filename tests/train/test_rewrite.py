"""What a hosted model decided, written as an adapter is asked and replies: the same operations, or left out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from memkit.engine.served_with import ServedWith
from memkit.models import Bank, MemoryRecord, OpDraft, Turn
from memkit_train.replay.env import Env
from memkit_train.replay.hindsight import list_facts
from memkit_train.replay.rewrite import Rewriter
from memkit_train.replay.voice import LoggedVoice, ToldFact
from tests.train.decided import EMBEDDER, START, decided_alike, logged, with_longer_texts

ASKED = [("fused", "json"), ("split", "json"), ("fused", "compact"), ("split", "compact")]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("wanted", ASKED)
def test_a_decision_written_anew_does_the_same(asked: tuple[str, str], wanted: tuple[str, str]) -> None:
    if asked == wanted:
        return
    rng = random.Random(f"{asked}{wanted}")
    env = Env(EMBEDDER, ServedWith(mode=wanted[0]))
    for _ in range(3):
        episode = logged(rng, mode=asked[0], style=asked[1])
        calls, left_out = Rewriter(env, wanted[1]).rewrite(episode)
        assert not left_out
        assert list(decided_alike(episode, env, calls, wanted[1])) == [True] * 12


def test_what_a_local_model_may_not_write_is_left_out_and_counted() -> None:
    episode = logged(random.Random(5), scenes=6)
    longer = [with_longer_texts(one) for one in episode.decisions]
    calls, left_out = Rewriter(Env(EMBEDDER, ServedWith())).rewrite(replace(episode, decisions=tuple(longer)))
    writing = [one for one in longer if "very long" in (one.reply or "")]
    assert left_out == {"cannot be said in this style": len(writing)}
    assert not {one.decision_id for one in writing} & {ref for one in calls for ref in one.decision_ids}


def test_an_extractor_does_not_learn_to_write_what_only_the_memory_says() -> None:
    turn = Turn("t", "i", Bank("u"), 0, "user", "Hi! We got another dog, Scout.", START, "Ana")
    known = {"m": MemoryRecord("m", "Ana has a dog named Buddy.")}
    merged = OpDraft("update", "m", "Ana has a dog named Buddy and another dog, Scout.", ("t",))
    changed = OpDraft("update", "m", "Ana has a cat.", ("t",))
    over, again = OpDraft("delete", "m", None, ("t",)), OpDraft("noop", "m", None, ("t",))
    assert list_facts([merged], [turn], known) == [["We got another dog, Scout.", merged.text]]
    assert list_facts([changed], [turn], known)[0][0] == "Ana has a cat."
    assert list_facts([over], [turn], known) == [["We got another dog, Scout.", turn.text]]
    assert list_facts([changed, over], [turn], known)[1][0] == 0, "what ends it is what is new"
    assert list_facts([again], [turn], known)[0][0] == "We got another dog, Scout."


@pytest.mark.parametrize(("speaker", "says"), [("Ana", "Ana: I moved."), ("", "User: I moved.")])
def test_what_two_turns_say_alike_stays_two_facts(speaker: str, says: str) -> None:
    """An extractor's equal facts are one, and would be of one turn."""
    turns = [
        Turn(f"t{n}", "i", Bank("u"), n, "user", text, START, speaker) for n, text in enumerate(("I moved.", "Yes."))
    ]
    drafts = (OpDraft("add", None, "I moved.", ("t1",)), OpDraft("delete", "m", None, ("t0",)))
    voice = LoggedVoice("compact", turns, [ToldFact(drafts, "d", None)], {"m": MemoryRecord("m", "Ana lives in Rome.")})
    assert [(one.turn_id, one.text) for one in voice.plan] == [("t1", "I moved."), ("t0", says)]
