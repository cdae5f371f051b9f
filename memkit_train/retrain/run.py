"""Retraining as a habit: one command that can run every night, and does nothing, or the next right thing.

    collect    rows of the users to learn from, frozen in the run's folder; refuses where there is too little
    train      imitation of what turned out well, from the parent; goes on from its last checkpoint
    polish     where the configuration asks for it: reinforcement learning from replayed states of the same log
    evaluate   candidate and parent on held-out users, in step; planted secrets; the gate
    publish    into the registry, with everything a promotion needs to know. It never promotes.

Each finished stage is on record in run.json, so an interrupted run goes on where it stopped, with the rows that it
began with. The watermark says how far the log was read by the last run that came to a verdict: the next one waits for
enough new labels. One run per output folder at a time.

`imitate` and `reinforce` are runs of one stage; `judge` is the verdict alone, `adopt` all but the training.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memkit.adapters.manifest import CONFIG, WEIGHTS
from memkit.embedders import make_embedder
from memkit.engine.served_with import ROLES
from memkit.errors import InvalidInput
from memkit.journal import oslock
from memkit.models import JSON, digest
from memkit_train.errors import Busy, DiskFull, NothingNew, OtherData, OutOfMemory, TrainError
from memkit_train.files import rowfile
from memkit_train.files.run_folder import Tick, next_run, read_json, runs, write_json
from memkit_train.gate import canaries
from memkit_train.gate.checks import Check, Verdict, gate
from memkit_train.replay.served_with import served_with
from memkit_train.report import RunFolder, write_report
from memkit_train.retrain.ancestry import check_unseen, list_taught
from memkit_train.retrain.collect import collect, count_labels, open_source, sides
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.exam import evaluation, examine
from memkit_train.retrain.publish import Lineage, describe_model, portable, publish, shareable
from memkit_train.retrain.stages import (
    AMENDS,
    REPLAY,
    ROWS,
    amend_blamed,
    describe_training,
    material,
    open_registry,
    parent_of,
    probe_pairs,
    train,
)
from memkit_train.rows import GOOD, AnyRow, list_chosen, list_written

if TYPE_CHECKING:
    from memkit_train.rl.run import Polished

WATERMARK = "watermark.json"
SMOKE_ROWS, SMOKE_USERS = 16, 2
Status = Literal["published", "refused", "nothing", "smoke"]
"""smoke: everything ran, on next to nothing, and nothing was published."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    status: Status
    why: str
    run: Path | None = None
    digest: str | None = None
    verdict: Verdict | None = None

    @property
    def exit_code(self) -> int:
        return {"published": 0, "refused": 3, "nothing": 4, "smoke": 0}[self.status]

    def to_json(self) -> JSON:
        return {
            "status": self.status,
            "why": self.why,
            "run": str(self.run) if self.run else None,
            "digest": self.digest,
            "verdict": self.verdict.to_json() if self.verdict else None,
        }


def retrain(
    config: TrainConfig,
    *,
    resume: bool = True,
    force: bool = False,
    smoke: bool = False,
    tick: Tick | None = None,
    now: datetime | None = None,
) -> RunOutcome:
    """`force`: whatever the watermark says. `resume`: go on with an unfinished run of this configuration. `smoke`: try
    every stage on a few rows and users; publishes nothing and leaves the watermark alone."""
    now = now or datetime.now(UTC)
    with lock_output(config.output):
        again = resume and not smoke
        if not again or _unfinished(config) is None:
            try:
                _enough_new(config, force=force or smoke)
            except NothingNew as error:
                return RunOutcome("nothing", str(error))
        run = begin(config, "retrain", resume=again, smoke=smoke, now=now)
        return _Retraining(config, run, tick, now, smoke).go()


def imitate(
    config: TrainConfig, *, resume: bool = True, smoke: bool = False, tick: Tick | None = None
) -> tuple[RunFolder, JSON]:
    """Collect and train, without a verdict: for looking at what a log teaches."""
    open_source(config).close()  # before a registry is made beside a store that is not there
    now = datetime.now(UTC)
    with lock_output(config.output):
        run = begin(config, "sft", resume=resume, smoke=smoke, now=now)
        one = _Retraining(config, run, tick, now, smoke)
        try:
            _, parent = one.parent()
            made = one.imitate(parent)
        finally:
            one.registry.close()
        run.finish("smoke" if smoke else "trained")
        write_report(run)
    return run, made


def reinforce(
    config: TrainConfig, *, resume: bool = True, smoke: bool = False, tick: Tick | None = None
) -> tuple[RunFolder, Polished]:
    """Reinforcement learning, without a verdict, as the `online` section says."""
    from memkit_train.retrain.reinforce import learn

    with lock_output(config.output):
        run = begin(config, config.online.algorithm, resume=resume, smoke=smoke, now=datetime.now(UTC))
        done = learn(config, run, tick, resume=resume, smoke=smoke)
        run.finish("smoke" if smoke else done.status, digest=done.digest)
        write_report(run)
    return run, done


def judge(config: TrainConfig, adapter: str, *, tick: Tick | None = None) -> Verdict:
    """An adapter (digest, its beginning, or a folder) against the parent on held-out users, without training."""
    open_source(config).close()  # before a registry is made beside a store that is not there
    registry = open_registry(config)
    try:
        named = None if Path(adapter).is_dir() else registry.find(adapter)
        folder = Path(adapter) if named is None else registry.path(named)
        parent = parent_of(registry, config)
        check_unseen(config, registry, named, parent)
        ours, theirs = examine(config, folder, None if parent is None else registry.path(parent), None, tick)
    finally:
        registry.close()
    return gate(ours.tables, theirs.tables, limits=config.limits)


def adopt(config: TrainConfig, folder: Path, *, tick: Tick | None = None) -> RunOutcome:
    """Judge a LoRA that was trained anywhere as if it had been trained here, and publish it if it passes. Everybody who
    may be learned from counts as learned from: nobody knows better."""
    missing = [name for name in (WEIGHTS, CONFIG) if not (folder / name).is_file()]
    if missing:
        raise InvalidInput(
            f"{folder} is no adapter", why=f"it has no {' and no '.join(missing)}", fix="name a folder as PEFT saves it"
        )
    open_source(config).close()  # before a registry is made beside a store that is not there
    with lock_output(config.output):
        run = begin(config, "adopt", resume=False, now=(now := datetime.now(UTC)))
        return _Retraining(config, run, tick, now, smoke=False).adopt(folder)


class _Retraining:
    def __init__(self, config: TrainConfig, run: RunFolder, tick: Tick | None, now: datetime, smoke: bool) -> None:
        self.config, self.run, self.tick, self.now, self.smoke = config, run, tick, now, smoke
        self.embedder = make_embedder(config.data.embedder)
        self.registry = open_registry(config)

    def go(self) -> RunOutcome:
        """What frozen rows are the cause of would only happen again with them, so such a run is over, and the next one
        reads the log anew. Any other failure leaves a run to be gone on with."""
        try:
            return self._all()
        except TrainError as error:
            if self.run.result_of("collect") is not None and not isinstance(error, OutOfMemory | DiskFull):
                self.run.finish("failed", why=str(error))
            raise
        finally:
            self.registry.close()

    def _all(self) -> RunOutcome:
        parent, parent_path = self.parent()
        check_unseen(self.config, self.registry, parent)
        adapter = self.run.path / self.imitate(parent_path)["adapter"]
        if self.config.method.polish:
            polished = self._stage("polish", lambda: self._polish(adapter))
            adapter = self.run.path / polished["adapter"]
        found = self._stage("evaluate", lambda: self._evaluate(adapter, parent_path))
        verdict = _verdict(found["verdict"])
        return self._close(adapter, parent, verdict)

    def adopt(self, adapter: Path) -> RunOutcome:
        try:
            parent, parent_path = self.parent()
            check_unseen(self.config, self.registry, parent)
            with open_source(self.config) as source:
                everybody = [source.subject(user) for user in sides(source, self.config)[0]]
            self.run.mark("collect", self._collect() | {"subjects": everybody})
            found = self.run.mark("evaluate", self._evaluate(adapter, parent_path))
            return self._close(adapter, parent, _verdict(found["verdict"]))
        finally:
            self.registry.close()

    def imitate(self, parent: Path | None) -> JSON:
        self._stage("collect", self._collect)
        let_go(self.config, self.run)
        amend_blamed(self.config, self.run, parent, most=self._most(SMOKE_ROWS), tick=self.tick)
        return self._stage("train", lambda: self._train(parent))

    def _remember(self) -> None:
        read = self.run.result_of("collect") or {}
        mark = {name: read[name] for name in ("decision", "seq", "labelled")}
        mark |= {"run": self.run.path.name, "outcome": self.run.record["outcome"], "at": self.now.isoformat()}
        write_json(self.config.output / WATERMARK, mark)

    def _most(self, number: int) -> int | None:
        return number if self.smoke else None

    def _close(self, adapter: Path, parent: str | None, verdict: Verdict) -> RunOutcome:
        named = None
        if self.smoke:
            self.run.finish("smoke")
            write_report(self.run)
            return RunOutcome("smoke", "every stage ran; nothing was published", self.run.path, None, verdict)
        if verdict.passed:
            named = self._stage("publish", lambda: self._publish(adapter, parent, verdict))["digest"]
        status: Status = "published" if named else "refused"
        self.run.finish(status if named else verdict.outcome, digest=named)
        write_report(self.run)
        self._remember()
        why = "passed every gate" if named else "; ".join(f"{one.name}: {one.why}" for one in verdict.failed)
        return RunOutcome(status, why, self.run.path, named, verdict)

    def _stage(self, name: str, do: Any) -> JSON:
        return self.run.result_of(name) or self.run.mark(name, do())

    # -- stages --------------------------------------------------------------------------------------------------

    def _collect(self) -> JSON:
        with open_source(self.config) as source:
            erased = source.newest_erasure()
            found = collect(source, self.config, self.embedder, now=self.now)
            store_id = source.store_id
        rows = sorted(found.rows, key=_is_bad) if self.smoke else found.rows
        rowfile.save(self.run.path / ROWS, rows[: self._most(SMOKE_ROWS)])
        rowfile.save(self.run.path / REPLAY, found.replay[: self._most(SMOKE_ROWS)])
        return found.to_json() | {"store_id": store_id, "erased": erased}

    def _train(self, parent: Path | None) -> JSON:
        made = train(
            self.config, self.run.path / "train", parent=parent, run=self.run, tick=self.tick, **material(self.run)
        )
        return describe_training(self.run, made)

    def _polish(self, adapter: Path) -> JSON:
        from memkit_train.retrain.reinforce import polish_adapter

        folder, subjects = self.run.path / "polish", frozenset[str]((self.run.result_of("collect") or {})["subjects"])
        try:
            done = polish_adapter(self.config, adapter, folder, subjects, self.tick, smoke=self.smoke)
        except OtherData:  # cut short, and they have talked on since: what was begun is of no use
            shutil.rmtree(folder)
            done = polish_adapter(self.config, adapter, folder, subjects, self.tick, smoke=self.smoke)
        return done.to_json() | {"adapter": str(done.adapter.relative_to(self.run.path))}

    def _evaluate(self, adapter: Path, parent: Path | None) -> JSON:
        cache = self.run.path / "answers.jsonl"
        ours, theirs = examine(self.config, adapter, parent, cache, self.tick, self._most(SMOKE_USERS))
        exposures = None
        if planted := self.run.record.get("canaries", 0):
            exposures = canaries.exposures(
                canaries.plan(planted, self.config.method.seed),
                self.config.model.base,
                adapter,
                parent,
                alternatives=self.config.gate.alternatives,
                device=self.config.model.device,
            )
        verdict = gate(ours.tables, theirs.tables, exposures=exposures, limits=self.config.limits)
        return evaluation(ours, theirs, verdict, exposures)

    def _publish(self, adapter: Path, parent: str | None, verdict: Verdict) -> JSON:
        read = self.run.result_of("collect") or {}
        rows = rowfile.load(self.run.path / ROWS)
        learned_from = {*read["subjects"], *list_taught(self.registry, parent, read["store_id"])}
        learned_by = "elsewhere" if self.run.record.get("kind") == "adopt" else self.config.method.name
        if self.run.result_of("polish") is not None:
            learned_by += f"+{self.config.online.algorithm}"
        with open_source(self.config) as source:
            served = served_with(source, self.config.data).in_styles(dict.fromkeys(ROLES, "compact"))
        lineage = Lineage(
            learned_by,
            read["store_id"],
            0,
            read["seq"],
            read["counts"],
            sorted(learned_from),
            parent,
            self.config.method.seed,
            portable(self.config.resolve()),
        )
        model, roles = self.config.model, self.config.data.roles
        if model.is_small:
            from memkit_train.retrain.small import describe_manager

            parts = describe_manager(adapter, list_chosen(rows))
        else:
            pairs, wordings = probe_pairs(list_written(rows), model.base), dict(served.wordings)
            parts = describe_model(
                adapter, model.base, pairs, roles, served.instructions, wordings=wordings, device=model.device
            )
        made = publish(
            self.registry,
            adapter,
            parts,
            roles=roles,
            embedder=self.embedder.identity,
            verdict=verdict,
            report=shareable(self.run.result_of("evaluate") or {}),
            now=self.now,
            lineage=lineage,
        )
        with open_source(self.config) as source:
            left = source.find_erased(learned_from, read.get("erased", 0))  # while it was trained
        for subject in left.union(() if parent is None else self.registry.taints(parent)):
            self.registry.taint(subject, [made.digest])
        if self.config.data.bundle is not None:
            from memkit_train.log.bundle import put_adapter

            put_adapter(self.config.data.bundle, made.path)
        return {"digest": made.digest}

    def parent(self) -> tuple[str | None, Path | None]:
        """Fixed when the rows are: another promotion meanwhile changes nothing."""
        if self.run.result_of("collect") is None:
            self.run.record["parent"] = parent_of(self.registry, self.config)
            self.run.write()
        named: str | None = self.run.record["parent"]
        return named, None if named is None else self.registry.path(named)


def begin(config: TrainConfig, kind: str, *, resume: bool, now: datetime, smoke: bool = False) -> RunFolder:
    """An unfinished run of this configuration and kind, or a new one. What a `smoke` run leaves behind was cut short,
    so nothing goes on from it."""
    run = _unfinished(config, kind) if resume and not smoke else None
    if run is None:
        run = RunFolder.begin(next_run(config.output), config.resolve(), now=now)
        run.record |= {"kind": kind, "smoke": smoke}
        run.write()
    return run


def let_go(config: TrainConfig, run: RunFolder) -> None:
    """Who was erased or opted out since the rows were frozen, with a part, a bank or all of them, is learned from no
    more: their rows go, and so does everything that was made from them."""
    read = run.result_of("collect") or {}
    known = read.get("closed", {})
    with open_source(config) as source:
        newest = source.newest_erasure()
        users = {source.subject(user): user for user in source.users()}
        agents = source.list_closed()
        closed = {
            one: [digest([one, agent]) for agent in agents[users[one]]]
            for one in read["subjects"]
            if users.get(one) in agents
        }
        partly = {one for one, banks in closed.items() if not set(banks) <= set(known.get(one, ()))}
        partly |= source.find_erased(read["subjects"], read.get("erased", 0)) & users.keys()
        still = {one.decision_id for subject in partly for one in source.decisions(user_id=users[subject])}
    gone = set(read["subjects"]) - users.keys()
    if gone or partly:
        for name in (ROWS, REPLAY, AMENDS):
            file = run.path / name
            if file.is_file():
                found = (row for row in rowfile.load(file) if row.user not in gone)
                rowfile.save(file, [row for row in found if row.user not in partly or row.ref in still])
        for folder in ("train", "polish"):
            shutil.rmtree(run.path / folder, ignore_errors=True)
        run.forget("train", "polish", "evaluate")
    if gone or partly or closed != known:
        left = {"subjects": sorted(set(read["subjects"]) - gone), "let_go": len(gone)} if gone else {}
        run.mark("collect", read | left | {"closed": closed, "erased": newest})


@contextlib.contextmanager
def lock_output(output: Path) -> Generator[None]:
    """One run per output folder. The lock goes with the process, so a crash leaves nothing to clean up."""
    output.mkdir(parents=True, exist_ok=True)
    handle = os.open(output / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not oslock.try_lock(handle, 0, exclusive=True):
            raise Busy(
                f"another run is at work in {output}",
                why="its lock is held",
                fix="wait for it, or give this one an output folder of its own",
            )
        yield
    finally:
        os.close(handle)


def watermark(output: Path) -> JSON:
    file = output / WATERMARK
    return read_json(file, "remove it: the next run then counts every label as new") if file.is_file() else {}


def _unfinished(config: TrainConfig, kind: str = "retrain") -> RunFolder | None:
    """The last run that can be read, where it has this configuration and no outcome."""
    run = next(filter(None, map(RunFolder.readable, reversed(runs(config.output)))), None)
    if run is None or run.finished or run.record.get("smoke") or run.record.get("kind") != kind:
        return None
    if digest(run.record.get("config")) != digest(config.resolve()):
        return None
    return run


def _enough_new(config: TrainConfig, *, force: bool) -> None:
    before = watermark(config.output)
    since = datetime.fromisoformat(before["labelled"]) if before.get("labelled") else None
    with open_source(config) as source:
        new = count_labels(source, config, since)
    if before and new < config.data.min_labels and not force:
        raise NothingNew(
            f"{new} new labels since run {before.get('run', '?')}",
            why=f"{config.data.min_labels} make a run worth it",
            fix="collect more feedback, lower data.min_labels, or pass --force",
        )


def _is_bad(row: AnyRow) -> bool:
    """A few rows that are tried out must hold what is imitated."""
    return row.reward is not None and row.reward < GOOD


def _verdict(raw: JSON) -> Verdict:
    return Verdict(tuple(Check(**one) for one in raw["checks"]), raw["probes"], raw["users"])
