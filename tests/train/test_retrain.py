"""One command from a store's log to an adapter in its registry, or a reason why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.adapters import Registry
from memkit.adapters.verify import read_manifest
from memkit.embedders import make_embedder
from memkit.errors import InvalidConfig
from memkit_train.errors import (
    Busy,
    DataError,
    DiskFull,
    Diverged,
    NoRows,
    NoSignal,
    OutOfMemory,
    TrainError,
    WrongTemplate,
    resources,
)
from memkit_train.files import rowfile
from memkit_train.lab.worlds import Manners, Truth
from memkit_train.log import StoreSource
from memkit_train.report import RunFolder
from memkit_train.retrain import collect
from memkit_train.retrain import reinforce as command
from memkit_train.retrain import run as retrain
from memkit_train.retrain import stages as rung
from memkit_train.retrain.config import TrainConfig, dump, load
from memkit_train.rewards.trial import Case, Trial
from memkit_train.rows import TextRow, TokenRow
from tests.train import tiny
from tests.train.policies import Spelled
from tests.train.stores import dividing_seed, lived, teacher, world

EPISODES = world(8, seed=7)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


def config(store: Path, output: Path, **changes: Any) -> TrainConfig:
    sets = {
        "data.store": store,
        "data.registry": output / "registry",
        "data.heldout_share": 0.3,
        "data.min_labels": 5,
        "data.split_seed": dividing_seed(store),
        "model.base": tiny.base(),
        "model.device": "cpu",
        "method.epochs": 1,
        "method.batch": 8,
        "method.micro_batch": 8,
        "method.lora_r": 4,
        "method.lora_alpha": 8,
        "method.lr": 0.01,
        "method.save_steps": 1,
        "gate.canaries": 2,
        "gate.alternatives": 10,
        "gate.min_probes": 1,
        "gate.min_users": 1,
        "output": output,
        **changes,
    }
    return load(None, [f"{name}={value}" for name, value in sets.items()])


def trial(name: str, right: float) -> Trial:
    users = [f"u{n}" for n in range(3)]
    tables = {"answer_f1": {one: [right, right] for one in users}, "valid": {one: [1.0] for one in users}}
    cases = (Case("u0", "Where does <Ana> live?", "Oslo", "Rome", right, ("Ana lives in Rome.",), ("ADD x",)),)
    return Trial(name, tables, cases, {"add": 3, "noop": 1})


def outcome_of(monkeypatch: pytest.MonkeyPatch, candidate: float, parent: float) -> None:
    monkeypatch.setattr(retrain, "examine", lambda *_: (trial("candidate", candidate), trial("parent", parent)))


def test_a_better_adapter_is_published_with_all_that_promotion_needs(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    done = retrain.retrain(config(store, tmp_path))
    assert (done.status, done.exit_code) == ("published", 0), done.why
    assert done.digest is not None and done.run is not None  # noqa: PT018
    registry = Registry(tmp_path / "registry")
    manifest = read_manifest(registry.path(done.digest))
    registry.close()
    with StoreSource(store) as source:
        train, held = collect.sides(source, config(store, tmp_path))
        assert set(manifest.data.subjects) <= {source.subject(user) for user in train}
        assert manifest.data.store_id == source.journal.store_id
        assert manifest.data.subjects
        assert len(train) + len(held) == len(EPISODES)
    assert manifest.gated
    assert manifest.data.seq_last > 0
    text = (registry.path(done.digest) / "memkit_report.json").read_text() + manifest.model_dump_json()
    assert str(tmp_path) not in text
    assert not any(episode.turns[0].text in text for episode in EPISODES), "no words of users leave with an adapter"
    page = (done.run / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;Ana&gt;" in page
    assert {"loss"} <= set(json.loads((done.run / "metrics.jsonl").read_text().splitlines()[0]))
    assert "# memkit adapter for extractor, manager" in (done.run / "README.md").read_text()
    again = retrain.retrain(config(store, tmp_path))
    assert (again.status, again.exit_code) == ("nothing", 4)
    assert "0 new labels" in again.why


def test_what_is_no_better_is_refused_and_not_published(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.5, 0.5)
    done = retrain.retrain(config(store, tmp_path))
    assert (done.status, done.exit_code) == ("refused", 3)
    assert "target" in done.why
    assert Registry(tmp_path / "registry").digests() == []


@pytest.mark.slow
def test_a_polish_learns_on_from_the_log_and_what_is_judged_is_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = world(30, seed=8)
    store = lived(tmp_path / "store", people, teacher(people))
    outcome_of(monkeypatch, 0.9, 0.5)
    more = {
        "method.polish": True,
        "data.validation_share": 0.4,
        "online.stages": "[{steps: 2}]",
        "online.states": 2,
        "online.group": 2,
        "online.talks": 2,
        "online.stop.every": 2,
        "online.stop.users": 2,
    }
    done = retrain.retrain(config(store, tmp_path, **more))
    assert done.status == "published", done.why
    assert done.run is not None
    stages = json.loads((done.run / "run.json").read_text())["stages"]
    assert stages["polish"]["adapter"] == "polish/adapter"
    registry = Registry(tmp_path / "registry")
    folder = registry.path(done.digest)  # type: ignore[arg-type]
    registry.close()
    assert read_manifest(folder).training.algorithm == "sft+grpo"
    published, polished = (one / "adapter_model.safetensors" for one in (folder, done.run / "polish" / "adapter"))
    assert published.read_bytes() == polished.read_bytes()
    with StoreSource(store) as source:
        chosen = config(store, tmp_path, **more)
        aside = {source.subject(user) for user in collect.validation(source, chosen)}
    assert aside
    assert not aside & set(read_manifest(folder).data.subjects)


def test_an_interrupted_run_goes_on_with_the_rows_it_began_with(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    whole = retrain.retrain(config(store, tmp_path / "whole"))
    real = retrain.examine

    def crash(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(retrain, "examine", crash)
    with pytest.raises(KeyboardInterrupt):
        retrain.retrain(config(store, tmp_path / "torn"))
    monkeypatch.setattr(retrain, "examine", real)
    monkeypatch.setattr(retrain, "collect", lambda *_, **__: pytest.fail("the rows of the run were made again"))
    monkeypatch.setattr(retrain, "train", lambda *_, **__: pytest.fail("trained again"))
    resumed = retrain.retrain(config(store, tmp_path / "torn"))
    assert resumed.status == "published"
    weights = [
        json.loads((one.run / "run.json").read_text())["stages"]["train"]["weights"]
        for one in (whole, resumed)
        if one.run
    ]
    assert weights[0] == weights[1]


def test_two_runs_of_one_output_do_not_meet(store: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import pathlib, sys, time\nfrom memkit_train.retrain.run import lock_output\n"
        "with lock_output(pathlib.Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match="another run"):
            retrain.retrain(config(store, tmp_path))
        other.kill()
    with retrain.lock_output(tmp_path):
        pass


def test_a_log_without_feedback_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    silent = lived(
        tmp_path / "store", EPISODES[:4], teacher(EPISODES), manners=Manners(rated=0.0, corrects=0.0, asks_again=0.0)
    )
    with pytest.raises(NoSignal, match="no feedback"):
        retrain.retrain(config(silent, tmp_path / "out"))


def test_rows_come_back_as_they_were_kept(store: Path, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from memkit.embedders import make_embedder

    with StoreSource(store) as source:
        found = collect.collect(
            source, config(store, tmp_path), make_embedder("hash"), now=datetime(2026, 1, 1, tzinfo=UTC)
        )
    assert found.rows
    assert all(isinstance(row, TextRow) for row in found.rows)
    rowfile.save(tmp_path / "rows.jsonl", found.rows)
    assert rowfile.load(tmp_path / "rows.jsonl") == found.rows


def test_the_configuration_is_strict_and_prints_what_it_means(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data: {store: /data/store}\nmodel: {base: tiny}\nmethod: {lr: 0.001}\n")
    made = load(file, ["method.amends=8", "gate.canaries=4"])
    assert (made.method.amends, made.method.lr, made.gate.canaries) == (8, 0.001, 4)
    (tmp_path / "again.yaml").write_text(dump(made))
    assert load(tmp_path / "again.yaml") == made
    (tmp_path / "run.toml").write_text('[data]\nstore = "/data/store"\n[model]\nbase = "tiny"\n')
    assert load(tmp_path / "run.toml").data.store == Path("/data/store")
    file.write_text("data: {store: /data/store, shard: 3}\nmodel: {base: tiny}\n")
    with pytest.raises(InvalidConfig, match=r"data\.shard.*heldout_share"):
        load(file)
    with pytest.raises(InvalidConfig, match="either `store` or `bundle`"):
        load(None, ["model.base=tiny", "data.roles=[manager]"])


def test_nothing_goes_on_from_an_interrupted_smoke_run(store: Path, tmp_path: Path) -> None:
    chosen, now = config(store, tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    cut = retrain.begin(chosen, "retrain", resume=True, smoke=True, now=now)
    whole = retrain.begin(chosen, "retrain", resume=True, now=now)
    assert whole.path != cut.path
    assert retrain.begin(chosen, "retrain", resume=True, now=now).path == whole.path


def test_a_smoke_run_tries_good_rows_however_late_they_come(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Any] = [TokenRow((5, 6, 7), (8, 9), reward=float(number >= 40)) for number in range(44)]
    monkeypatch.setattr(retrain, "collect", lambda *_, **__: collect.Collected(rows))
    run, made = retrain.imitate(config(store, tmp_path), smoke=True)
    assert made["steps"] > 0
    assert len(rowfile.load(run.path / "rows.jsonl")) == 16


def test_everybody_that_more_than_rows_is_made_from_is_on_record(store: Path, tmp_path: Path) -> None:
    """Amends and a polish learn from users whose decisions nobody rated, too."""
    chosen, now = config(store, tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    wider = load(
        None,
        [
            f"{name}={value}"
            for name, value in {
                "data.store": store,
                "model.base": tiny.base(),
                "output": tmp_path,
                "data.split_seed": chosen.data.split_seed,
                "data.heldout_share": 0.3,
                "method.amends": 2,
            }.items()
        ],
    )
    with StoreSource(store) as source:
        found = collect.collect(source, wider, make_embedder("hash"), now=now)
        assert sorted(found.subjects) == sorted(map(source.subject, collect.sides(source, wider)[0]))


def test_without_rows_nothing_is_trained_on_invented_secrets(store: Path, tmp_path: Path) -> None:
    chosen = config(store, tmp_path, **{"method.half_life_days": 30})
    with pytest.raises(DataError):
        rung.train(chosen, tmp_path / "out", [], [], None)


def test_a_run_that_its_rows_are_the_fault_of_does_not_stand_in_the_way_of_the_next(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)

    def fails(error: type[TrainError]) -> Callable[..., Any]:
        def train(*_: Any, **__: Any) -> Any:
            raise error("it cannot be trained on")

        return train

    usual = retrain.train
    for error, after in ((OutOfMemory, "0001"), (NoSignal, "0001"), (Diverged, "0002")):
        monkeypatch.setattr(retrain, "train", fails(error))
        with pytest.raises(error):
            retrain.retrain(config(store, tmp_path))
        assert max(one.name for one in (tmp_path / "runs").iterdir()) == after
    monkeypatch.setattr(retrain, "train", usual)
    done = retrain.retrain(config(store, tmp_path))
    assert (done.status, done.run and done.run.name) == ("published", "0003")
    assert json.loads((tmp_path / "runs" / "0002" / "run.json").read_text())["outcome"] == "failed"


def test_labels_are_new_by_when_they_were_given_whoever_left_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    store = lived(tmp_path / "store", EPISODES, teacher(EPISODES))
    chosen = config(store, tmp_path / "out", **{"data.min_labels": 3})
    assert retrain.retrain(chosen).exit_code == 0
    with StoreSource(store) as source:
        train, _ = collect.sides(source, chosen)
        left, stays = train[0], train[1]
        answered = [one.trace_id for one in source.answers(user_id=stays)][:4]
    with Memory(store) as memory:
        memory.erase(user_id=left)
    again = retrain.retrain(chosen)
    assert (again.status, again.why.split(".")[0]) == ("nothing", "0 new labels since run 0001")
    with Memory(store) as memory:
        for trace_id in answered:
            memory.feedback(trace_id, label="up", user_id=stays)
    assert retrain.retrain(chosen).run is not None


def test_whom_a_polish_learns_from_is_on_the_run_s_record(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(command, "polish", lambda base, talks, *_, **__: seen.extend(one.user for one in talks))
    # opaque ids are salted anew in every store, and few users may all fall on one side of a split
    monkeypatch.setattr(command, "sides", lambda source, _: (source.users(), []))
    monkeypatch.setattr(command, "validation", lambda source, _: source.users()[:1])
    chosen = config(store, tmp_path, **{"method.polish": True})
    with StoreSource(store) as source:
        early, late, *_ = map(source.subject, source.users())
    for known in ({early}, {early, late}):
        seen.clear()
        command.polish_adapter(chosen, tmp_path, tmp_path, known)
        assert set(seen) == known


# -- what must not be learned from, and what goes wrong --------------------------------------------------------------


def test_who_leaves_after_the_rows_were_frozen_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = lived(tmp_path / "store", EPISODES, teacher(EPISODES))
    outcome_of(monkeypatch, 0.5, 0.5)
    monkeypatch.setattr(retrain, "examine", _stop)
    chosen = config(own, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        retrain.retrain(chosen)
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    run = RunFolder(folder)
    with StoreSource(own) as source:
        by_subject = {source.subject(user): user for user in source.users()}
    quits, erased, partly = run.result_of("collect")["subjects"][:3]  # type: ignore[index]
    before = {row.ref for row in rowfile.load(folder / "rows.jsonl") if row.user == partly}
    with Memory(own) as memory:
        memory.trainable(False, user_id=by_subject[quits])
        memory.erase(user_id=by_subject[erased])
        (learned,) = memory._runtime.journal.decisions(decision_id=max(before))
        memory.erase(user_id=by_subject[partly], turn_id=learned.intake_id)
        left = {one["decision_id"] for one in memory.decisions(user_id=by_subject[partly])}
    trained: list[Any] = []
    monkeypatch.setattr(retrain, "train", lambda *_, rows, replay, **__: trained.extend([*rows, *replay]) or _stop())
    with pytest.raises(KeyboardInterrupt):
        retrain.retrain(chosen)
    assert trained
    assert not {quits, erased} & {row.user for row in trained}
    assert before & left <= {row.ref for row in trained if row.user == partly} <= left
    run = RunFolder(folder)
    assert not {quits, erased} & set(run.result_of("collect")["subjects"])  # type: ignore[index]
    assert run.result_of("train") is None, "what had learned from them is made again"
    assert not (folder / "train").exists()


def _stop(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_a_log_of_another_template_is_refused(tmp_path: Path) -> None:
    spelled = lived(
        tmp_path / "store", EPISODES[:6], Spelled(Truth(EPISODES)), manners=Manners(rated=1.0, wrong_ratings=0.5)
    )
    with pytest.raises(WrongTemplate, match=r"logged prompts are not what.*memkit-train plan"):
        retrain.retrain(config(spelled, tmp_path / "out"))


def test_what_a_machine_runs_out_of_is_named() -> None:
    for error, kind in (
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), OutOfMemory),
        (RuntimeError("CUDA out of memory. Tried to allocate"), OutOfMemory),
        (OSError(28, "No space left"), DiskFull),
        (RuntimeError("SafetensorError: I/O error: File too large (os error 27)"), DiskFull),
    ):
        with pytest.raises(kind, match="Next:"), resources("method.micro_batch=4"):
            raise error
    with pytest.raises(ValueError, match="other"), resources("x"):
        raise ValueError("other")


def test_validation_users_are_neither_learned_from_nor_held_out(tmp_path: Path) -> None:
    people = world(12, seed=7)
    store = lived(tmp_path / "store", people, teacher(people))
    with StoreSource(store) as source:
        for seed in range(300):  # opaque ids are salted anew in every store: a split that leaves everybody somebody
            split = {"data.split_seed": seed}
            chosen = config(store, tmp_path, **split, **{"method.polish": True, "data.validation_share": 0.4})
            with suppress(NoRows):  # nobody on one of the sides
                train, held = collect.sides(source, chosen)
                aside = collect.validation(source, chosen)
                assert sorted([*train, *held, *aside]) == sorted(source.users())
                plain = config(store, tmp_path, **split)
                assert collect.sides(source, plain)[1] == held, "the gate's users are the same without a polish"
                return
    raise AssertionError("no seed divides these users")
