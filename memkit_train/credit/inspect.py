"""What a log is good for, before anybody spends an hour on it: counts, labels, coverage, credit, what cannot be used
and why; and the checks that refuse to train when there is nothing to learn from.

Reward is missing more often than anything else goes wrong, so it is what is looked at first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memkit.embedders import make_embedder
from memkit.models import JSON
from memkit.seams.embedder import Embedder
from memkit_train.credit.assign import credit, learn_topics
from memkit_train.credit.fairness import weigh_users
from memkit_train.credit.labels import labels
from memkit_train.credit.questions import episode_probes, too_few
from memkit_train.errors import NoRows, NoSignal
from memkit_train.log.records import Credit, Decision, Label, LoggedQuestion, Trajectory
from memkit_train.log.source import TrajectorySource

if TYPE_CHECKING:
    from rich.console import Console

Truth = Callable[[Trajectory, Decision], bool | None]
"""Whether a decision was right, where a world knows it; None where it does not."""
SAMPLES = 3
EARNED, BLAMED = ("cited", "relevant"), ("lost", "missed")


@dataclass(slots=True)
class Inspection:
    users: int = 0
    turns: int = 0
    words_not_kept: int = 0
    """Turns told with `keep_turns="none"`, parked ones among them. What was decided of them is left out of the log."""
    parked: int = 0
    ops: Counter[str] = field(default_factory=Counter[str])
    decisions: Counter[str] = field(default_factory=Counter[str])
    adapters: Counter[str] = field(default_factory=Counter[str])
    unused: int = 0
    """Decisions whose reply could not be read or applied."""
    with_ids: int = 0
    with_logprobs: int = 0
    answers: int = 0
    labels: Counter[str] = field(default_factory=Counter[str])
    labelled: Counter[str] = field(default_factory=Counter[str])
    """User → labels."""
    rewards: Counter[float] = field(default_factory=Counter[float])
    credits: Counter[str] = field(default_factory=Counter[str])
    dropped: Counter[str] = field(default_factory=Counter[str])
    ranker_rows: int = 0
    probes: list[LoggedQuestion] = field(default_factory=list[LoggedQuestion])
    checked: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """credit, blame → (right, checked), where the truth is known."""
    samples: list[tuple[Decision, Credit | None]] = field(default_factory=list[tuple[Decision, "Credit | None"]])

    @property
    def total(self) -> int:
        return sum(self.decisions.values())

    @property
    def coverage(self) -> float:
        """Share of the answers that have a label."""
        return sum(self.labels.values()) / self.answers if self.answers else 0.0

    @property
    def largest_user(self) -> float:
        """Share of the labels that come of one user."""
        return _share(max(self.labelled.values(), default=0), self.labelled.total())

    @property
    def largest_user_in_training(self) -> float:
        """The same once nobody teaches more than others: as a run weighs them."""
        less = weigh_users(self.labelled.items())
        weights = [count * less[user] for user, count in self.labelled.items()]
        return round(max(weights) / sum(weights), 4) if weights else 0.0

    def to_json(self) -> JSON:
        return {
            "users": self.users,
            "turns": self.turns,
            "words_not_kept": self.words_not_kept,
            "parked": self.parked,
            "ops": dict(self.ops),
            "decisions": dict(self.decisions),
            "adapters": dict(self.adapters),
            "unused": self.unused,
            "share_with_ids": _share(self.with_ids, self.total),
            "share_with_logprobs": _share(self.with_logprobs, self.total),
            "answers": self.answers,
            "labels": dict(self.labels),
            "coverage": round(self.coverage, 4),
            "largest_user": self.largest_user,
            "largest_user_in_training": self.largest_user_in_training,
            "rewards": {f"{y:g}": count for y, count in sorted(self.rewards.items())},
            "credits": dict(self.credits),
            "dropped": dict(self.dropped),
            "ranker_rows": self.ranker_rows,
            "probes": len(self.probes),
            "gate": too_few(self.probes) or "enough probes",
            "precision": {name: _share(right, of) for name, (right, of) in self.checked.items()},
        }


def inspect(
    source: TrajectorySource,
    *,
    users: Sequence[str] | None = None,
    embedder: Embedder | None = None,
    truth: Truth | None = None,
) -> Inspection:
    """Two passes over the log, one user in memory at a time."""
    embedder = embedder or make_embedder("hash")
    topics = learn_topics(source, users)
    out = Inspection()
    for episode in source.trajectories(users):
        _count(out, episode)
        credited = credit(episode, topics, embedder)
        out.probes += episode_probes(episode, topics, embedder)
        out.credits.update(one.why for one in credited.credits)
        out.dropped += credited.dropped
        out.ranker_rows += len(credited.ranker)
        _sample(out, episode, credited.credits)
        if truth is not None:
            _check(out, episode, credited.credits, truth)
    return out


def _count(out: Inspection, episode: Trajectory) -> None:
    out.users += 1
    out.turns += sum(len(one.turns) for one in episode.intakes)
    out.words_not_kept += sum(
        one.intake.keep_turns == "none" and not turn.trainable for one in episode.intakes for turn in one.turns
    )
    out.parked += sum(one.status == "parked" for one in episode.intakes)
    out.ops.update(op.action for op in episode.ops)
    out.answers += len(episode.answers)
    for label in labels(episode):
        out.labels[label.source] += 1
        out.labelled[episode.user_id] += 1
        out.rewards[round(label.y, 1)] += 1
    for one in episode.decisions:
        out.decisions[one.role] += 1
        out.adapters[one.adapter or "(none)"] += 1
        out.unused += not one.ok
        out.with_ids += bool(one.token_ids)
        out.with_logprobs += one.logprobs is not None


def _sample(out: Inspection, episode: Trajectory, credits: Iterable[Credit]) -> None:
    """One good, one bad, one without a label, where there are such."""
    by_id = {one.decision_id: one for one in episode.decisions}
    have = {None if given is None else given.y >= 0.5 for _, given in out.samples}
    for one in credits:
        if len(out.samples) < SAMPLES and (one.y >= 0.5) not in have and one.decision_id in by_id:
            out.samples.append((by_id[one.decision_id], one))
            have.add(one.y >= 0.5)
    plain = next((one for one in episode.decisions if one.ok and one.role == "manager"), None)
    if None not in have and plain is not None and len(out.samples) < SAMPLES:
        out.samples.append((plain, None))


def _check(out: Inspection, episode: Trajectory, credits: Iterable[Credit], truth: Truth) -> None:
    by_id = {one.decision_id: one for one in episode.decisions}
    for one in credits:
        name = "credit" if one.why in EARNED else "blame" if one.why in BLAMED else ""
        right = truth(episode, by_id[one.decision_id]) if name else None
        if right is not None:
            hits, of = out.checked.get(name, (0, 0))
            out.checked[name] = (hits + (right == (one.y >= 0.5)), of + 1)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


# -- refusals ----------------------------------------------------------------------------------------------------------


def need_labels(found: Sequence[Label] | Sequence[Credit], *, answers: int = 0) -> None:
    """There is something to learn, and not everything is the same."""
    if not found:
        raise NoSignal(
            f"no feedback: none of {answers} answers has a label" if answers else "no feedback: there are no labels",
            why="silence is no label",
            fix="call memory.feedback(trace_id, reward=…) or expected=… where your users rate answers",
        )
    values = {one.y for one in found}
    if len(values) == 1:
        raise NoSignal(
            f"all {len(found)} labels say the same ({values.pop():g})",
            why="where everything is equally good there is nothing to prefer",
            fix="check the code that reports feedback; a thumbs-down must arrive as reward=0",
        )


def need_credits(found: Sequence[Credit], dropped: Mapping[str, int]) -> None:
    """Labels that lead to no decision teach nothing."""
    if not any(one.why in (*EARNED, *BLAMED) for one in found):
        reasons = ", ".join(f"{reason}: {count}" for reason, count in dropped.items()) or "no answer cited a memory"
        raise NoRows(
            "no label leads to a decision",
            why=reasons,
            fix="let the answers cite what they use: memory.answer(), or memory.observe(trace_id, answer)",
        )


# -- on the screen -----------------------------------------------------------------------------------------------------


def show(found: Inspection, console: Console, decode: Callable[[Sequence[int]], str] | None = None) -> None:
    """`decode` turns token ids into text; without it samples are shown from the stored prompt."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in found.to_json().items():
        table.add_row(name.replace("_", " "), _plain(value))
    console.print(table)
    if found.words_not_kept:
        console.print(f'{found.words_not_kept} turns were told with keep_turns="none": nothing is learned from them.')
    for decision, given in found.samples:
        said = "no label" if given is None else f"y = {given.y:g}, weight {given.weight:g}, {given.why}"
        console.print(Text(f"\n{decision.role} {decision.decision_id}: {said}", style="bold"))
        console.print(colour(decision, given, decode))


def colour(decision: Decision, given: Credit | None, decode: Callable[[Sequence[int]], str] | None = None) -> Any:
    """The prompt dimmed, for no loss is on it; the reply in colour: green to be repeated, red to be avoided."""
    from rich.text import Text

    if decode is not None and decision.prompt_ids and decision.token_ids:
        prompt, reply = decode(decision.prompt_ids), decode(decision.token_ids)
    else:
        prompt, reply = "\n".join(one.content for one in decision.messages[-1:]), decision.reply or ""
    colour = "yellow" if given is None else "green" if given.y >= 0.5 else "red"
    return Text.assemble((prompt + "\n", "dim"), (reply, colour))


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "–"
    return str(value)
