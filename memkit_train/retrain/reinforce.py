"""A run from its configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from memkit.embedders import make_embedder
from memkit_train.credit.assign import learn_topics
from memkit_train.files.run_folder import RunFolder, Tick
from memkit_train.learn.lora import LoraSpec
from memkit_train.replay.served_with import served_with
from memkit_train.retrain.collect import open_source, sides, validation
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.gather import gather
from memkit_train.retrain.stages import open_registry, parent_of
from memkit_train.rl.run import Machine, Polished, polish
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk, of_log

SMOKE_TALKS = 8


def learn(
    config: TrainConfig, run: RunFolder, tick: Tick | None = None, *, resume: bool = True, smoke: bool = False
) -> Polished:
    found = gather(config)
    parent = None
    if config.data.world is None or config.data.registry is not None:
        registry = open_registry(config)
        try:
            if not resume or "parent" not in run.record:  # another promotion meanwhile changes nothing
                trained = config.data.model_copy(update={"roles": config.online.roles})
                run.record["parent"] = parent_of(registry, config.model_copy(update={"data": trained}))
            named = run.record["parent"]
            parent = None if named is None else registry.path(named)
        finally:
            registry.close()
    method, model, data = config.method, config.model, config.data
    machine = Machine(
        model.dtype,
        model.device,
        config.online.decode_batch,
        method.gradient_checkpointing,
        method.save_steps,
        method.report_to,
    )
    run.record["data"] = {"talks": len(found.talks), "heldout": len(found.heldout), "subjects": found.subjects}
    run.write()
    return polish(
        model.base,
        pick_few(found.talks) if smoke else found.talks,
        pick_few(found.heldout) if smoke else found.heldout,
        run.path,
        settings=tiny(config.online) if smoke else config.online,
        parent=parent,
        episodes=found.episodes,
        spec=LoraSpec(r=method.lora_r, alpha=method.lora_alpha),
        machine=machine,
        embedder=make_embedder(data.embedder),
        served=found.served,
        seed=method.seed,
        run=run,
        tick=tick,
        resume=resume,
    )


def polish_adapter(
    config: TrainConfig,
    parent: Path,
    output: Path,
    subjects: Collection[str],
    tick: Tick | None = None,
    *,
    smoke: bool = False,
) -> Polished:
    """Reinforcement learning from the states of a log, from `parent` on. `subjects`: whom the run learns from; whoever
    came later is not on its record. Checkpoints are chosen on users that are neither learned from nor held out for the
    gate."""
    embedder = make_embedder(config.data.embedder)
    with open_source(config) as source:
        train = [user for user in sides(source, config)[0] if source.subject(user) in subjects]
        topics = learn_topics(source, train)
        talks = list(of_log(source, train, topics, embedder))
        judged = list(of_log(source, validation(source, config), topics, embedder))
        served = served_with(source, config.data)
    model, method = config.model, config.method
    settings = config.polishing
    return polish(
        model.base,
        pick_few(talks) if smoke else talks,
        pick_few(judged) if smoke else judged,
        output,
        settings=tiny(settings) if smoke else settings,
        parent=parent,
        spec=LoraSpec(r=method.lora_r, alpha=method.lora_alpha),
        embedder=embedder,
        machine=Machine(
            model.dtype, model.device, settings.decode_batch, method.gradient_checkpointing, method.save_steps
        ),
        served=served,
        seed=method.seed,
        tick=tick,
    )


def pick_few(talks: Sequence[Talk]) -> list[Talk]:
    """For a smoke run: the shortest conversations, each up to its first session after which something can be asked. How
    many decide something, only playing them tells, so they are more than a step needs."""
    cut = [next((part for part in _beginnings(talk) if part.questions), talk) for talk in talks]
    asked = [talk for talk in cut if talk.questions]
    return sorted(asked, key=lambda talk: len(talk.script))[:SMOKE_TALKS]


def _beginnings(talk: Talk) -> Iterator[Talk]:
    return (talk.first(number) for number in range(1, len(talk.sessions) + 1))


def tiny(settings: OnlineSettings) -> OnlineSettings:
    """The same run, two steps of next to nothing. What it plays is cut short already."""
    raw: dict[str, Any] = settings.model_dump()
    raw |= {"group": 2, "states": 2, "talks": SMOKE_TALKS, "questions": 1, "refresh": 2, "rerolls": 2, "iterations": 1}
    raw["stages"] = [{**stage, "steps": 2, "sessions": None} for stage in raw["stages"]]
    raw["trl"].pop("per_device_train_batch_size", None)  # of rows that are so many no more
    raw["stop"] |= {"every": 2, "users": 2, "m_fail": 2.0}
    return OnlineSettings.model_validate(raw)
