"""The ladder climbs only where it is shown to be better; alternatives are an option of every method; who leaves is let
go of."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memkit import Memory
from memkit.embedders import make_embedder
from memkit.errors import InvalidConfig
from memkit_train import collect, counterfactuals, ladder, retrain, rowfile
from memkit_train.config import load
from memkit_train.errors import DiskFull, MissingLogprobs, NoRows, OutOfMemory, WrongTemplate, resources
from memkit_train.replay import Env
from memkit_train.report import RunFolder, model_card, page
from memkit_train.rows import TextRow, TokenRow
from memkit_train.rung import ALTERNATIVES, REPLAY, ROWS
from memkit_train.shapes import RUNGS, shaped
from memkit_train.trajectories import StoreSource
from memkit_train.worlds import Manners, Truth
from tests.train.policies import Spelled
from tests.train.stores import both, kinds, lived, teacher, world
from tests.train.test_retrain import config, outcome_of, trial

EPISODES = world(12, seed=7)


def ladder_config(store: Path, output: Path, **changes: Any) -> Any:
    """Validation takes more of the few users; the split is one that leaves both kinds of answers."""
    with StoreSource(store) as source:
        said = kinds(source)
        for seed in range(300):
            made = config(store, output, **{"gate.canaries": 0, "data.split_seed": seed, **changes})
            made = made.model_copy(
                update={"method": made.method.model_copy(update={"name": "ladder", "lr": None}),
                        "data": made.data.model_copy(update={"validation_share": 0.4})}
            )  # fmt: skip
            with suppress(NoRows):  # nobody on one of the sides
                train, _ = collect.sides(source, made)
                if len(train) > 2 and collect.validation(source, made) and both(said, train):
                    return made
    raise AssertionError("no seed divides these users")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


def test_validation_users_are_neither_learned_from_nor_held_out(store: Path, tmp_path: Path) -> None:
    chosen = ladder_config(store, tmp_path)
    with StoreSource(store) as source:
        train, held = collect.sides(source, chosen)
        aside = collect.validation(source, chosen)
        assert (len(train) > 0, len(held) > 0, len(aside) > 0) == (True, True, True)
        assert sorted([*train, *held, *aside]) == sorted(source.users())
        plain = config(store, tmp_path, **{"data.split_seed": chosen.data.split_seed})
        assert collect.sides(source, plain)[1] == held, "the gate's users are the same for any method"
        found = collect.collect(source, chosen, make_embedder("hash"), now=chosen_time())
        assert {row.user for row in found.rows} <= {source.subject(user) for user in train}


def chosen_time() -> Any:
    from datetime import UTC, datetime

    return datetime(2026, 1, 1, tzinfo=UTC)


class Climb:
    """A ladder whose rungs come out as they are told to: name → the answer score, or an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **outcomes: Any) -> None:
        self.outcomes, self.started, self.last = outcomes, dict[str, Any](), ""
        self.canaries: dict[str, int] = {}
        monkeypatch.setattr(ladder, "train", self._train)
        monkeypatch.setattr(ladder, "tried", self._tried)

    def _train(self, chosen: Any, output: Path, *, parent: Path | None, run: RunFolder, **_: Any) -> Any:
        self.last = chosen.method.name
        run.record["canaries"] = self.canaries.get(self.last, 0)
        self.started[self.last] = parent and parent.name
        outcome = self.outcomes[self.last]
        if isinstance(outcome, BaseException):
            raise outcome
        folder = output / f"made-by-{self.last}"
        folder.mkdir()
        return SimpleNamespace(path=folder, digest=f"w-{self.last}", steps=3, seconds=1.0, metrics={})

    def _tried(self, _config: Any, adapter: Path, below: Path | None, *_: Any, **more: Any) -> Any:
        assert more["on_validation"]
        return trial("candidate", self.outcomes[self.last]), trial("parent", 0.5)


def test_a_rung_is_kept_only_where_it_beats_the_one_below(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    climb = Climb(monkeypatch, sft=0.8, kto=0.5, dpo=0.9, offline=MissingLogprobs("no log-probs here"))
    outcome_of(monkeypatch, 0.9, 0.5)
    climb.canaries = {"sft": 1, "kto": 3, "dpo": 2}
    sought: list[int] = []
    monkeypatch.setattr(retrain.canaries, "exposures", lambda planted, *_, **__: sought.append(len(planted)))
    monkeypatch.setattr(retrain, "publish", lambda *_, **more: SimpleNamespace(digest=more["lineage"].algorithm))
    done = retrain.retrain(ladder_config(store, tmp_path))
    assert (done.status, done.digest) == ("published", "sft+dpo")
    assert climb.started == {"sft": None, "kto": "made-by-sft", "dpo": "made-by-sft", "offline": "made-by-dpo"}
    assert done.run is not None
    record = json.loads((done.run / "run.json").read_text())
    figures = {one["name"]: one for one in record["stages"]["train"]["rungs"]}
    assert list(figures) == list(RUNGS)
    assert [figures[name]["kept"] for name in RUNGS] == [True, False, True, False]
    assert figures["dpo"]["gain"] == pytest.approx(0.4)
    assert "passed over: no log-probs here" in figures["offline"]["why"]
    assert sought == [2], "secrets are looked for that a kept rung was trained on"
    html, card = (done.run / "report.html").read_text(), (done.run / "README.md").read_text()
    assert "Ladder" in html and "passed over" in html  # noqa: PT018
    assert "dpo: kept" in card


def test_where_no_rung_is_better_nothing_is_published(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    climb = Climb(monkeypatch, sft=0.5, kto=0.4, dpo=0.5, offline=0.3)
    done = retrain.retrain(ladder_config(store, tmp_path))
    assert (done.status, done.exit_code, done.digest) == ("refused", 3, None)
    assert "no rung was better" in done.why
    assert set(climb.started.values()) == {None}
    assert retrain.retrain(ladder_config(store, tmp_path)).status == "nothing", "the watermark moved on"


def test_an_interrupted_ladder_goes_on_at_the_rung_where_it_stopped(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.5, 0.5)
    Climb(monkeypatch, sft=0.8, kto=KeyboardInterrupt(), dpo=0.5, offline=0.5)
    with pytest.raises(KeyboardInterrupt):
        retrain.retrain(ladder_config(store, tmp_path))
    again = Climb(monkeypatch, sft=pytest.fail, kto=0.5, dpo=0.5, offline=0.5)
    retrain.retrain(ladder_config(store, tmp_path))
    assert again.started == {"kto": "made-by-sft", "dpo": "made-by-sft", "offline": "made-by-sft"}


# -- alternatives ------------------------------------------------------------------------------------------------------


def test_probes_lead_to_the_turns_that_decided_them(store: Path) -> None:
    env = Env(make_embedder("hash"))
    with StoreSource(store) as source:
        found = list(counterfactuals.deciding_states(source, source.users(), env))
        assert found
        for subject, state, probe in found:
            assert set(probe.source_turns) & {turn.turn_id for turn in state.scene.turns}
            assert state.at < (probe.after or len(state.script)) <= state.at + counterfactuals.AHEAD
            assert subject in {source.subject(user) for user in source.users()}


class Local(Spelled):
    """In place of a checkpoint that is loaded."""

    max_parallel = 64

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(Truth(EPISODES))

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to release."""


def test_alternatives_become_rows_of_every_method(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.backbones.hf.HFBackbone", Local)
    chosen = config(store, tmp_path, **{"method.alternatives": 4})
    rows, facts = counterfactuals.replayed(chosen, None, most=30)
    assert 5 < facts["states"] <= 30
    assert 0 < facts["states_with_a_choice"] <= facts["states"]
    assert facts["reward_best"] >= facts["reward_now"]
    with StoreSource(store) as source:
        train, _ = collect.sides(source, chosen)
        assert {row.user for row in rows} <= {source.subject(user) for user in train}, "held-out users stay out"
    assert all(row.state_key and row.reward is not None for row in rows)
    good = shaped([], "sft", rows)
    assert good
    assert {(row.prompt_ids, row.completion_ids) for row in good} == {  # type: ignore[union-attr]
        (row.prompt_ids, row.completion_ids) for row in shaped([], "kto", rows) if row.label
    }  # type: ignore[union-attr]
    assert shaped([], "dpo", rows)
    with pytest.raises(MissingLogprobs):
        shaped([], "offline", rows)
    likely = [replace(row, logprobs=(-1.0,) * len(row.completion_ids)) for row in rows]
    assert shaped([], "offline", likely) == likely


def test_the_options_are_strict() -> None:
    base = ["data.store=s", "model.base=m"]
    assert load(None, [*base, "method.alternatives=8", "method.name=dpo"]).method.alternatives == 8
    for wrong, words in (("method.alternatives=1", "nothing to be compared"), ("method.alternatives=65", "64"),
                         ("method.alternative=4", "alternatives")):  # fmt: skip
        with pytest.raises(InvalidConfig, match=words):
            load(None, [*base, wrong])
    with pytest.raises(InvalidConfig, match="rates of their own"):
        load(None, [*base, "method.name=ladder", "method.lr=0.1"])


# -- what must not be learned from, and what goes wrong --------------------------------------------------------------


def test_who_leaves_after_the_rows_were_frozen_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = lived(tmp_path / "store", EPISODES, teacher(EPISODES))
    outcome_of(monkeypatch, 0.5, 0.5)
    monkeypatch.setattr(retrain, "tried", _stop)
    chosen = config(own, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        retrain.retrain(chosen)
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    run = RunFolder(folder)
    with StoreSource(own) as source:
        by_subject = {source.subject(user): user for user in source.users()}
    quits, erased = run.done("collect")["subjects"][:2]  # type: ignore[index]
    with Memory(own) as memory:
        memory.trainable(False, user_id=by_subject[quits])
        memory.erase(user_id=by_subject[erased])
    trained: list[Any] = []
    monkeypatch.setattr(retrain, "train", lambda *_, rows, replay, **__: trained.extend([*rows, *replay]) or _stop())
    with pytest.raises(KeyboardInterrupt):
        retrain.retrain(chosen)
    assert trained
    assert not {quits, erased} & {row.user for row in trained}
    run = RunFolder(folder)
    assert not {quits, erased} & set(run.done("collect")["subjects"])  # type: ignore[index]
    assert run.done("train") is None, "what had learned from them is made again"
    assert not (folder / "train").exists()


def _stop(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_an_opt_out_counts_for_a_source_that_is_open_already(tmp_path: Path) -> None:
    own = lived(tmp_path / "store", EPISODES[:4], teacher(EPISODES))
    left = EPISODES[0].user_id
    with StoreSource(own) as source:
        assert left in source.users()
        assert list(source.decisions(user_id=left))
        with Memory(own) as memory:
            memory.trainable(False, user_id=left)
        assert left not in source.users()
        assert not list(source.decisions(user_id=left))
        assert not list(source.answers(user_id=left))
        (episode,) = source.episodes([left])
        assert (episode.decisions, episode.answers, episode.ops) == ((), (), ())


def test_a_log_of_another_template_is_refused(tmp_path: Path) -> None:
    spelled = lived(tmp_path / "store", EPISODES[:6], Spelled(Truth(EPISODES)),
                    manners=Manners(rated=1.0, wrong_ratings=0.5))  # fmt: skip
    with pytest.raises(WrongTemplate, match=r"logged prompts are not what.*memkit-train plan"):
        retrain.retrain(config(spelled, tmp_path / "out"))


def test_what_a_machine_runs_out_of_is_named() -> None:
    for error, kind in (
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), OutOfMemory),
        (RuntimeError("CUDA out of memory. Tried to allocate"), OutOfMemory), (OSError(28, "No space left"), DiskFull),
        (RuntimeError("SafetensorError: I/O error: File too large (os error 27)"), DiskFull),
    ):  # fmt: skip
        with pytest.raises(kind, match="Next:"), resources("method.micro_batch=4"):
            raise error
    with pytest.raises(ValueError, match="other"), resources("x"):
        raise ValueError("other")


def test_a_run_keeps_its_material_apart(tmp_path: Path) -> None:
    from memkit_train.rung import material

    run = RunFolder(tmp_path)
    rowfile.save(tmp_path / ROWS, [TextRow((), "ADD", reward=1.0)])
    rowfile.save(tmp_path / REPLAY, [])
    assert {name: len(rows) for name, rows in material(run).items()} == {"rows": 1, "replay": 0, "replayed": 0}
    rowfile.save(tmp_path / ALTERNATIVES, [TokenRow((1,), (2,), reward=0.5)])
    assert len(material(run)["replayed"]) == 1
    assert page(run)
    assert model_card(run.record)
