"""From a log to what a run needs: rows of the users to learn from, probes and talk of those held out, and how far the
log was read. One user in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from memkit.models import JSON, micros
from memkit.seams.embedder import Embedder
from memkit_train.chooser.logged import LoggedChoices
from memkit_train.credit.assign import Crediting, learn_topics
from memkit_train.credit.fairness import thin, weigh_users
from memkit_train.credit.inspect import need_credits, need_labels
from memkit_train.credit.label_noise import CreditedDecision, find_doubtful
from memkit_train.credit.labels import labels, said_at
from memkit_train.credit.questions import episode_probes
from memkit_train.credit.rows import scores
from memkit_train.credit.topics import Topics
from memkit_train.errors import NoRows, WrongTemplate
from memkit_train.log.bundle import MANIFEST, BundleSource
from memkit_train.log.records import Credit, Decision, Label
from memkit_train.log.source import StoreSource, Watermark, need_users
from memkit_train.log.splits import Split, check_leaks
from memkit_train.replay.env import Env
from memkit_train.replay.rewrite import Rewriter
from memkit_train.replay.served_with import served_with
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.rendered import list_imitated, render
from memkit_train.rewards.trial import HeldOut, held_out
from memkit_train.rows import GOOD, AnyRow, TokenRow, list_chosen, list_written

_VALIDATION = 0x5EED
_SAMPLED = 32
_GUARD = frozenset({"duplicate", "chitchat"})
SERVED = "compact"
"""The style of the in-process backbone: what rows are written in, and what replay, the gate and an adapter's manifest
ask for."""


@dataclass(slots=True)
class Collected:
    rows: list[AnyRow] = field(default_factory=list[AnyRow])
    """Every decision that a label reached, with its reward, but for good labels to be doubted."""
    replay: list[AnyRow] = field(default_factory=list[AnyRow])
    """NOOPs on duplicates and chit-chat: the bias guard, mixed in at a fixed share. Of a manager that chooses, every
    choice that no label reached."""
    subjects: list[str] = field(default_factory=list[str])
    """Everybody who is learned from: whose rows are here, and where more is made from the log than rows (amends,
    a polish), everybody to learn from."""
    watermark: Watermark = field(default_factory=lambda: Watermark(0, 0))
    labelled: datetime | None = None
    """When the newest label was made."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    left_out: Counter[str] = field(default_factory=Counter[str])
    """Decisions that cannot be written as the trained roles would be asked for them, by reason."""

    def to_json(self) -> JSON:
        return {
            "subjects": self.subjects,
            "decision": self.watermark.decision,
            "seq": self.watermark.seq,
            "labelled": self.labelled.isoformat() if self.labelled else None,
            "counts": self.counts,
        }


def open_source(config: TrainConfig) -> StoreSource:
    path = config.data.path
    return BundleSource(path) if isinstance(path, Path) and (path / MANIFEST).is_file() else StoreSource(path)


def sides(source: StoreSource, config: TrainConfig) -> tuple[list[str], list[str]]:
    """User ids to learn from, and held out for the gate."""
    by_subject = {source.subject(user): user for user in need_users(source)}
    train, held = Split(config.data.split_seed, config.data.heldout_share).divide(by_subject)
    aside = _aside(config)
    if aside is not None:
        train, _ = aside.divide(train)
    return [by_subject[one] for one in train], [by_subject[one] for one in held]


def validation(source: StoreSource, config: TrainConfig) -> list[str]:
    """Users on whom a polish decides: neither learned from nor held out for the gate."""
    by_subject = {source.subject(user): user for user in need_users(source)}
    train, _ = Split(config.data.split_seed, config.data.heldout_share).divide(by_subject)
    aside = _aside(config)
    return [] if aside is None else [by_subject[one] for one in aside.divide(train)[1]]


def _aside(config: TrainConfig) -> Split | None:
    if not config.method.polish:
        return None
    return Split(config.data.split_seed + _VALIDATION, config.data.validation_share)


def collect(source: StoreSource, config: TrainConfig, embedder: Embedder, *, now: datetime) -> Collected:
    """Refuses, with the reason, what nothing can be learned from."""
    train, _ = sides(source, config)
    watermark, topics = source.watermark(), learn_topics(source, train)
    out, said, credits = Collected(watermark=watermark), list[Label](), list[Credit]()
    dropped: Counter[str] = Counter()
    answers = 0
    found: list[AnyRow] = []
    cases: list[CreditedDecision] = []
    sampled: list[Decision] = []
    asked: Counter[tuple[str, str]] = Counter()
    every, rewriter = config.method.imitates_all, Rewriter(Env(embedder, served_with(source, config.data)), SERVED)
    for episode in source.trajectories(train):
        reading = Crediting(episode, topics, embedder)
        credited = reading.run()
        said += labels(episode)
        out.labelled = max(filter(None, (out.labelled, *said_at(episode))), default=None)
        answers += len(episode.answers)
        credits += credited.credits
        dropped += credited.dropped
        styles = {one.decision_id: one.style for one in episode.decisions}
        asked.update({one.decision_id: (one.role, styles[one.decision_id]) for one in credited.credits}.values())
        scored = scores(credited.credits)
        mine: list[AnyRow]
        if config.model.is_small:
            of_roles = [one for one in credited.credits if one.role in config.data.roles]
            taught, others = LoggedChoices(reading, micros(now)).teach(of_roles)
            mine = [*taught, *others]
            out.replay += others
            found += taught
        else:
            labelled = [one for one in credited.credits if not (every and one.why in _GUARD)]
            written, left_out = render(episode, labelled, rewriter, config.data.roles, every=every, now=now)
            out.left_out += left_out
            mine = list(written)
            guards = set() if every else {ref for ref, one in scored.items() if set(one.whys) <= _GUARD}
            out.replay += [row for row in mine if row.ref in guards]
            found += [row for row in mine if row.ref not in guards]
            own = {row.ref for row in written if isinstance(row, TokenRow)}
            sampled += [one for one in episode.decisions if one.decision_id in own][:1]
        taken = {row.ref for row in mine}
        cases += [
            CreditedDecision(ref, episode.subject, credited.marks[ref], one.y, one.weight)
            for ref, one in scored.items()
            if ref in credited.marks and ref in taken
        ]
        if mine or config.method.amends or config.method.polish:
            out.subjects.append(episode.subject)
    if not every:
        need_labels(said, answers=answers)
        need_credits(credits, dropped)
    split = Split(config.data.split_seed, config.data.heldout_share)
    for one in filter(None, (split, _aside(config))):
        check_leaks((*found, *out.replay), (), one)
    less = weigh_users((row.user, row.weight) for row in found)
    doubts = find_doubtful([replace(one, weight=one.weight * less.get(one.user, 1.0)) for one in cases])
    kept = thin([row for row in found if row.ref not in doubts])
    less = weigh_users((row.user, row.weight) for row in kept)
    out.rows = found = [replace(row, weight=row.weight * less[row.user]) for row in kept]
    _same_prompts(config, sampled)
    if not config.method.amends:
        _need_rows(config, found, asked, out.left_out)
    out.counts = {
        "users": len(train),
        "answers": answers,
        "labels": len(said),
        "credits": len(credits),
        "rows": len(out.rows),
        "replay": len(out.replay),
        "doubted": len(doubts),
        "left_out": out.left_out.total(),
        **{f"rows/{role}": n for role, n in Counter(row.role for row in out.rows).items()},
    }
    return out


def _need_rows(
    config: TrainConfig, found: Sequence[AnyRow], asked: Mapping[tuple[str, str], int], left_out: Mapping[str, int]
) -> None:
    roles = ", ".join(config.data.roles)
    if left_out and not found:
        raise NoRows(
            f"nothing can be written as {roles} would be asked for it",
            why=", ".join(f"{reason}: {count}" for reason, count in left_out.items()),
            fix="`memkit-train inspect` counts what each role can learn; set data.roles to one that can",
        )
    if asked and not found:
        raise NoRows(
            f"no label leads to a decision of {roles}, which data.roles trains",
            why="they lead to: " + ", ".join(f"{role} ({style}) {n}" for (role, style), n in sorted(asked.items())),
            fix=f"set data.roles to [{', '.join(sorted({role for role, _ in asked}))}]",
        )
    good_ones = list_chosen(found) or list_imitated(list_written(found), every=config.method.imitates_all)
    if not any(row.reward is None or row.reward >= GOOD for row in good_ones):
        raise NoRows(
            "there are no rows to imitate",
            why=f"{len(found)} credited decisions, and none of them turned out well",
            fix="look at the credits with `memkit-train inspect`, or set method.amends to mend the bad ones",
        )


def _same_prompts(config: TrainConfig, sampled: Sequence[Decision]) -> None:
    """One logged prompt per user, rendered and tokenised again as this model would: another template would train it
    on what it never reads."""
    if not sampled:
        return
    from memkit.backbones.hf.prompting import Prompter
    from memkit_train.learn.tokenizing import tokenizer_of

    prompter = Prompter(tokenizer_of(config.model.base))
    known = [one for one in sampled[:_SAMPLED] if one.messages]
    other = [
        one
        for one in known
        if one.prompt_ids not in (prompter.ids(one.messages), prompter.ids(one.messages, on=one.created_at.date()))
    ]
    if len(other) * 2 > len(known):
        raise WrongTemplate(
            f"{len(other)} of {len(known)} logged prompts are not what {config.model.base} makes of the same messages",
            why="its chat template or its tokenizer is another one than that of the model that served",
            fix="set model.base to the model that served; `memkit-train plan` checks it without training",
        )


def count_labels(source: StoreSource, config: TrainConfig, since: datetime | None = None) -> int:
    """Labels of the users to learn from that were made after `since`: what a minimum of new ones is counted in."""
    train, _ = sides(source, config)
    times = (at for episode in source.trajectories(train) for at in said_at(episode))
    return sum(since is None or at > since for at in times)


def read_heldout(source: StoreSource, config: TrainConfig, embedder: Embedder) -> Iterator[HeldOut]:
    """The held-out users with their talk and what can be asked of it. Topics come from those to learn from."""
    train, held = sides(source, config)
    topics: Topics = learn_topics(source, train)
    for episode in source.trajectories(held):
        yield from held_out(episode, list(episode_probes(episode, topics, embedder)))
