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
from memkit.backbones._rules_extract import NOT_THE_USER, NOTHING_FORGOTTEN, Reading, read
from memkit.backbones._rules_manage import KnownMemory, RuleDecision, decide, find_forgotten
from memkit.backbones._rules_requests import meant, to_forget
from memkit.roles.base import Prompt
from memkit.seams.backbone import GenReply, GenRequest, Replies, Usage

IDENTITY = "rules/2"

KNOWN = "known already"
NOTHING_CORRECTED = "no memory was found that this corrects"
MOST_FORGOTTEN = 3
"""As many memories as one turn may delete."""
_READ = 500
"""Characters of a memory that are compared."""

_RUN_CHARS = 300
"""Of a run, as much as can be shown and rewritten."""

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
        text, why = _REPLIES[prompt.role](prompt)
        elapsed = (time.perf_counter() - started) * 1e3
        extra = {"reason": why} if why else {}
        return GenReply(text, model=IDENTITY, usage=Usage(), latency_ms=elapsed, missing=_MISSING, extra=extra)


def _extract(prompt: Prompt) -> tuple[str, str]:
    readings = [read(turn) for turn in prompt.view.turns]
    lines = [f"{number} {fact}" for number, reading in enumerate(readings, 1) for fact in reading.facts]
    most = 3 * len(prompt.view.turns) + 3
    return "\n".join(lines[: min(most, 20)]) or "NONE", "" if lines else _why_nothing(readings)


def _why_nothing(readings: Sequence[Reading]) -> str:
    """The reasons of what people said; of others only where nobody else spoke."""
    reasons = dict.fromkeys(reading.reason for reading in readings)
    if len(reasons) > 1:
        reasons.pop(NOT_THE_USER, None)
    return "; ".join(reasons)


def _is_reask(prompt: Prompt) -> bool:
    """Rules would only repeat themselves: what was refused (an update into another memory's text, say) is given up
    for ADD, which no bank refuses."""
    return len(prompt.messages) > 2


def _manage(prompt: Prompt) -> tuple[str, str]:
    fact, again = prompt.view.facts[0].text, _is_reask(prompt)
    known = [KnownMemory(one.handle, one.record.text[:_READ], one.whole, one.record.seq) for one in prompt.view.shown]
    wanted = to_forget(fact)
    if wanted is not None:
        handles = find_forgotten(wanted, known)[: 1 if again else MOST_FORGOTTEN]
        return "\n".join(f"DELETE {handle}" for handle in handles) or "NOOP", "" if handles else NOTHING_FORGOTTEN
    decision = RuleDecision("noop" if meant(fact) else "add") if again else decide(fact, known)
    if decision.action == "noop":
        why = KNOWN if decision.handle is not None else NOTHING_CORRECTED
        return ("NOOP" if decision.handle is None else f"NOOP {decision.handle}"), why
    if again:
        return "ADD", ""
    return " ".join(
        str(part) for part in (decision.action.upper(), decision.handle, decision.text) if part is not None
    ), ""


def _answer(prompt: Prompt) -> tuple[str, str]:
    used, text = answer(prompt.view.question, prompt.view.shown)
    return f"USE {' '.join(map(str, used)) or 'NONE'}\nANSWER {text or 'unknown'}", ""


def _reflect(prompt: Prompt) -> tuple[str, str]:
    """The run itself, under its task: what the app noted of its end, and what was done."""
    task, *steps, ended = (turn.text for turn in prompt.view.turns)
    done = [step for step, turn in zip(steps, prompt.view.turns[1:], strict=False) if turn.role == "assistant"]
    note = ended.partition(": ")[2]
    told = " ".join("; ".join(filter(None, [note, *done])).split())
    head = " ".join(task.split())[: _RUN_CHARS // 2]
    said = f"{head}: {told}" if told else head
    return f"ADD {len(prompt.view.turns)} {said[:_RUN_CHARS]}", ""


@dataclass(slots=True)
class _Standing:
    """A memory as this reply will leave it: shown (`handle`) or new."""

    handle: int | None
    text: str
    turn: int = 0
    action: str = ""
    whole: bool = True
    seq: int = 0


def _fuse(prompt: Prompt) -> tuple[str, str]:
    """Fact by fact as the manager would, each against what the earlier ones have already changed, with at most one
    operation for each memory."""
    again = _is_reask(prompt)
    standing = [
        _Standing(one.handle, one.record.text[:_READ], whole=one.whole, seq=one.record.seq) for one in prompt.view.shown
    ]
    readings = [read(turn) for turn in prompt.view.turns]
    missed: list[str] = []
    for number, reading in enumerate(readings, 1):
        for fact in reading.facts:
            wanted = to_forget(fact)
            if wanted is not None:
                handles = find_forgotten(wanted, _live(standing))[: 1 if again else MOST_FORGOTTEN]
                for handle in handles:
                    _change(standing, RuleDecision("delete", handle), fact, number)
                missed += [] if handles else [NOTHING_FORGOTTEN]
                continue
            decision = decide(fact, [] if again else _live(standing))
            if decision.action == "noop":
                missed.append(KNOWN if decision.handle is not None else NOTHING_CORRECTED)
            if decision.action != "noop" or decision.handle is not None:
                _change(standing, decision, fact, number)
    lines = [_line(one) for one in standing if one.action][: min(3 * len(prompt.view.turns) + 3, 20)]
    wrote = any(one.action not in ("", "NOOP") for one in standing)
    return "\n".join(lines) or "NOOP", "" if wrote else "; ".join(dict.fromkeys(missed)) or _why_nothing(readings)


def _live(standing: Sequence[_Standing]) -> list[KnownMemory]:
    return [KnownMemory(at, one.text, one.whole, one.seq) for at, one in enumerate(standing) if one.action != "DELETE"]


def _change(standing: list[_Standing], decision: RuleDecision, fact: str, turn: int) -> None:
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


_REPLIES = {"extractor": _extract, "manager": _manage, "answerer": _answer, "fused": _fuse, "reflector": _reflect}
