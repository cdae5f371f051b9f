"""Re-enter a logged decision: the same bank, the same prompts, then the logged replies again, or new ones.

This is what "every decision can be learned from" rests on. The bank is the fold of the journal up to the decision's
state; the prompts are rendered by the roles that rendered them; the steps are those of `decide`. So what a replay
yields differs from what was logged only where something that a prompt depends on has changed, and then it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memkit.engine.bank import LiveBank
from memkit.engine.call import Routing
from memkit.engine.decide import Decided, Task, decide
from memkit.engine.record import prompt_text
from memkit.engine.served_with import ServedWith
from memkit.errors import ModelError, ModelUnavailable
from memkit.models import Bank, Op, digest
from memkit.seams.backbone import GenReply, GenRequest, Sampling, Usage, all_or_error
from memkit.seams.embedder import Embedder

if TYPE_CHECKING:
    from memkit.journal import DecisionRecord, IntakeState, Journal
    from memkit.retrieval import RankerWeights
    from memkit.runtime.runtime import Runtime

Generate = Callable[[Sequence[GenRequest]], list[GenReply]]


@dataclass(frozen=True, slots=True)
class Logged:
    """One decided turn as the journal has it: its decisions in order, its ops, the bank before them."""

    intake: IntakeState
    decisions: tuple[DecisionRecord, ...]
    ops: tuple[Op, ...]
    before: LiveBank


@dataclass(slots=True)
class Report:
    decisions: int = 0
    different: int = 0
    """Decisions whose ops (or, regenerated, whose reply) are not the logged ones."""
    other_prompts: int = 0
    """Decisions whose rendered prompt is not the logged one."""


def logged_turns(journal: Journal, embedder: Embedder, bank: Bank) -> Iterator[Logged]:
    """Every turn of a bank that a model or the rules decided, in order, with the bank as it was. The bank steps
    forward over the ops in between (updates and deletions by callers, undone ops)."""
    live = LiveBank.empty(embedder)
    by_intake: dict[str, list[DecisionRecord]] = {}
    for decision in journal.decisions(bank=bank):
        if decision.intake_id is not None:
            by_intake.setdefault(decision.intake_id, []).append(decision)
    for intake_id, decisions in by_intake.items():
        state = journal.intake(intake_id)
        if state is None or state.status != "applied":
            continue
        at = decisions[0].state_seq
        live = live.after(journal.ops(bank=bank, after=live.seq, upto=at), embedder)
        yield Logged(state, tuple(decisions), tuple(journal.ops(bank=bank, intake_id=intake_id)), live)


def task_of(
    logged: Logged, journal: Journal, *, context_turns: int, weights: RankerWeights | None = None
) -> tuple[Task, ServedWith]:
    """The task that was decided, and the settings that its decisions name."""
    intake, decisions = logged.intake.intake, logged.decisions
    names = iter([decision.decision_id for decision in decisions])
    first = decisions[0].payload
    sampling = {decision.decision_id: Sampling(**decision.payload["sampling"]) for decision in decisions}
    earlier = journal.turns(
        bank=intake.bank, session_id=intake.session_id, before=intake.intake_id, limit=context_turns
    )
    task = Task(
        bank=intake.bank, turns=intake.turns, context_turns=tuple(earlier), live=logged.before,
        now=decisions[0].created_at, new_id=lambda: next(names, "d_beyond_the_log"),
        routing={one.role: Routing(one.payload["adapter"]) for one in decisions},
        sampling=lambda decision_id, role: sampling.get(decision_id, Sampling()), weights=weights,
    )  # fmt: skip
    settings = ServedWith(
        mode="fused" if any(one.role == "fused" for one in decisions) else "split",
        instructions=str(first.get("instructions", "")),
        styles=tuple((one.role, str(one.payload["style"])) for one in decisions),
    )
    return task, settings


def with_logged_replies(logged: Logged, task: Task, settings: ServedWith, embedder: Embedder) -> tuple[Decided, int]:
    """Decide again with the replies that were logged. Also: how many prompts were rendered differently."""
    attempts = iter([attempt for decision in logged.decisions for attempt in decision.payload["attempts"]])
    steps = decide(task, settings, embedder)
    other = 0
    try:
        requests = next(steps)
        while True:
            replies: list[GenReply | ModelError] = []
            for request in requests:
                attempt = next(attempts, None)
                other += attempt is None or attempt["prompt_hash"] != digest(prompt_text(request.prompt))
                replies.append(_reply(attempt))
            requests = steps.send(replies)
    except StopIteration as stop:
        return stop.value, other


def _reply(attempt: dict[str, Any] | None) -> GenReply | ModelError:
    if attempt is None or attempt["reply"] is None:
        return ModelUnavailable("there is no logged reply for this call", why="the replay took another path")
    return GenReply(attempt["reply"], usage=Usage(calls=attempt.get("calls", 1)), finish=attempt.get("finish", "stop"))


def reapply(runtime: Runtime, user_id: str) -> Report:
    """Apply every logged reply of a user again, on a bank rebuilt from the journal, and compare the ops."""
    report = Report()
    for bank, _ in runtime.journal.user_banks(user_id):
        for logged in logged_turns(runtime.journal, runtime.embedder, bank):
            task, settings = _task(runtime, logged, user_id)
            decided, other = with_logged_replies(logged, task, settings, runtime.embedder)
            report.decisions += len(logged.decisions)
            report.other_prompts += other
            report.different += not _same_ops(decided, logged, task)
    return report


def regenerate(runtime: Runtime, user_id: str) -> Report:
    """Ask the model again, one request at a time, at the logged prompts with the logged sampling."""
    report = Report()
    for bank, _ in runtime.journal.user_banks(user_id):
        for logged in logged_turns(runtime.journal, runtime.embedder, bank):
            task, settings = _task(runtime, logged, user_id)
            wanted = iter([one for decision in logged.decisions for one in decision.payload["attempts"]])
            steps = decide(task, settings, runtime.embedder)
            try:
                requests = next(steps)
                while True:
                    replies = runtime.backbone.generate(requests)
                    for request, reply, attempt in zip(requests, all_or_error(replies), wanted, strict=False):
                        report.decisions += 1
                        report.other_prompts += attempt["prompt_hash"] != digest(prompt_text(request.prompt))
                        report.different += reply.text != attempt["reply"]
                    requests = steps.send(list(replies))
            except StopIteration:
                continue
    return report


def _task(runtime: Runtime, logged: Logged, user_id: str) -> tuple[Task, ServedWith]:
    task, settings = task_of(
        logged, runtime.journal, context_turns=runtime.config.context_turns, weights=runtime.weights(user_id)
    )
    own = runtime.served_with
    return task, replace(own, mode=settings.mode, styles=settings.styles)


def _same_ops(decided: Decided, logged: Logged, task: Task) -> bool:
    """Whether the drafts resolve to the ops that were applied: same ids, same texts, same targets."""
    from memkit.ops import Context, resolve

    if decided.error is not None:
        return False
    ops = logged.ops
    first_seq = ops[0].seq if ops else task.live.seq + 1
    recorded_at = ops[0].recorded_at if ops else task.now
    context = Context(task.bank, "replay", first_seq, recorded_at, max(turn.at for turn in task.turns))
    return resolve(task.live.state, decided.drafts, context) == list(ops)
