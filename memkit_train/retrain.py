"""Retraining as a habit: one command that can run every night, and does nothing, or the next right thing.

    collect    rows of the users to learn from, frozen in the run's folder; refuses where there is too little
    train      one rung of the ladder, from the parent; goes on from its last checkpoint
    evaluate   candidate and parent on held-out users, in step; planted secrets; the gate
    publish    into the registry, with everything a promotion needs to know. It never promotes.

Each finished stage is on record in run.json, so an interrupted run goes on where it stopped, with the rows that it
began with. The watermark says how far the log was read by the last run that came to a verdict: the next one waits for
enough new labels. One run per output folder at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from memkit.adapters import Registry
from memkit.embedders import make_embedder
from memkit.journal import oslock
from memkit.models import JSON, digest
from memkit.pipeline.decide import Settings
from memkit_train import canaries, rowfile
from memkit_train.collect import collect, count_labels, judged, open_source
from memkit_train.config import TrainConfig
from memkit_train.errors import Busy, NothingNew
from memkit_train.gate import Check, Exposure, Verdict, gate
from memkit_train.publish import Lineage, publish
from memkit_train.replay.env import Env, Policy
from memkit_train.report import RunFolder, model_card, page
from memkit_train.report.folder import Tick, next_run, runs, write_json
from memkit_train.rewards import Answers, CachedBackbone
from memkit_train.rung import parent_of, probe_pairs, registry_path, train, trained
from memkit_train.trial import Trial, trials

WATERMARK = "watermark.json"
CASES = 20
SMOKE_ROWS, SMOKE_USERS = 16, 2
Status = Literal["published", "refused", "nothing", "smoke"]
"""smoke: everything ran, on next to nothing, and nothing was published."""


@dataclass(frozen=True, slots=True)
class Outcome:
    status: Status
    why: str
    run: Path | None = None
    digest: str | None = None
    verdict: Verdict | None = None

    @property
    def exit_code(self) -> int:
        return {"published": 0, "refused": 3, "nothing": 4, "smoke": 0}[self.status]

    def to_json(self) -> JSON:
        return {"status": self.status, "why": self.why, "run": str(self.run) if self.run else None,
                "digest": self.digest, "verdict": self.verdict.to_json() if self.verdict else None}  # fmt: skip


def retrain(
    config: TrainConfig, *, resume: bool = True, force: bool = False, smoke: bool = False, tick: Tick | None = None,
    now: datetime | None = None,
) -> Outcome:  # fmt: skip
    """`force`: whatever the watermark says. `resume`: go on with an unfinished run of this configuration. `smoke`: try
    every stage on a few rows and users; publishes nothing and leaves the watermark alone."""
    now = now or datetime.now(UTC)
    config.output.mkdir(parents=True, exist_ok=True)
    with locked(config.output):
        again = resume and not smoke
        if not again or _unfinished(config) is None:
            try:
                _enough_new(config, force=force or smoke)
            except NothingNew as error:
                return Outcome("nothing", str(error))
        run = begun(config, "retrain", resume=again, now=now)
        return _Retraining(config, run, tick, now, smoke).go()


class _Retraining:
    def __init__(self, config: TrainConfig, run: RunFolder, tick: Tick | None, now: datetime, smoke: bool) -> None:
        self.config, self.run, self.tick, self.now, self.smoke = config, run, tick, now, smoke
        self.embedder = make_embedder(config.data.embedder)
        self.registry = Registry(registry_path(config))

    def go(self) -> Outcome:
        try:
            parent, parent_path = self._parent()
            self._stage("collect", self._collect)
            trained = self._stage("train", lambda: self._train(parent_path))
            adapter = self.run.path / trained["adapter"]
            found = self._stage("evaluate", lambda: self._evaluate(adapter, parent_path))
            verdict = _verdict(found["verdict"])
            (self.run.path / "README.md").write_text(model_card(self.run.record), encoding="utf-8")
            return self._close(adapter, parent, verdict)
        finally:
            self.registry.close()

    def _close(self, adapter: Path, parent: str | None, verdict: Verdict) -> Outcome:
        named = None
        if self.smoke:
            self.run.finish("smoke")
            (self.run.path / "report.html").write_text(page(self.run), encoding="utf-8")
            return Outcome("smoke", "every stage ran; nothing was published", self.run.path, None, verdict)
        if verdict.passed:
            named = self._stage("publish", lambda: self._publish(adapter, parent, verdict))["digest"]
        status: Status = "published" if named else "refused"
        self.run.finish(status if named else verdict.outcome, digest=named)
        (self.run.path / "report.html").write_text(page(self.run), encoding="utf-8")
        read = self.run.done("collect") or {}
        write_json(self.config.output / WATERMARK, {
            "decision": read["decision"], "seq": read["seq"], "labels": read["counts"]["labels"],
            "run": self.run.path.name, "outcome": self.run.record["outcome"], "at": self.now.isoformat(),
        })  # fmt: skip
        why = "passed every gate" if named else "; ".join(f"{one.name}: {one.why}" for one in verdict.failed)
        return Outcome(status, why, self.run.path, named, verdict)

    def _stage(self, name: str, do: Any) -> JSON:
        return self.run.done(name) or self.run.mark(name, do())

    # -- stages --------------------------------------------------------------------------------------------------

    def _collect(self) -> JSON:
        with open_source(self.config) as source:
            found = collect(source, self.config, self.embedder, now=self.now)
            store_id = source.journal.store_id
        most = SMOKE_ROWS if self.smoke else None
        rowfile.save(self.run.path / "rows.jsonl", found.rows[:most])
        rowfile.save(self.run.path / "replay.jsonl", found.replay[:most])
        return found.to_json() | {"store_id": store_id}

    def _train(self, parent: Path | None) -> JSON:
        rows = rowfile.load(self.run.path / "rows.jsonl")
        replay = rowfile.load(self.run.path / "replay.jsonl")
        result = train(self.config, self.run.path / "train", rows, replay, parent, run=self.run, tick=self.tick)
        return trained(self.run, result)

    def _evaluate(self, adapter: Path, parent: Path | None) -> JSON:
        most = SMOKE_USERS if self.smoke else None
        ours, theirs = tried(self.config, adapter, parent, self.run.path / "answers.jsonl", self.tick, most)
        exposures = None
        if self.config.gate.canaries:
            exposures = canaries.exposures(
                canaries.plan(self.config.gate.canaries, self.config.method.seed), self.config.model.base, adapter,
                parent, alternatives=self.config.gate.alternatives, device=self.config.model.device,
            )  # fmt: skip
        verdict = gate(ours.tables, theirs.tables, exposures=exposures, limits=self.config.gate.limits())
        return evaluation(ours, theirs, verdict, exposures)

    def _publish(self, adapter: Path, parent: str | None, verdict: Verdict) -> JSON:
        read = self.run.done("collect") or {}
        rows = rowfile.load(self.run.path / "rows.jsonl")
        made = publish(
            self.registry, adapter, base=self.config.model.base, roles=self.config.data.roles,
            embedder=self.embedder.identity, verdict=verdict, report=_shareable(self.run.done("evaluate") or {}),
            probe_pairs=probe_pairs(rows, self.config.model.base), now=self.now,
            instructions=self.config.data.instructions, device=self.config.model.device,
            lineage=Lineage(
                self.config.method.name, read["store_id"], 0, read["seq"], read["counts"], read["subjects"], parent,
                self.config.method.seed, _portable(self.config.resolved()),
            ),
        )  # fmt: skip
        if self.config.data.bundle is not None:
            from memkit_train.trajectories.bundle import put_adapter

            put_adapter(self.config.data.bundle, made.path)
        return {"digest": made.digest}

    def _parent(self) -> tuple[str | None, Path | None]:
        """Fixed when the run begins: another promotion meanwhile changes nothing."""
        if "parent" not in self.run.record:
            self.run.record["parent"] = parent_of(self.registry, self.config)
            self.run.write()
        named: str | None = self.run.record["parent"]
        return named, None if named is None else self.registry.path(named)


def begun(config: TrainConfig, kind: str, *, resume: bool, now: datetime) -> RunFolder:
    """An unfinished run of this configuration and kind, or a new one."""
    run = _unfinished(config, kind) if resume else None
    if run is None:
        run = RunFolder.begin(next_run(config.output), config.resolved(), now=now)
        run.record["kind"] = kind
        run.write()
    return run


def tried(
    config: TrainConfig, adapter: Path | None, parent: Path | None, cache: Path | None = None, tick: Tick | None = None,
    most: int | None = None,
) -> tuple[Trial, Trial]:  # fmt: skip
    """Candidate and parent on the held-out users, by one backbone that counts what it would have written unmasked."""
    from memkit.backbones import make_backbone
    from memkit.backbones.hf import HFBackbone

    embedder = make_embedder(config.data.embedder)
    with open_source(config) as source:
        users = list(islice(judged(source, config, embedder), most))
    with HFBackbone(
        config.model.base, threads=1, dtype=config.model.dtype, device=config.model.device, validity_sample=1.0
    ) as backbone:
        for name, folder in (("candidate", adapter), ("parent", parent)):
            if folder is not None:
                backbone.load_adapter(name, folder)
        policies = [
            Policy(backbone, name if folder is not None else None, roles=config.data.roles, name=name)
            for name, folder in (("candidate", adapter), ("parent", parent))
        ]
        frozen = backbone if config.model.answerer is None else make_backbone(config.model.answerer)
        settings = Settings(mode=config.data.mode, instructions=config.data.instructions)
        answers = Answers(CachedBackbone(frozen, cache), embedder)
        ours, theirs = trials(
            Env(embedder, settings), policies, users, answers, metric=config.gate.target,
            progress=None if tick is None else lambda done, total: tick("evaluate", done, total, {}),
        )  # fmt: skip
        if frozen is not backbone:
            frozen.close()
    return ours, theirs


def evaluation(ours: Trial, theirs: Trial, verdict: Verdict, exposures: Sequence[Exposure] | None = None) -> JSON:
    """What the report shows: verdict, means, op mix, and the questions that moved most."""
    moved = sorted(
        ({"question": a.question, "expected": a.expected, "user": a.user, "gain": a.score - b.score,
          "candidate": asdict(a), "parent": asdict(b)} for a, b in zip(ours.cases, theirs.cases, strict=True)),
        key=lambda one: -one["gain"],
    )  # fmt: skip
    return {
        "verdict": verdict.to_json(), "scores": {"candidate": ours.means(), "parent": theirs.means()},
        "actions": {"candidate": dict(ours.actions), "parent": dict(theirs.actions)},
        "exposures": [asdict(one) for one in exposures or ()],
        "best": [one for one in moved[:CASES] if one["gain"] > 0],
        "worst": [one for one in moved[::-1][:CASES] if one["gain"] < 0],
    }  # fmt: skip


@contextlib.contextmanager
def locked(output: Path) -> Generator[None]:
    """One run per output folder. The lock goes with the process, so a crash leaves nothing to clean up."""
    handle = os.open(output / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not oslock.try_lock(handle, 0, exclusive=True):
            raise Busy(
                f"another run is at work in {output}", why="its lock is held",
                fix="wait for it, or give this one an output folder of its own",
            )  # fmt: skip
        yield
    finally:
        os.close(handle)


def watermark(output: Path) -> JSON:
    file = output / WATERMARK
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _unfinished(config: TrainConfig, kind: str = "retrain") -> RunFolder | None:
    """The last run, where it has this configuration and no outcome."""
    known = runs(config.output)
    run = RunFolder(known[-1]) if known else None
    if run is None or run.finished or run.record.get("kind") != kind:
        return None
    if digest(run.record.get("config")) != digest(config.resolved()):
        return None
    return run


def _enough_new(config: TrainConfig, *, force: bool) -> None:
    before = watermark(config.output)
    with open_source(config) as source:
        known = count_labels(source, config)
    new = known - int(before.get("labels", 0))
    if before and new < config.data.min_labels and not force:
        raise NothingNew(
            f"{max(0, new)} new labels since run {before['run']}", why=f"{config.data.min_labels} make a run worth it",
            fix="collect more feedback, lower data.min_labels, or pass --force",
        )  # fmt: skip


def _verdict(raw: JSON) -> Verdict:
    return Verdict(tuple(Check(**one) for one in raw["checks"]), raw["probes"], raw["users"])


def _shareable(found: JSON) -> JSON:
    """What goes into the registry: figures, no words of users."""
    return {name: found[name] for name in ("verdict", "scores", "actions", "exposures") if name in found}


def _portable(config: JSON) -> JSON:
    """Without the places of one machine."""
    data = {**config["data"], "store": None, "bundle": None, "registry": None}
    base = Path(config["model"]["base"])
    model = {**config["model"], "base": base.name if base.is_dir() else config["model"]["base"]}
    return {**config, "data": data, "model": model, "output": ""}

