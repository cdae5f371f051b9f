"""Two adapters tried on the same users, in step, and what a report says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from memkit.embedders import make_embedder
from memkit.models import JSON
from memkit.seams.backbone import Backbone
from memkit_train.files.run_folder import Tick
from memkit_train.gate.checks import Exposure, Verdict
from memkit_train.replay.env import Env, Policy
from memkit_train.replay.served_with import served_with
from memkit_train.retrain.collect import open_source, read_heldout
from memkit_train.retrain.config import TrainConfig
from memkit_train.rewards import Answers, CachedBackbone
from memkit_train.rewards.found import Lookups
from memkit_train.rewards.trial import Trial, trials, try_log

CASES = 20


def examine(
    config: TrainConfig,
    adapter: Path | None,
    parent: Path | None,
    cache: Path | None = None,
    tick: Tick | None = None,
    most: int | None = None,
) -> tuple[Trial, Trial]:
    """Candidate and parent (or what the log says was decided) on the held-out users, by one backbone that counts what
    it would have written unmasked."""
    from memkit.backbones import make_backbone

    embedder = make_embedder(config.data.embedder)
    with open_source(config) as source:
        users = list(islice(read_heldout(source, config, embedder), most))
        served = served_with(source, config.data)
    logged = config.model.parent == "logged"
    folders = {"candidate": adapter} if logged else {"candidate": adapter, "parent": parent}
    with closing(open_student(config, folders)) as backbone:
        policies = [
            Policy(backbone, name if folder is not None else None, roles=config.data.roles, name=name)
            for name, folder in folders.items()
        ]
        frozen = backbone if config.model.answerer is None else make_backbone(config.model.answerer)
        answers: Answers | Lookups = Answers(CachedBackbone(frozen, cache), embedder, served=served)
        if config.target == "found":
            answers = Lookups(embedder, served)
        env = Env(embedder, served)
        tried = trials(
            env,
            policies,
            users,
            answers,
            metric=config.target,
            timed=True,
            progress=None if tick is None else lambda done, total: tick("evaluate", done, total, {}),
        )
        if logged:
            tried.append(try_log(env, users, answers, config.target))
        if frozen is not backbone:
            frozen.close()
    ours, theirs = tried
    return ours, theirs


def open_student(config: TrainConfig, folders: Mapping[str, Path | None]) -> Backbone:
    """The base model, with the adapters in these folders under their names."""
    if config.model.is_small:
        from memkit_train.retrain.small import open_manager

        return open_manager(dict(folders))
    from memkit.backbones.hf import HFBackbone

    model = config.model
    backbone = HFBackbone(model.base, threads=1, dtype=model.dtype, device=model.device, validity_sample=1.0)
    for name, folder in folders.items():
        if folder is not None:
            backbone.load_adapter(name, folder)
    return backbone


def evaluation(ours: Trial, theirs: Trial, verdict: Verdict, exposures: Sequence[Exposure] | None = None) -> JSON:
    """What the report shows: verdict, means, op mix, and the questions that moved most."""
    moved = sorted(
        (
            {
                "question": a.question,
                "expected": a.expected,
                "user": a.user,
                "gain": a.score - b.score,
                "candidate": asdict(a),
                "parent": asdict(b),
            }
            for a, b in zip(ours.cases, theirs.cases, strict=True)
        ),
        key=lambda one: -one["gain"],
    )
    return {
        "verdict": verdict.to_json(),
        "scores": {"candidate": ours.means(), "parent": theirs.means()},
        "actions": {"candidate": dict(ours.actions), "parent": dict(theirs.actions)},
        "exposures": [asdict(one) for one in exposures or ()],
        "best": [one for one in moved[:CASES] if one["gain"] > 0],
        "worst": [one for one in moved[::-1][:CASES] if one["gain"] < 0],
    }
