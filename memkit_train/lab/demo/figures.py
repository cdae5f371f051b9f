"""The short table, for the terminal and for the report."""

from __future__ import annotations

from memkit_train.lab.demo import refusal
from memkit_train.lab.demo.panel import BeforeAfter
from memkit_train.lab.demo.story import DemoOutcome


def rows(told: DemoOutcome) -> list[list[str]]:
    """The short table."""
    found = [
        ["log", f"{told.served} answers, {told.rated} rated, {told.right:.1%} right"],
        ["retraining", f"{told.outcome.status}: {told.outcome.why}"],
    ]
    if told.outcome.digest is None:
        found.append(["gate's users", refusal.scores(told.outcome)])
    if told.compared is not None and told.swap is not None:
        found += [
            ["panel", figures(told.compared)],
            ["swap", f"{told.swap.seconds:.2f} s, {told.swap.parked} of {told.swap.answers} answers' turns failed"],
            ["rollback", "the old answers came back" if told.rolled_back else "the old answers did not come back"],
        ]
    return [*found, ["cost", f"{told.cpu_s:.0f} CPU-s"]]


def figures(found: BeforeAfter) -> str:
    gain = found.gain
    return (
        f"{found.before.value:.1%} → {found.after.value:.1%}, {gain.value * 100:+.1f} points "
        f"(95 %: {gain.low * 100:+.1f} to {gain.high * 100:+.1f}; {found.before.n} questions, {gain.clusters} users)"
    )


__all__ = ["figures", "rows"]
