"""What is told of a candidate that the gate refused: why, by how much, and what it would have answered."""

from __future__ import annotations

from dataclasses import dataclass

from memkit.models import JSON
from memkit_train.files.run_folder import RunFolder
from memkit_train.retrain.run import RunOutcome

MOST = 5
TARGETS = ("found", "answer_f1")


@dataclass(frozen=True, slots=True)
class GateQuestion:
    """A question of a user whom it never learned from."""

    question: str
    expected: str
    before: str
    after: str
    gain: float


def reasons(outcome: RunOutcome) -> list[str]:
    """Each check that refused, in plain words and by how much."""
    return [] if outcome.verdict is None else [check.refusal for check in outcome.verdict.failed]


def scores(outcome: RunOutcome) -> str:
    """How right the answers are, with what serves and with the candidate, on the gate's users."""
    found, verdict = _judged(outcome).get("scores", {}), outcome.verdict
    target = next((name for name in TARGETS if name in found.get("parent", {})), "")
    sides = [found[who][target] for who in ("parent", "candidate") if target in found.get(who, {})]
    if len(sides) < 2 or verdict is None:
        return "nothing could be asked of them"
    return f"{sides[0]:.3f} → {sides[1]:.3f} {target} ({verdict.probes} questions, {verdict.users} users)"


def pick_questions(outcome: RunOutcome) -> list[GateQuestion]:
    """A few of the gate's questions, those that moved most: what got better, and one that got worse."""
    judged = _judged(outcome)
    better, worse = (  # one question is asked after many a session
        list({one["question"]: _asked(one) for one in judged.get(side, ())}.values()) for side in ("best", "worst")
    )
    return better[: MOST - len(worse[:1])] + worse[:1]


def _asked(one: JSON) -> GateQuestion:
    before, after = one["parent"]["answer"], one["candidate"]["answer"]
    return GateQuestion(one["question"], one["expected"], before, after, one["gain"])


def _judged(outcome: RunOutcome) -> JSON:
    return {} if outcome.run is None else RunFolder(outcome.run).result_of("evaluate") or {}
