"""Reinforcement learning from conversations to an adapter: stages, the gate between them, checkpoints, resume.

    done = polish(base, talks, heldout, output, settings=OnlineSettings(stages=(Stage(steps=20),)), parent=adapter)
    done.adapter, done.digest, done.marks        the best adapter by held-out answers, and how it did

`output/adapter` is the result whatever happened: the best checkpoint of the last stage that was allowed to run, or the
parent where nothing was better. A stage seeds the next with its best checkpoint, and only when that one still carries
the evidence (M-Fail below the bar): long conversations teach nothing to a policy that loses what it heard. `run.json`
knows which stages are done; within a stage memkit's own engine goes on from its last checkpoint, to the same bytes (on
CPU); the other engines (engines/) begin a stage anew.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memkit.embedders import make_embedder
from memkit.engine.served_with import ServedWith
from memkit.models import JSON, digest
from memkit.seams.embedder import Embedder
from memkit_train.errors import NoRows, OtherData
from memkit_train.files.run_folder import RunFolder, Tick
from memkit_train.lab.worlds import Episode
from memkit_train.learn import lora
from memkit_train.learn.seeding import reproducible
from memkit_train.replay.env import Env
from memkit_train.rl.engines.own import OwnEngine
from memkit_train.rl.engines.stage import Machine, StageRun, Status
from memkit_train.rl.engines.tinker import TinkerEngine
from memkit_train.rl.engines.trl import TRLEngine
from memkit_train.rl.judge import Marks
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk

_ENGINES: Mapping[str, type[StageRun]] = {"memkit": OwnEngine, "trl": TRLEngine, "tinker": TinkerEngine}


@dataclass(frozen=True, slots=True)
class Polished:
    status: Status
    why: str
    adapter: Path
    digest: str
    """sha256 of the weights."""
    start: Marks
    """Where the last stage began."""
    marks: Marks
    """Of the adapter, on the held-out conversations that chose it; a stage has its own length of them."""
    steps: int
    generated: int
    """Sampled completions."""
    seconds: float
    stages: list[JSON] = field(default_factory=list[JSON])

    def to_json(self) -> JSON:
        return {**asdict(self), "adapter": str(self.adapter)}


def polish(
    base: Path | str,
    talks: Sequence[Talk],
    heldout: Sequence[Talk],
    output: Path,
    *,
    settings: OnlineSettings | None = None,
    parent: Path | None = None,
    episodes: Sequence[Episode] = (),
    spec: lora.LoraSpec | None = None,
    machine: Machine | None = None,
    embedder: Embedder | None = None,
    served: ServedWith | None = None,
    seed: int = 0,
    run: RunFolder | None = None,
    tick: Tick | None = None,
    resume: bool = True,
) -> Polished:
    """`talks` to learn from, `heldout` to choose the checkpoint by (of other users). `episodes`: the world behind them,
    where the exact answerer is asked for. `served`: what their banks are decided and asked with."""
    started = time.perf_counter()
    settings, spec, machine = settings or OnlineSettings(), spec or lora.LoraSpec(), machine or Machine()
    if not talks or not heldout:
        raise NoRows(
            f"{len(talks)} conversations to learn from, {len(heldout)} held out",
            why="both are needed, and each must have questions",
            fix="collect more feedback, or use a generated world",
        )
    run = _begun(run or RunFolder(output), settings, spec, seed, parent, base, talks, resume=resume)
    env = Env(embedder or make_embedder("hash"), served or ServedWith())
    done: list[JSON] = []
    for number, stage in enumerate(settings.stages):
        name = f"stage-{number + 1}"
        found = run.result_of(name)
        if found is None:
            with reproducible(seed):
                made = _ENGINES[settings.engine](
                    settings,
                    stage,
                    spec,
                    machine,
                    seed + number,
                    output / name,
                    run,
                    tick,
                    sum(one["of"] for one in done),
                )
                found = run.mark(name, made.go(base, parent, env, talks, heldout, episodes))
        done.append(found)
        parent = output / name / "best"
        if found["status"] in ("collapsed", "not ready"):
            break
    last = done[-1]
    adapter = output / "adapter"
    shutil.rmtree(adapter, ignore_errors=True)
    shutil.copytree(parent, adapter)  # type: ignore[arg-type]
    return Polished(
        last["status"],
        last["why"],
        adapter,
        lora.digest_of(adapter),
        Marks(**last["start"]),
        Marks(**last["best"]),
        sum(one["steps"] for one in done),
        sum(one["generated"] for one in done),
        time.perf_counter() - started,
        done,
    )


def _begun(
    run: RunFolder,
    settings: OnlineSettings,
    spec: lora.LoraSpec,
    seed: int,
    parent: Path | None,
    base: Path | str,
    talks: Sequence[Talk],
    *,
    resume: bool,
) -> RunFolder:
    """The record says what the run learns from; another configuration or other data is another run."""
    mark = digest(
        [
            settings.model_dump(mode="json", exclude={"tinker": {"timeout"}}),
            asdict(spec),
            seed,
            None if parent is None else lora.digest_of(parent),
            str(base),
            [[talk.name, len(talk.script), [one.probe.key for one in talk.questions]] for talk in talks],
        ]
    )
    known = run.record.get("online")
    if known is not None and resume:
        if known != mark:
            raise OtherData(
                f"{run.path} belongs to another run",
                why="its settings, data or parent were others",
                fix="choose an empty output folder, or start anew with --no-resume",
            )
        return run
    if known is not None:
        for old in run.path.glob("stage-*"):
            shutil.rmtree(old)
    if not run.record or known is not None:
        chosen = {"online": settings.model_dump(mode="json"), "seed": seed}
        run = RunFolder.begin(run.path, chosen, now=datetime.now(UTC))
    run.record["online"] = mark
    run.write()
    return run


__all__ = ["Machine", "Polished", "polish"]
