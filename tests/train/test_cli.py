"""`memkit-train` as a user meets it: its exit codes, its messages, its JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from memkit.adapters import Registry
from memkit_train import cli
from memkit_train.retrain import run as retrain
from tests.train import tiny
from tests.train.stores import dividing_seed, lived, teacher, world
from tests.train.test_publish import published, verdict
from tests.train.test_retrain import outcome_of

EPISODES = world(8, seed=7)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """argv → (exit code, stdout, stderr)."""

    def call(*argv: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["memkit-train", *map(str, argv)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def sets(store: Path, output: Path, **changes: Any) -> list[str]:
    values = {
        "data.store": store,
        "data.registry": output / "registry",
        "data.heldout_share": 0.3,
        "data.split_seed": dividing_seed(store),
        "model.base": tiny.base(),
        "model.device": "cpu",
        "method.epochs": 1,
        "method.batch": 8,
        "method.lora_r": 4,
        "method.lora_alpha": 8,
        "method.lr": 0.01,
        "gate.canaries": 0,
        "gate.min_probes": 1,
        "gate.min_users": 1,
        "output": output,
        **changes,
    }
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def test_inspect_tells_what_the_log_is_good_for(run: Any, store: Path) -> None:
    code, out, _ = run("inspect", store, "--json")
    assert code == 0
    assert json.loads(out)["users"] == len(EPISODES)
    assert json.loads(out)["teaches"]["manager"] > 0
    code, out, _ = run("inspect", store)
    assert code == 0
    assert "labels" in out


def test_a_plan_needs_no_gpu_and_names_what_is_wrong(run: Any, store: Path, tmp_path: Path) -> None:
    code, out, _ = run("plan", *sets(store, tmp_path), "--json")
    found = json.loads(out)
    assert code == 0, found["findings"]
    assert found["steps"] > 0
    assert found["parameters"] > 10_000
    assert any("held-out users" in one["what"] for one in found["findings"])
    code, _, err = run("plan", *sets(store, tmp_path, **{"method.name": "offline"}))
    assert (code, "66.2 %" in err, "memkit-train export" in err) == (2, True, True)
    assert not (tmp_path / "runs").exists()


def test_retrain_speaks_through_its_exit_code(
    run: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.5, 0.5)
    code, out, _ = run("retrain", *sets(store, tmp_path), "--json")
    assert (code, json.loads(out)["status"]) == (3, "refused")
    code, out, _ = run("retrain", *sets(store, tmp_path))
    assert (code, "0 new labels" in out) == (4, True)
    page = tmp_path / "runs" / "0001" / "report.html"
    page.unlink()
    assert run("report", page.parent)[0] == 0
    assert page.is_file()


def test_a_smoke_run_tries_everything_and_leaves_nothing(
    run: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    code, out, _ = run("retrain", *sets(store, tmp_path), "--smoke", "--json")
    assert (code, json.loads(out)["status"]) == (0, "smoke")
    assert Registry(tmp_path / "registry").digests() == []
    assert retrain.watermark(tmp_path) == {}


def test_imitation_alone_trains_and_judges_nothing(run: Any, store: Path, tmp_path: Path) -> None:
    code, out, _ = run("sft", *sets(store, tmp_path), "--smoke", "--json")
    found = json.loads(out)
    assert code == 0
    assert (Path(found["run"]) / found["adapter"] / "adapter_model.safetensors").is_file()


def test_export_writes_rows_for_other_trainers_or_says_why_not(run: Any, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    code, said, _ = run("export", out, "--format", "kto", "--store", store, "--split", "all", "--json")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert (code, json.loads(said)["lines"]) == (0, len(lines))
    assert {one["label"] for one in lines} == {True, False}
    code, _, err = run("export", tmp_path / "pairs", "--format", "dpo", "--store", store, "--heldout-share", 0)
    assert (code, "Next:" in err, (tmp_path / "pairs").exists()) == (4, True, False)
    code, _, err = run("export", out, "--format", "csv", "--store", store)
    assert (code, "parquet" in err) == (2, True)


def test_bad_input_is_told_with_the_next_step(run: Any, store: Path, tmp_path: Path) -> None:
    code, _, err = run("plan", "--set", "model.base=x", "--set", "method.rank=3")
    assert code == 2
    assert "Next:" in err
    code, _, err = run("retrain", *sets(store, tmp_path, **{"model.base": tmp_path / "nowhere"}))
    assert code == 2
    assert "checkpoint" in err
    code, _, err = run("report", tmp_path)
    assert code == 2
    compare = ("compare", "base", "base", "--model", tiny.base(), "--store")
    assert run(*compare, tmp_path / "nothing")[0] != 0
    code, _, err = run(*compare, store, "--mode", "bogus")
    assert (code, "split or fused" in err) == (2, True)


@pytest.mark.parametrize("command", ["ranker", "gate", "unbundle", "compare"])
def test_a_mistyped_store_is_refused_and_nothing_is_made_there(command: str, run: Any, tmp_path: Path) -> None:
    """A registry beside no store would keep `Memory` from ever making one there."""
    wrong = tmp_path / "X"
    words = {
        "ranker": ("--store", wrong),
        "unbundle": (tmp_path / "bundle", "--store", wrong),
        "compare": ("base", "base", "--model", tiny.base(), "--store", wrong),
        "gate": (tiny.adapter(), "--set", f"data.store={wrong}", "--set", f"model.base={tiny.base()}"),
    }
    code, _, err = run(command, *words[command])
    assert (code, "Next:" in err) == (2, True)
    assert not wrong.exists()


def test_a_damaged_run_is_reported_in_words(run: Any, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    code, _, err = run("report", tmp_path)
    assert (code, "run.json" in err, "Next:" in err) == (1, True, True)


def test_bundles_go_out_and_adapters_come_back(run: Any, store: Path, tmp_path: Path) -> None:
    code, out, _ = run("bundle", tmp_path / "bundle", "--store", store, "--json")
    assert code == 0
    assert '"text"' not in out
    code, out, _ = run("inspect", tmp_path / "bundle", "--json")
    assert json.loads(out)["users"] == len(EPISODES)
    code, out, _ = run("doctor", "--store", tmp_path / "bundle", "--json")
    assert (code, json.loads(out)[-1]["ok"]) == (0, True), "a bundle is read as a store is"
    from memkit_train.log.bundle import put_adapter

    registry = Registry(tmp_path / "there")
    put_adapter(tmp_path / "bundle", published(registry, verdict=verdict(True)).path)
    registry.close()
    code, out, _ = run("unbundle", tmp_path / "bundle", "--store", store, "--json")
    assert code == 0
    home = Registry(store / "adapters")
    assert json.loads(out)["digest"] in home.digests()
    home.close()


def test_doctor_looks_at_packages_and_store(run: Any, store: Path) -> None:
    code, out, _ = run("doctor", "--store", store, "--json")
    assert code == 0
    assert {"trl", "disk", "store"} <= {one["name"] for one in json.loads(out)}


def test_doctor_says_what_a_gpu_lacks(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, _ = run("doctor", "--gpu", "--json")
    last = json.loads(out)[-1]
    assert (code, last["name"], "CUDA" in last["what"], "--device cpu" in last["fix"]) == (1, "load", True, True)
    code, _, err = run("doctor", "--gpu", "--device", "tpu")
    assert (code, "cuda:1" in err) == (2, True)


@pytest.mark.slow
def test_doctor_takes_every_step_on_the_device_that_it_is_given(run: Any) -> None:
    code, out, err = run("doctor", "--gpu", "--device", "cpu", "--json")
    assert code == 0, out + err
    steps = ["load", "sample", "sft", "grpo", "gate, publish", "promote, serve"]
    assert [one["name"] for one in json.loads(out)][-len(steps) :] == steps


def test_every_command_explains_itself(run: Any) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name in (
        "inspect",
        "plan",
        "sft",
        "export",
        "retrain",
        "eval",
        "compare",
        "bundle",
        "unbundle",
        "ranker",
        "report",
        "doctor",
        "gate",
    ):
        assert name in out
