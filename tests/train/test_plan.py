"""A plan counts what a run will do, with the method's own settings."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from memkit.embedders import make_embedder
from memkit.errors import InvalidConfig
from memkit_train.errors import DataError
from memkit_train.learn.footprint import measure_steps
from memkit_train.learn.lora import LoraSpec
from memkit_train.learn.sft import OBJECTIVE
from memkit_train.retrain import collect
from memkit_train.retrain import plan as planning
from memkit_train.retrain import reinforce as command
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.plan import plan
from memkit_train.retrain.stages import train
from memkit_train.rows import Row, TokenRow
from tests.bench._models_memory import Method, measure
from tests.train import tiny
from tests.train.stores import dividing_seed, lived, teacher, world
from tests.zoo import ZOO, build

EPISODES = world(8, seed=7)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


def config(store: Path, output: Path, **changes: Any) -> TrainConfig:
    values = {
        "data.store": store,
        "data.registry": output / "registry",
        "data.heldout_share": 0.3,
        "data.split_seed": dividing_seed(store),
        "model.base": tiny.base(),
        "model.device": "cpu",
        "method.lora_r": 4,
        "gate.canaries": 0,
        "output": output,
        **changes,
    }
    return load(None, [f"{name}={value}" for name, value in values.items()])


def logged(monkeypatch: pytest.MonkeyPatch, pairs: int = 60) -> collect.Collected:
    """The log is what a local model wrote: in every state one decision was good and one bad."""
    rows: list[Any] = [
        TokenRow((5 + n, 6, 7), (8 + kind, 9), reward=float(kind), ref=f"{n}") for n in range(pairs) for kind in (0, 1)
    ]
    guards: list[Any] = [TokenRow((7, 8, n), (9,)) for n in range(4)]
    found = collect.Collected(rows, guards, counts={"rows": len(rows)})
    monkeypatch.setattr(planning, "collect", lambda *_, **__: found)
    return found


def test_the_steps_are_those_of_the_run(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = logged(monkeypatch)
    chosen = config(store, tmp_path)
    done = train(chosen, tmp_path / "run", found.rows, found.replay, None)
    assert plan(chosen).steps == done.steps
    assert plan(config(store, tmp_path, **{"method.batch": 4})).steps > done.steps


def test_a_log_of_texts_is_counted_as_it_is_trained_on(store: Path, tmp_path: Path) -> None:
    chosen = config(store, tmp_path, **{"method.batch": 4})  # few rows: how many depends on who is held out
    with collect.open_source(chosen) as source:
        found = collect.collect(source, chosen, make_embedder("hash"), now=datetime.now(UTC))
    assert plan(chosen).steps == train(chosen, tmp_path / "run", found.rows, found.replay, None).steps > 1


def test_what_the_run_would_refuse_is_an_error_of_the_plan(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = logged(monkeypatch)
    found.rows = [row for row in found.rows if not row.reward]
    levels = []
    for amends in (0, 4):
        chosen = config(store, tmp_path, **{"method.amends": amends})
        levels += [one.level for one in plan(chosen).findings if "learns nothing" in one.what]
        with pytest.raises(DataError):
            train(chosen, tmp_path / "run", found.rows, [], None)
    assert levels == ["error", "warning"], "what mends the blamed decisions may be found yet"


def test_a_plan_of_online_training_in_a_world_has_no_rows_to_count(tmp_path: Path) -> None:
    sets = ["data.world=closed,count=2", f"model.base={tiny.base()}", "model.device=cpu"]
    assert plan(load(None, sets)).steps == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b"[]"),
        ("config.json", b"\xff"),
        ("model.safetensors", b""),
        ("model.safetensors", b"\xff" * 20),
        ("model.safetensors", (2).to_bytes(8, "little") + b"[]"),
        ("model.safetensors", (10).to_bytes(8, "little") + b'{"a": 123}'),
    ],
)
def test_a_damaged_checkpoint_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    base = shutil.copytree(tiny.base(), tmp_path / "base")
    (base / name).write_bytes(content)
    with pytest.raises(InvalidConfig, match=rf"{name} of the checkpoint .*base cannot be read"):
        plan(load(None, ["data.world=closed,count=2", f"model.base={base}", "model.device=cpu"]))


def test_online_training_decodes_as_many_at_once_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(
        command, "gather", lambda _: SimpleNamespace(talks=[], heldout=[], subjects=[], episodes=[], served=None)
    )
    monkeypatch.setattr(command, "polish", lambda *_, **more: seen.update(more))
    run: Any = SimpleNamespace(record={}, write=lambda: None, path=tmp_path)
    command.learn(load(None, ["data.world=closed,count=2", "model.base=x", "online.decode_batch=7"]), run)
    assert seen["machine"].batch == 7


def test_a_rate_hangs_on_the_size_of_the_model_and_a_far_one_is_told(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged(monkeypatch)

    def told(parameters: int, **sets: Any) -> list[tuple[str, str]]:
        monkeypatch.setattr(planning, "_parameters", lambda _: parameters)
        found = plan(config(store, tmp_path, **sets)).findings
        return [(one.level, one.what) for one in found if ".lr" in one.what]

    assert told(1_000_000) == [("ok", "method.lr: 0.001, warm-up 0%, by the model's size")]
    assert told(1_500_000_000) == [("ok", "method.lr: 0.0002, warm-up 3%, by the model's size")]
    ((level, what),) = told(7_000_000_000, **{"method.lr": 1e-3})
    assert (level, "10 times" in what) == ("warning", True)
    assert told(7_000_000_000, **{"method.lr": 2e-4}) == []
    assert told(7_000_000_000, **{"online.states": 4})[1] == ("ok", "online.lr: 1e-05, warm-up 3%, by the model's size")


def test_memory_is_what_a_step_takes(tmp_path: Path) -> None:
    base = build(ZOO["qwen2"], tmp_path / "base", talkative=True)
    step = [Row(tuple(range(300, 600)), (number,) * 20, None, 1.0) for number in range(2)]
    for checkpointing in (False, True):
        method = Method("sft", OBJECTIVE, checkpointing=checkpointing)
        planned = measure_steps(
            base, [step], dtype=torch.float32, spec=LoraSpec(), gradient_checkpointing=checkpointing
        )
        assert planned == pytest.approx(measure(base, step, method, tmp_path / "run"), rel=0.1)
