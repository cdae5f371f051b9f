"""PPO, co-learning, the curriculum and the answer agent: does each improve its own target on held-out people?

Three seeds each; the bar is a gain whose 95 % interval (people redrawn, seeds averaged) lies above zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from memkit.backbones.base import Sampling
from memkit.embedders import make_embedder
from memkit.pipeline.decide import Routing
from memkit_train import lora, tiny
from memkit_train.online.acting import Acting, Clock
from memkit_train.online.answering import cited
from memkit_train.online.learner import learner
from memkit_train.online.scoring import others
from memkit_train.replay import Env, Policy
from memkit_train.replay.play import AnswerTask, ReplaySettings, answer_batch
from memkit_train.rewards.answers import bank_for, exact, overlap
from memkit_train.worlds import Knobs
from tests.bench import _rl_lab as lab
from tests.bench._results import record
from tests.bench._table import Row


def run(full: bool = False) -> list[Row]:
    rows = lab.guarded([_ppo, _together, _curriculum, _answers], full)
    if full:
        record("python -m tests.bench rl-algorithms --full", rows)
    return rows


def _ppo(full: bool) -> list[Row]:
    chosen = lab.settings(algorithm="ppo", group=8, stages=[{"steps": 40}])
    return _improves("PPO", chosen, lab.KNOBS, ("manager",), full)


def _together(full: bool) -> list[Row]:
    """One adapter, two role prompts: the manager first, then both. Replies are the model's own in both roles."""
    chosen = lab.settings(
        roles=["extractor", "manager"], stages=[{"steps": 20, "trained": ["manager"]}, {"steps": 20}], group=6,
        stop={"every": 10, "users": 10, "m_fail": 0.5},
    )  # fmt: skip
    return _improves("co-learning of extractor and manager", chosen, lab.KNOBS, ("extractor", "manager"), full)


def _curriculum(full: bool) -> list[Row]:
    lengths = (8, 16, 32) if full else (4, 8, 16)
    chosen = lab.settings(
        stages=[{"sessions": n, "steps": 12} for n in lengths], talks=6, refresh=6, stop={"every": 6, "users": 6}
    )
    knobs = Knobs(sessions=lengths[-1], probes=6)
    return _improves(f"curriculum {' → '.join(map(str, lengths))} sessions", chosen, knobs, ("manager",), full)


def _improves(name: str, chosen: Any, knobs: Knobs, roles: Sequence[str], full: bool) -> list[Row]:
    held = lab.World.of(60 if full else 24, lab.HELD, knobs, split="heldout")
    biased = tiny.checkpoint("biased")
    choose = lab.World.of(chosen.stop.users, lab.CHOOSE, knobs, split="heldout")
    done = [lab.run(chosen, seed, train=lab.World.of(40, lab.TRAIN + seed, knobs), choose=choose) for seed in lab.SEEDS]
    start = lab.measured(biased, None, held, roles)
    ends = [lab.measured(biased, one.adapter, held, roles) for one, _, _ in done]
    gain = lab.gained(start.answers["all"], [end.answers["all"] for end in ends])
    stages = " | ".join(", ".join(stage["status"] for stage in one.stages) for one, _, _ in done)
    note = (
        f"{lab.interval(gain)}, {lab.mean(start.answers['all']):.3f} → "
        f"{lab.listed([lab.mean(end.answers['all']) for end in ends])}; stages: {stages}; "
        f"CPU s {lab.listed([cpu for _, cpu, _ in done])}"
    )
    return [Row(f"{name}: gain in answers", gain.value, "", "interval > 0", gain.low > 0, note)]


def _answers(full: bool) -> list[Row]:
    """The policy answers from banks of the frozen manager."""
    held = lab.World.of(60 if full else 24, lab.HELD, split="heldout")
    biased = tiny.checkpoint("biased")
    chosen = lab.settings(
        roles=["answerer"], reward={"metric": "f1", "citations": 0.3}, states=16, group=8, lr=5e-4, talks=12,
        stages=[{"steps": 40}],
    )  # fmt: skip
    done = [lab.run(chosen, seed) for seed in lab.SEEDS]
    start = answered(biased, None, held)
    ends = [answered(biased, one.adapter, held) for one, _, _ in done]
    rows: list[Row] = []
    for name in ("em", "f1"):
        gain = lab.gained(start[name], [end[name] for end in ends])
        values = lab.listed([lab.mean(end[name]) for end in ends])
        rows.append(
            Row(f"answer agent: gain in {name.upper()}", gain.value, "", "interval > 0", gain.low > 0,
                f"{lab.interval(gain)}, {lab.mean(start[name]):.3f} → {values}")
        )  # fmt: skip
    for name in ("precision", "recall"):
        values = [lab.mean(end[name]) for end in ends]
        rows.append(
            Row(f"answer agent: distillation {name}", fmean(values), "", "reported", True,
                f"start {lab.mean(start[name]):.3f}; {lab.listed(values)}")
        )  # fmt: skip
    return rows


def answered(base: Path, adapter: Path | None, held: lab.World) -> dict[str, dict[str, list[float]]]:
    """Measure → user → values. Citations are counted where a served memory holds the evidence."""
    embedder = make_embedder("hash")
    with learner(base, adapter, lora.LoraSpec()) as one:
        acting = Acting(one.engine, (), Clock(), others(lab.HEARS, held.episodes))
        env = Env(embedder)
        trails = env.run([(env.start(talk.script), Policy(acting)) for talk in held.talks], upto=None)
        asked = [
            (talk.user, one_.probe, bank_for(one_.probe, trail))
            for talk, trail in zip(held.talks, trails, strict=True) for one_ in talk.questions
        ]  # fmt: skip
        tasks = [AnswerTask(probe.question, bank, probe.now, probe.key) for _, probe, bank in asked]
        routing = Routing(one.name if adapter is not None else None)
        options = ReplaySettings(replace(env.settings, reasks=0), routing=routing, sampling=lambda key: Sampling())
        found = answer_batch(tasks, acting, embedder, options)
    tables: dict[str, dict[str, list[float]]] = {name: {} for name in ("em", "f1", "precision", "recall")}
    for (user, probe, _), reply in zip(asked, found, strict=True):
        tables["em"].setdefault(user, []).append(exact(reply.text, probe.expected))
        tables["f1"].setdefault(user, []).append(overlap(reply.text, probe.expected))
        counts = cited(reply, probe)
        if counts is not None:
            right, named, wanted = counts
            tables["precision"].setdefault(user, []).append(right / named if named else 0.0)
            tables["recall"].setdefault(user, []).append(right / wanted)
    return tables
