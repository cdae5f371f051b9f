"""The answer agent with distillation: which memories it selects, and what it answers from them, on held-out people.

The start is the skilled checkpoint after a short stage of careless answers (`CARELESS`: reads the first memory about
the person and no other, or does not look), made here: the shipped ones answer as well as they can, and reinforcement
learning weighs habits, it does not teach skills. Three seeds; the bar is a gain whose 95 % interval (people redrawn,
seeds averaged) lies above zero.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import fmean

from memkit.embedders import make_embedder
from memkit.engine.call import Routing
from memkit_train.lab import tiny
from memkit_train.lab.tiny.build import bias
from memkit_train.lab.tiny.curriculum import CARELESS
from memkit_train.learn import lora
from memkit_train.replay import Env, Policy
from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.rewards.answers import bank_for, exact, overlap
from memkit_train.rl.acting import Acting, Stopwatch
from memkit_train.rl.answering import count_citations
from memkit_train.rl.learner import learner
from memkit_train.rl.scoring import others
from tests.bench import _rl_lab as lab
from tests.bench._results import record
from tests.bench._table import Row


def run(full: bool = False) -> list[Row]:
    rows = lab.guarded([_answers], full)
    if full:
        record("python -m tests.bench rl-answers --full", rows)
    return rows


def _answers(full: bool) -> list[Row]:
    """The policy answers from banks of the frozen manager."""
    held = lab.World.of(60 if full else 24, lab.HELD, split="heldout")
    skilled = tiny.checkpoint("skilled")
    chosen = lab.settings(
        roles=["answerer"],
        reward={"metric": "f1", "citations": 0.3},
        states=16,
        group=8,
        talks=12,
        stages=[{"steps": 60}],
    )
    with tempfile.TemporaryDirectory() as name:
        careless = Path(name) / "careless"
        bias(skilled, careless, stage=CARELESS)
        done = [lab.run(chosen, seed, base=careless) for seed in lab.SEEDS]
        start, ceiling = answered(careless, None, held), answered(skilled, None, held)
        ends = [answered(careless, one.adapter, held) for one, _, _ in done]
    rows: list[Row] = []
    for name in ("em", "f1"):
        gain = lab.gained(start[name], [end[name] for end in ends])
        values = lab.listed([lab.mean(end[name]) for end in ends])
        rows.append(
            Row(
                f"answer agent: gain in {name.upper()}",
                gain.value,
                "",
                "interval > 0",
                gain.low > 0,
                f"{lab.interval(gain)}, {lab.mean(start[name]):.3f} → {values}, skilled {lab.mean(ceiling[name]):.3f}",
            )
        )
    for name in ("precision", "recall"):
        values = [lab.mean(end[name]) for end in ends]
        rows.append(
            Row(
                f"answer agent: distillation {name}",
                fmean(values),
                "",
                "reported",
                True,
                f"start {lab.mean(start[name]):.3f}; {lab.listed(values)}; skilled {lab.mean(ceiling[name]):.3f}",
            )
        )
    return rows


def answered(base: Path, adapter: Path | None, held: lab.World) -> dict[str, dict[str, list[float]]]:
    """Measure → user → values. Citations are counted where a served memory holds the evidence."""
    embedder = make_embedder("hash")
    with learner(base, adapter, lora.LoraSpec()) as one:
        acting = Acting(one.engine, (), Stopwatch(), others(lab.HEARS, held.episodes))
        env = Env(embedder, lab.SERVED)
        trails = env.run([(env.start(talk.script), Policy(acting)) for talk in held.talks], upto=None)
        asked = [
            (talk.user, one_.probe, bank_for(one_.probe, trail))
            for talk, trail in zip(held.talks, trails, strict=True)
            for one_ in talk.questions
        ]
        tasks = [AnswerTask(probe.question, bank, probe.now, probe.key) for _, probe, bank in asked]
        routing = Routing(one.name if adapter is not None else None)
        found = answer_all(tasks, acting, embedder, env.served, routing=routing)
    tables: dict[str, dict[str, list[float]]] = {name: {} for name in ("em", "f1", "precision", "recall")}
    for (user, probe, _), reply in zip(asked, found, strict=True):
        tables["em"].setdefault(user, []).append(exact(reply.text, probe.expected))
        tables["f1"].setdefault(user, []).append(overlap(reply.text, probe.expected))
        counts = count_citations(reply, probe)
        if counts is not None:
            right, named, wanted = counts
            tables["precision"].setdefault(user, []).append(right / named if named else 0.0)
            tables["recall"].setdefault(user, []).append(right / wanted)
    return tables
