"""The small manager behind the seam of all models: it reads the view of a prompt and replies in the compact grammar, so
that what it decides is parsed, guarded, logged, replayed and credited like any other model's.

Requests to forget and corrections are obeyed as the rules do, and answers are the rules': nothing there is learned.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memkit.backbones._rules_manage import KnownMemory, RuleDecision, decide, find_forgotten
from memkit.backbones._rules_person import third_person
from memkit.backbones._rules_requests import forgetting_words, meant, to_forget
from memkit.backbones._rules_words import single_line
from memkit.backbones.rules import KNOWN, MOST_FORGOTTEN, NOTHING_CORRECTED, NOTHING_FORGOTTEN, RuleBackbone
from memkit.backbones.small import phrase
from memkit.backbones.small.choose import TakenOption, choose, log_softmax
from memkit.backbones.small.encoder import Encoder, Task, TextPair
from memkit.backbones.small.features import are_alike
from memkit.backbones.small.pairs import clause_pair, relation_pair
from memkit.backbones.small.shape import PAIRS, SURE, SURE_ALIKE
from memkit.embedders.weights import fingerprint
from memkit.errors import ModelError
from memkit.models import Turn
from memkit.roles.base import Shown
from memkit.seams.backbone import GenReply, GenRequest, Replies, Usage
from memkit.text.clauses import ClauseSpan, clauses
from memkit.text.forgetting import named_in
from memkit.text.requests import request_in
from memkit.text.words import words

IDENTITY = "small/1"
SHIPPED = Path(__file__).parent / "weights"
NOTHING_KEPT = "nothing in it is worth keeping as a fact: the words themselves are kept"
_READ = 500
_MOST_FACTS = 8
_WHY = "it chooses, and writes no tokens: its choices and their log-probs are in extra"
_MISSING = {name: _WHY for name in ("prompt_ids", "token_ids", "logprobs", "sampled_logprobs")}


@dataclass(slots=True)
class _Asked:
    """One request while it is answered."""

    request: GenRequest
    choices: list[TakenOption] = field(default_factory=list[TakenOption])


class SmallBackbone:
    """Thread-safe. Weights are loaded with the first decision."""

    style = "compact"
    max_parallel = 4

    def __init__(self, *, path: str | None = None, weights: str | Path = SHIPPED) -> None:
        """`path`: a local copy of all-MiniLM-L6-v2. `weights`: a folder of what was learned, in place of what is
        shipped."""
        self._encoder = Encoder(Path(weights), path)
        self._rules = RuleBackbone()

    @property
    def identity(self) -> str:
        return IDENTITY

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._reply(request) for request in requests]

    def close(self) -> None:
        """Nothing is held but memory."""

    # ---- adapters --------------------------------------------------------------------------------------------------

    @property
    def base_digest(self) -> str:
        """Of the encoder, whose upper layers adapters change, and of the way in which it is asked."""
        return f"{IDENTITY}:{fingerprint(self._encoder.folder)}"

    @property
    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        """The layers that may carry LoRA matrices: name → (out, in)."""
        return self._encoder.linear_shapes()

    def load_learned(self, name: str, path: Path) -> None:
        self._encoder.learn(name, path)

    def unload_learned(self, name: str) -> None:
        self._encoder.forget(name)

    def resident(self) -> list[str]:
        return self._encoder.names()

    def score(self, name: str, pairs: Sequence[TextPair]) -> list[NDArray[np.float64]]:
        """For each pair the log-probs of its task's options, under what was learned by that name ("": as shipped)."""
        return [log_softmax(one) for one in self._encoder.score(pairs, name)]

    def _reply(self, request: GenRequest) -> GenReply | ModelError:
        role = request.prompt.role
        if role in ("answerer", "reflector"):
            return self._rules.generate([request])[0]
        started = time.perf_counter()
        asked = _Asked(request)
        try:
            text, why = {"extractor": self._extract, "manager": self._manage, "fused": self._fuse}[role](asked)
        except ModelError as error:
            return error
        elapsed = (time.perf_counter() - started) * 1e3
        extra = {"choices": [one.to_json() for one in asked.choices]} | ({"reason": why} if why else {})
        return GenReply(
            text, request.adapter, model=IDENTITY, usage=Usage(), latency_ms=elapsed, missing=_MISSING, extra=extra
        )

    # ---- which clauses are kept ------------------------------------------------------------------------------------

    def _extract(self, asked: _Asked) -> tuple[str, str]:
        lines = [f"{number} {fact}" for number, fact in self._kept(asked)]
        return ("\n".join(lines), "") if lines else ("NONE", NOTHING_KEPT)

    def _kept(self, asked: _Asked) -> list[tuple[int, str]]:
        """(turn, fact), in order, as many as one reply may hold."""
        turns = asked.request.prompt.view.turns
        found = [
            (number, fact)
            for number, turn in enumerate(turns, 1)
            if turn.role == "user" or (turn.role == "assistant" and turn.speaker)
            for fact in self._facts(asked, number, turn)
        ]
        return list(dict.fromkeys(found))[: min(3 * len(turns) + 3, 20)]

    def _facts(self, asked: _Asked, number: int, turn: Turn) -> list[str]:
        """The requests in a turn that are obeyed, and what is kept of it."""
        obeyed = [fact for fact in phrase.reading_of(turn, turn.text).facts if _is_request(fact)]
        request, named = request_in(turn.text), named_in(turn.text)
        if named and not any(to_forget(fact) for fact in obeyed):
            obeyed.append(forgetting_words(named.text, single_line(turn.speaker, 40) or "User"))
        first = turn.text.index(request) if request else len(turn.text)
        pairs: list[TextPair] = []
        spans: list[ClauseSpan] = []
        for span in clauses(turn.text):
            said = turn.text[span.start : span.end]
            reading = phrase.reading_of(turn, said)
            is_asked = span.end > first and span.start < first + len(request)
            if not is_asked and not any(map(_is_request, reading.facts)):
                spans.append(span)
                pairs.append(clause_pair(turn, span.start, span.end, reading))
        kept: list[ClauseSpan] = []
        for span, scores in zip(spans, self._score(asked, pairs), strict=True):
            choice = self._choose(asked, "clause", (number, span.start, span.end), scores, SURE["clause"])
            if choice.option == "leave" or len(words(turn.text[span.start : span.end])) < 2:
                continue
            if kept and kept[-1].sentence == span.sentence and not turn.text[kept[-1].end : span.start].strip():
                kept[-1] = ClauseSpan(kept[-1].start, span.end, span.sentence)
            else:
                kept.append(span)
        found = [fact for span in kept for fact in phrase.facts_of(turn, span.start, span.end)]
        return list(dict.fromkeys([*obeyed, *found]))[:_MOST_FACTS]

    # ---- what a fact does to the memories --------------------------------------------------------------------------

    def _manage(self, asked: _Asked) -> tuple[str, str]:
        view = asked.request.prompt.view
        found = self._decide(asked, 1, view.facts[0].text, view.shown)
        return "\n".join(" ".join(map(str, one.parts())) for one in found) or "NOOP", _why(found)

    def _fuse(self, asked: _Asked) -> tuple[str, str]:
        """Fact by fact as the manager would, with at most one operation for each memory."""
        kept, shown = self._kept(asked), list(asked.request.prompt.view.shown)
        lines: list[str] = []
        found: list[_Operation] = []
        for place, (turn, fact) in enumerate(kept, 1):
            for one in self._decide(asked, place, fact, shown):
                text = one.text or (fact if one.action == "ADD" else None)
                lines.append(" ".join(map(str, replace(one, text=text).parts(turn))))
                shown = [other for other in shown if other.handle != one.handle]
                found.append(one)
        return "\n".join(lines) or "NOOP", _why(found) if kept else NOTHING_KEPT

    def _decide(self, asked: _Asked, place: int, fact: str, shown: Sequence[Shown]) -> list[_Operation]:
        """What a fact does to the memories shown with it. `place`: its number among the facts of the reply."""
        again = len(asked.request.prompt.messages) > 2  # ADD is what no bank refuses
        wanted = to_forget(fact)
        if wanted is not None:
            known = [replace(_known(one), text=third_person(one.record.text[:_READ], "User")) for one in shown]
            handles = find_forgotten(wanted, known)[: 1 if again else MOST_FORGOTTEN]
            return [_Operation("DELETE", handle) for handle in handles] or [_Operation("NOOP", why=NOTHING_FORGOTTEN)]
        if meant(fact):
            ruled = decide(fact, [_known(one) for one in shown])
            if ruled.action == "update" and not again:
                return [_Operation("UPDATE", ruled.handle, ruled.text)]
            return [_Operation("NOOP", why=NOTHING_CORRECTED)]
        if again:
            return [_Operation("ADD")]
        near = nearest(fact, shown)
        decisions = [decide(fact, [_known(one)]) for one in near]
        pairs = [relation_pair(one.record.text, fact, decision) for one, decision in zip(near, decisions, strict=True)]
        related: list[tuple[TakenOption, Shown, RuleDecision]] = []
        for one, decision, pair, scores in zip(near, decisions, pairs, self._score(asked, pairs), strict=True):
            sure = SURE_ALIKE if are_alike(pair.features) else SURE["relation"]
            choice = self._choose(asked, "relation", (place, one.handle), scores, sure)
            if choice.option != "unrelated":
                related.append((choice, one, decision))
        return [_operation(fact, related)]

    def _choose(
        self, asked: _Asked, task: Task, place: tuple[int, ...], scores: NDArray[np.float32], sure: float
    ) -> TakenOption:
        choice = choose(task, place, scores, asked.request.sampling, asked.request.key, sure)
        asked.choices.append(choice)
        return choice

    def _score(self, asked: _Asked, pairs: Sequence[TextPair]) -> list[NDArray[np.float32]]:
        """The pairs of one request by themselves: who else asks changes no bit of the scores."""
        return self._encoder.score(pairs, asked.request.adapter or "")


@dataclass(frozen=True, slots=True)
class _Operation:
    action: str
    handle: int | None = None
    text: str | None = None
    why: str = ""
    """Why nothing is written."""

    def parts(self, turn: int | None = None) -> list[str | int]:
        return [part for part in (self.action, self.handle, turn, self.text) if part is not None]


def _why(found: Sequence[_Operation]) -> str:
    return "; ".join(dict.fromkeys(one.why for one in found if one.why))


def _operation(fact: str, related: Sequence[tuple[TakenOption, Shown, RuleDecision]]) -> _Operation:
    """One operation, on the memory that the fact surely concerns most."""
    for choice, one, decision in sorted(related, key=lambda one: -one[0].logprob):
        old, said, ruled = one.record.text, one.record.at, decision.text if decision.action == "update" else None
        if choice.option == "same":
            return _Operation("NOOP", one.handle, why=KNOWN)
        text = ruled or (phrase.rewrite(old, fact, said) if choice.option != "adds" else None)
        if text and one.whole:
            return _Operation("UPDATE", one.handle, text)
    return _Operation("ADD")


def _is_request(fact: str) -> bool:
    """To forget, or to correct: as the rules put it."""
    return to_forget(fact) is not None or bool(meant(fact))


def nearest(fact: str, shown: Sequence[Shown]) -> list[Shown]:
    """The memories that are worth a look, in the order of their numbers."""
    best = sorted(shown, key=lambda one: (-one.score, one.handle))[:PAIRS]
    return sorted(best, key=lambda one: one.handle)


def _known(one: Shown) -> KnownMemory:
    return KnownMemory(one.handle, one.record.text[:_READ], one.whole, one.record.seq)
