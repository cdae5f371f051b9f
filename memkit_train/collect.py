"""From a log to what a run needs: rows of the users to learn from, probes and talk of those held out, and how far the
log was read. One user in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memkit.embedders.base import Embedder
from memkit.models import JSON
from memkit_train.config import TrainConfig
from memkit_train.errors import NoRows
from memkit_train.rowfile import AnyRow
from memkit_train.rows import TextRow, TokenRow
from memkit_train.trajectories.bundle import MANIFEST, BundleSource
from memkit_train.trajectories.credit import credit, learn_topics
from memkit_train.trajectories.inspect import need_credits, need_labels
from memkit_train.trajectories.labels import labels
from memkit_train.trajectories.probes import episode_probes
from memkit_train.trajectories.rows import labelled, pairs, rows, scores, token_rows, with_logprobs
from memkit_train.trajectories.source import StoreSource, Watermark, need_users
from memkit_train.trajectories.splits import Split, check_leaks
from memkit_train.trajectories.topics import Topics
from memkit_train.trajectories.values import Credit, Label
from memkit_train.trial import HeldOut, held_out

GOOD = 0.5
_GUARD = frozenset({"duplicate", "chitchat"})


@dataclass(slots=True)
class Collected:
    rows: list[AnyRow] = field(default_factory=list[AnyRow])
    replay: list[AnyRow] = field(default_factory=list[AnyRow])
    """NOOPs on duplicates and chit-chat: the bias guard, mixed in at a fixed share."""
    subjects: list[str] = field(default_factory=list[str])
    """Everybody whose rows are here."""
    watermark: Watermark = field(default_factory=lambda: Watermark(0, 0))
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def to_json(self) -> JSON:
        return {"subjects": self.subjects, "decision": self.watermark.decision, "seq": self.watermark.seq,
                "counts": self.counts}  # fmt: skip


def open_source(config: TrainConfig) -> StoreSource:
    path = config.data.path
    return BundleSource(path) if (path / MANIFEST).is_file() else StoreSource(path)


def sides(source: StoreSource, config: TrainConfig) -> tuple[list[str], list[str]]:
    """User ids to learn from, and held out."""
    by_subject = {source.subject(user): user for user in need_users(source)}
    split = Split(config.data.split_seed, config.data.heldout_share)
    train, held = split.divide(by_subject)
    return [by_subject[one] for one in train], [by_subject[one] for one in held]


def collect(source: StoreSource, config: TrainConfig, embedder: Embedder, *, now: datetime) -> Collected:
    """Refuses, with the reason, what nothing can be learned from."""
    train, _ = sides(source, config)
    watermark, topics = source.watermark(), learn_topics(source, train)
    out, said, credits = Collected(watermark=watermark), list[Label](), list[Credit]()
    dropped: Counter[str] = Counter()
    answers = 0
    found: list[TokenRow | TextRow] = []
    for episode in source.episodes(train):
        credited = credit(episode, topics, embedder)
        said += labels(episode)
        answers += len(episode.answers)
        credits += credited.credits
        dropped += credited.dropped
        scored = scores(one for one in credited.credits if one.role in config.data.roles)
        keys = config.method.name in ("offline", "dpo")
        mine = list(rows(episode.decisions, source.subject, scored, now=now, state_keys=keys))
        guards = {ref for ref, one in scored.items() if set(one.whys) <= _GUARD}
        out.replay += [row for row in mine if row.ref in guards]
        found += [row for row in mine if row.ref not in guards]
        if mine:
            out.subjects.append(episode.subject)
    need_labels(said, answers=answers)
    need_credits(credits, dropped)
    split = Split(config.data.split_seed, config.data.heldout_share)
    check_leaks((*found, *(row for row in out.replay if isinstance(row, TokenRow | TextRow))), (), split)
    out.rows = shaped(found, config.method.name)
    if not out.rows:
        raise NoRows(
            f"{config.method.name} has no rows to learn from",
            why=f"{len(found)} credited decisions, none of them fits",
            fix="look at the credits with `memkit-train inspect`, or use another method",
        )  # fmt: skip
    out.counts = {
        "users": len(train), "answers": answers, "labels": len(said), "credits": len(credits), "rows": len(out.rows),
        "replay": len(out.replay), **{f"rows/{role}": n for role, n in Counter(row.role for row in out.rows).items()},
    }  # fmt: skip
    return out


def count_labels(source: StoreSource, config: TrainConfig) -> int:
    """Labels of the users to learn from: what a minimum of new ones is counted in."""
    train, _ = sides(source, config)
    return sum(len(labels(episode)) for episode in source.episodes(train))


def shaped(found: Sequence[TokenRow | TextRow], method: str) -> list[AnyRow]:
    """What each method takes."""
    match method:
        case "kto":
            return list(labelled(token_rows(found, method)))
        case "dpo":
            return list(pairs(token_rows(found, method)))
        case "offline":
            return list(with_logprobs(found, method))
        case _:
            return [row for row in found if row.reward is not None and row.reward >= GOOD]


def judged(source: StoreSource, config: TrainConfig, embedder: Embedder) -> Iterator[HeldOut]:
    """The held-out users with their talk and what can be asked of it. Topics come from the others."""
    train, held = sides(source, config)
    topics: Topics = learn_topics(source, train)
    for episode in source.episodes(held):
        yield from held_out(episode, list(episode_probes(episode, topics, embedder)))
