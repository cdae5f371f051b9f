"""Conversations of a file as talks: when the answer to a question begins to hold, from its evidence, or from the words.

Sets of statements in which later ones override earlier ones (FactConsolidation) name no evidence. There an answer holds
from the last statement on that says it, and has most in common with the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memkit.models import digest
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit.text.words import terms
from memkit_env.settings import StateSettings
from memkit_train.evaluate.conversations import Conversation, GoldQuestion, SpokenTurn
from memkit_train.evaluate.loaders import load
from memkit_train.log.splits import Split
from memkit_train.replay.script import Script, script_of
from memkit_train.rewards.base import Probed
from memkit_train.rl.talks import Talk, Timed

_ASIDE = 0x5EED


@dataclass(slots=True)
class VerbatimHearing:
    """Every turn of a user is one fact, in its own words."""

    style: str = "compact"
    identity: str = "verbatim"
    max_parallel: int = 1 << 20

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [GenReply(self._hear(one), model=self.identity) for one in requests]

    def _hear(self, request: GenRequest) -> str:
        turns = enumerate(request.prompt.view.turns, start=1)
        return (
            "\n".join(f"{number} {' '.join(turn.text.split())}" for number, turn in turns if turn.role == "user")
            or "NONE"
        )

    def close(self) -> None:
        """Nothing is held."""


def read_talks(settings: StateSettings) -> list[Talk]:
    """Of the conversations on the chosen side. A conversation stays whole."""
    assert settings.spoken is not None
    by_subject = {digest(one.conversation_id)[:32]: one for one in load(settings.spoken).conversations}
    train, held = Split(settings.split_seed, settings.heldout_share).divide(by_subject)
    if settings.split == "heldout":
        return [_as_talk(one, by_subject[one]) for one in held]
    aside = Split(settings.split_seed + _ASIDE, settings.validation_share)
    chosen = [one for one in train if aside.is_heldout(one) == (settings.split == "validation")]
    return [_as_talk(one, by_subject[one]) for one in chosen]


def _as_talk(subject: str, said: Conversation) -> Talk:
    script = script_of(said.conversation_id, [turn.as_turn(said.conversation_id) for turn in said.turns])
    asked = (_put(question, said.turns, script) for question in said.questions if question.as_of is None)
    return Talk(subject, script, tuple(one for one in asked if one is not None))


def _put(question: GoldQuestion, turns: Sequence[SpokenTurn], script: Script) -> Timed | None:
    """None: nobody said what it expects."""
    after = len(turns)
    if question.after_session is not None:
        after = max(at for at, turn in enumerate(turns, start=1) if turn.session_id == question.after_session)
    told = {turn.ref: at for at, turn in enumerate(turns[:after], start=1)}
    evidence = [ref for ref in question.evidence if ref in told] or _find_evidence(question, turns[:after])
    if question.gold and not evidence:
        return None
    since = max((told[ref] for ref in evidence), default=0)
    expected = question.gold[0] if question.gold else "unknown"
    now = question.at or script.scenes[after - 1].now
    probe = Probed(question.text, expected, now, tuple(evidence), after, key=question.question_id)
    return Timed(probe, since, after, frozenset(turns[told[ref] - 1].session_id for ref in evidence))


def _find_evidence(question: GoldQuestion, turns: Sequence[SpokenTurn]) -> list[str]:
    forms, asked = [form.casefold() for form in question.gold], set(terms(question.text))
    saying = [
        (len(asked & set(terms(turn.text))), at, turn.ref)
        for at, turn in enumerate(turns)
        if any(form in turn.text.casefold() for form in forms)
    ]
    return [ref for common, _, ref in [max(saying)] if common] if saying else []
