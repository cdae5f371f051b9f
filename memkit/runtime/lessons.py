"""Runs of an agent: how they come in, to be decided into lessons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memkit.errors import InvalidInput
from memkit.inputs import steps as steps_of
from memkit.inputs import text_of
from memkit.models import Bank, digest
from memkit.runtime.writes import keep_and_decide, make_intake

if TYPE_CHECKING:
    from memkit.results import AddResult
    from memkit.runtime.runtime import Runtime

_OUTCOMES = {True: "success", False: "failure", "success": "success", "failure": "failure", "unknown": "unknown"}
_WORTH = {"success": 1.0, "failure": 0.0}


def learn(
    runtime: Runtime,
    steps: Any,
    *,
    bank: Bank,
    task: str,
    outcome: object,
    note: str | None,
    trace_id: str | None,
    metadata: Mapping[str, Any] | None,
    idempotency_key: str | None,
    wait: bool,
) -> AddResult:
    """The task and the note are turns of the run, said by the app: they are redacted, erased and shown as such."""
    ended = _outcome(outcome)
    told = ended if note is None else f"{ended}: {text_of(note, 'the note', runtime.config.max_message_bytes)}"
    run = [{"role": "user", "content": task}, *steps_of(steps), {"role": "system", "content": told}]
    intake = make_intake(runtime, run, bank, None, None, metadata, idempotency_key, True, None, None)
    # A session of its own, the same for all runs of a task: what was said elsewhere is not shown beside them.
    session = "run" if intake.keep_turns == "none" else f"run:{digest(intake.turns[0].text)[:16]}"
    first, *between, last = (replace(turn, session_id=session) for turn in intake.turns)
    if not between:
        raise InvalidInput("no step of the run says or does anything", fix="pass its messages with their tool calls")
    turns = (replace(first, origin="api"), *between, replace(last, origin="api"))
    intake = replace(intake, session_id=session, turns=turns, context={**intake.context, "outcome": ended})
    if trace_id is not None:
        runtime.asking.observe(trace_id, "\n".join(t.text for t in between if t.role == "assistant"), bank.user_id)
        if ended in _WORTH:
            worth = _WORTH[ended]
            runtime.asking.feedback(trace_id, bank.user_id, reward=worth, label=None, expected=None, comment=None)
    return keep_and_decide(runtime, intake, (), wait)


def _outcome(given: object) -> str:
    if not isinstance(given, str | bool) or given not in _OUTCOMES:
        raise InvalidInput(
            f"outcome {given!r} is unknown",
            why="a lesson is believed by how its run ended",
            fix="pass 'success', 'failure' or 'unknown'; True and False mean the first two",
        )
    return _OUTCOMES[given]
