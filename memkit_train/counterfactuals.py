"""What else could have been decided: at the states that decided the probes of the users to learn from, K decisions of
the parent adapter, scored by playing on to the question. An option of every method (`method.alternatives`).

A probe hangs on the last turn that its answer rests on. Questions asked much later are left out: playing on costs a
decision or two per turn, and every turn in between blurs what the first one was worth.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from memkit.embedders import make_embedder
from memkit.models import JSON
from memkit.seams.backbone import Backbone
from memkit_train.collect import open_source, sides
from memkit_train.config import TrainConfig
from memkit_train.replay.alternatives import Group, alternatives, graded
from memkit_train.replay.env import Env, Policy, State, beside
from memkit_train.replay.served_with import served_with
from memkit_train.report.folder import Tick
from memkit_train.rewards import AnswerReward, Answers, BudgetReward, CachedBackbone, Mix, Probed
from memkit_train.rows import TokenRow
from memkit_train.trajectories.credit import learn_topics
from memkit_train.trajectories.probes import episode_probes
from memkit_train.trajectories.source import StoreSource
from memkit_train.trial import held_out

AHEAD = 8
"""Scenes between the decision and its question."""
BUDGET = 0.02
"""Weight of the penalty on memories beyond what was said: more, and tied groups learn to store nothing."""
TOGETHER = 64
"""States that are replayed in step."""


def replayed(
    config: TrainConfig, parent: Path | None, *, users: Collection[str] | None = None, most: int | None = None,
    tick: Tick | None = None, others: Backbone | None = None,
) -> tuple[list[TokenRow], JSON]:  # fmt: skip
    """Replies to logged prompts, each with what it was worth, and what the replay found. `users`: opaque ids of those
    whom the run learns from; None: the log's side to learn from. `most`: states at most.
    `others` answers in the roles that are not trained; None: the base does."""
    with open_source(config) as source:
        env = environment(config, source)
        learned = [one for one in sides(source, config)[0] if users is None or source.subject(one) in users]
        asked = list(deciding_states(source, learned, env))[:most]
    groups: list[Group] = []
    with deciding(config, parent, others, env) as (policy, answers):
        reward = Mix(((AnswerReward(answers, "f1"), 1.0), (BudgetReward(), BUDGET)))
        for start in range(0, len(asked), TOGETHER):
            groups += alternatives(
                env, asked[start : start + TOGETHER], policy, reward, count=config.method.alternatives
            )
            if tick is not None:
                tick("alternatives", min(len(asked), start + TOGETHER), len(asked), {})
    rows = graded(groups)
    return rows, _found(groups, rows)


def environment(config: TrainConfig, source: StoreSource) -> Env:
    return Env(make_embedder(config.data.embedder), served_with(source, config.data))


@contextmanager
def deciding(
    config: TrainConfig, parent: Path | None, others: Backbone | None, env: Env
) -> Generator[tuple[Policy, Answers]]:
    """Who decides again, the parent adapter, and the frozen answerer."""
    from memkit.backbones import make_backbone
    from memkit.backbones.hf import HFBackbone

    with HFBackbone(config.model.base, threads=1, dtype=config.model.dtype, device=config.model.device) as backbone:
        if parent is not None:
            backbone.load_adapter("parent", parent)
        cast = beside(backbone, CachedBackbone(others or backbone), config.data.roles)
        policy = Policy(cast, "parent" if parent is not None else None, roles=config.data.roles)
        frozen = cast if config.model.answerer is None else make_backbone(config.model.answerer)
        try:
            yield policy, Answers(CachedBackbone(frozen), env.embedder, served=env.served)
        finally:
            if frozen is not cast:
                frozen.close()


def deciding_states(source: StoreSource, users: Sequence[str], env: Env) -> Iterator[tuple[str, State, Probed]]:
    """(subject, bank before the turn that a question hangs on, the question)."""
    topics = learn_topics(source, users)
    for episode in source.episodes(users):
        for one in held_out(episode, list(episode_probes(episode, topics, env.embedder))):
            states = env.logged(one.script) if one.probes else []
            for probe in one.probes:
                asked_after = len(one.script) if probe.after is None else probe.after
                told = set(probe.source_turns)
                for state in reversed(states[max(0, asked_after - AHEAD) : asked_after]):
                    if told & {turn.turn_id for turn in state.scene.turns}:
                        yield one.user, state, probe
                        break


def _found(groups: Sequence[Group], rows: Sequence[TokenRow]) -> JSON:
    """What it was for: how often there is anything to choose, and how much better the best is than what is done now."""
    return {
        "states": len(groups), "states_with_a_choice": sum(group.spread > BUDGET for group in groups),
        "rows": len(rows),
        "reward_now": round(fmean(group.rewards[0] for group in groups), 4) if groups else None,
        "reward_best": round(fmean(max(group.rewards) for group in groups), 4) if groups else None,
    }  # fmt: skip
