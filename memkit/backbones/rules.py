"""The rule baseline: a backbone without a model. Deterministic, standard library only, well under a millisecond.

It reads the structured view behind a prompt and replies in the compact grammar, so that its decisions take the very
path of a model's: parsed, validated, logged, replayed. It is what memkit does when nothing is configured, and the
bar that a trained adapter has to clear.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from memkit.backbones._rules_answer import answer
from memkit.backbones._rules_extract import facts_of
from memkit.backbones._rules_manage import Decision, Known, decide
from memkit.roles.base import Prompt
from memkit.seams.backbone import GenReply, GenRequest, Replies, Usage

IDENTITY = "rules/1"

_NO_TOKENS = "rules decide without tokens or probabilities"
_MISSING = {name: _NO_TOKENS for name in ("prompt_ids", "token_ids", "logprobs", "sampled_logprobs")}


class RuleBackbone:
    """Stateless, hence thread-safe."""

    identity = IDENTITY
    style = "compact"
    max_parallel = 64

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._reply(request.prompt) for request in requests]

    def close(self) -> None:
        """Nothing is held."""

    def _reply(self, prompt: Prompt) -> GenReply:
        started = time.perf_counter()
        text = _REPLIES[prompt.role](prompt)
        elapsed = (time.perf_counter() - started) * 1e3
        return GenReply(text, model=IDENTITY, usage=Usage(), latency_ms=elapsed, missing=_MISSING)


def _extract(prompt: Prompt) -> str:
    lines = [f"{number} {fact}" for number, turn in enumerate(prompt.view.turns, 1) for fact in facts_of(turn)]
    most = 3 * len(prompt.view.turns) + 3
    return "\n".join(lines[: min(most, 20)]) or "NONE"


def _is_reask(prompt: Prompt) -> bool:
    """Rules would only repeat themselves: what was refused (an update into another memory's text, say) is given up
    for ADD, which no bank refuses."""
    return len(prompt.messages) > 2


def _manage(prompt: Prompt) -> str:
    if _is_reask(prompt):
        return "ADD"
    known = [Known(one.handle, one.record.text, one.whole) for one in prompt.view.shown]
    decision = decide(prompt.view.facts[0].text, known)
    return " ".join(str(part) for part in (decision.action.upper(), decision.handle, decision.text) if part is not None)


def _answer(prompt: Prompt) -> str:
    used, text = answer(prompt.view.question, prompt.view.shown)
    return f"USE {' '.join(map(str, used)) or 'NONE'}\nANSWER {text or 'unknown'}"


@dataclass(slots=True)
class _Standing:
    """A memory as this reply will leave it: shown (`handle`) or new."""

    handle: int | None
    text: str
    turn: int = 0
    action: str = ""
    whole: bool = True


def _fuse(prompt: Prompt) -> str:
    """Fact by fact as the manager would, each against what the earlier ones have already changed, with at most one
    operation for each memory."""
    shown = () if _is_reask(prompt) else prompt.view.shown
    standing = [_Standing(one.handle, one.record.text, whole=one.whole) for one in shown]
    for number, turn in enumerate(prompt.view.turns, 1):
        for fact in facts_of(turn):
            _change(standing, decide(fact, _live(standing)), fact, number)
    lines = [_line(one) for one in standing if one.action][: min(3 * len(prompt.view.turns) + 3, 20)]
    return "\n".join(lines) or "NOOP"


def _live(standing: Sequence[_Standing]) -> list[Known]:
    return [Known(at, one.text, one.whole) for at, one in enumerate(standing) if one.action != "DELETE"]


def _change(standing: list[_Standing], decision: Decision, fact: str, turn: int) -> None:
    if decision.handle is None:
        standing.append(_Standing(None, fact, turn, "ADD"))
        return
    one = standing[decision.handle]
    if decision.action == "update":
        one.text, one.turn = decision.text or fact, turn
        one.action = one.action if one.handle is None else "UPDATE"
    elif decision.action == "delete":
        one.action, one.turn = ("" if one.handle is None else "DELETE"), turn
        one.text = "" if one.handle is None else one.text
    elif not one.action:
        one.action, one.turn = "NOOP", turn


def _line(one: _Standing) -> str:
    parts = [one.action, one.handle, one.turn, one.text if one.action in ("ADD", "UPDATE") else None]
    return " ".join(str(part) for part in parts if part is not None)


_REPLIES = {"extractor": _extract, "manager": _manage, "answerer": _answer, "fused": _fuse}
