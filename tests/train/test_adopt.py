"""Out and back in: a log is exported, trained on elsewhere, and what comes back is judged, published and promoted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memkit.adapters import Registry
from memkit.adapters.promotion import promote
from memkit.adapters.verify import read_manifest
from memkit.errors import InvalidInput
from memkit_train.retrain import run as retrain
from tests.train import tiny
from tests.train.hosted import HostedTeacher
from tests.train.stores import lived, world
from tests.train.test_retrain import config, outcome_of

EPISODES = world(8, seed=7)

ELSEWHERE = """
import sys
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows, base, out = sys.argv[1:]
trainer = SFTTrainer(
    model=base,
    args=SFTConfig(out, max_steps=4, learning_rate=1e-2, use_cpu=True, report_to="none", save_strategy="no"),
    train_dataset=load_dataset("json", data_files=rows, split="train").select_columns(["prompt", "completion"]),
    peft_config=LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()
trainer.save_model(out)
"""


def hosted(folder: Path) -> Path:
    model: Any = HostedTeacher(EPISODES, {"change": 0.0, "extend": 0.0})
    return lived(folder / "store", EPISODES, model)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hosted(tmp_path_factory.mktemp("hosted"))


@pytest.mark.slow
def test_an_export_is_trained_on_with_stock_trl_and_comes_back(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_out_and_come_back(log, tmp_path, monkeypatch)


def go_out_and_come_back(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = config(log, tmp_path, **{"method.name": "distil"})
    rows = tmp_path / "rows.jsonl"
    words = ["export", str(rows), "--store", str(log), "--mode", "split", "--every"]
    words += ["--heldout-share", "0.3", "--split-seed", str(chosen.data.split_seed)]
    memkit_train = [sys.executable, "-c", "from memkit_train.cli import main; main()"]
    assert subprocess.run([*memkit_train, *words], check=False).returncode == 0
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE)
    done = subprocess.run([sys.executable, script, rows, tiny.base(), tmp_path / "lora"], check=False)
    assert done.returncode == 0
    outcome_of(monkeypatch, 0.9, 0.5)
    found = retrain.adopt(chosen, tmp_path / "lora")
    assert (found.status, found.exit_code) == ("published", 0), found.why
    assert found.digest is not None
    registry = Registry(tmp_path / "registry")
    try:
        assert read_manifest(registry.path(found.digest)).training.algorithm == "elsewhere"
        promote(registry, "production", found.digest)
        assert registry.alias("production").route("manager").stable == found.digest
    finally:
        registry.close()


def test_what_is_no_adapter_is_not_adopted(log: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"adapter_model\.safetensors"):
        retrain.adopt(config(log, tmp_path, **{"method.name": "distil"}), tmp_path / "empty")
    assert not (tmp_path / "runs").exists()


def test_the_log_itself_can_be_what_an_adapter_must_not_fall_behind(log: Path, tmp_path: Path) -> None:
    """A random model keeps nothing of what the hosted one kept."""
    chosen = config(log, tmp_path, **{"model.parent": "logged", "method.name": "distil", "gate.target": "answer_right"})
    assert chosen.limits.margin == 0.05
    verdict = retrain.judge(chosen, str(tiny.adapter()))
    assert verdict.outcome == "refused"
    assert verdict.check("target").bar == "lower bound > -0.05"
    assert verdict.check("tokens").passed is None, "what another model cost says nothing"
    assert verdict.check("growth").passed is not None
