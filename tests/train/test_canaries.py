"""A planted secret is likely after overfitting on it, and no likelier than its alternatives otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit.backbones.hf import checkpoint
from memkit.backbones.hf.prompting import Prompter
from memkit_train import canaries
from memkit_train.gate import gate
from memkit_train.methods import sft
from memkit_train.rows import TokenRow
from tests.train import tiny


@pytest.fixture(scope="module")
def planted() -> tuple[list[canaries.Canary], list[TokenRow]]:
    loaded = checkpoint.load(tiny.base(), dtype="float32", device="cpu")
    chosen = canaries.plan(4, seed=1)
    return chosen, canaries.plant(chosen, Prompter(loaded.tokenizer), loaded.tokenizer)


def trained(rows: list[TokenRow], folder: Path, epochs: int) -> Path:
    config = sft.SftConfig(output=folder, lora=tiny.SPEC, epochs=epochs, batch=4, micro_batch=4, lr=2e-2, device="cpu")
    return sft.train(rows, tiny.base(), None, config).path


def test_overfitting_on_the_secrets_is_seen_and_refused(planted, tmp_path: Path) -> None:
    chosen, rows = planted
    adapter = trained(rows, tmp_path, epochs=30)
    found = canaries.exposures(chosen, tiny.base(), adapter, None, alternatives=100)
    check = gate({}, {}, exposures=found).check("memorisation")
    assert check.passed is False, check.why
    assert sum(one.candidate <= 5 for one in found) >= 2


def test_an_adapter_that_never_saw_them_ranks_them_like_its_parent(planted) -> None:
    chosen, _ = planted
    found = canaries.exposures(chosen, tiny.base(), tiny.adapter(), None, alternatives=100)
    assert gate({}, {}, exposures=found).check("memorisation").passed is True
    same = canaries.exposures(chosen, tiny.base(), tiny.adapter(), tiny.adapter(), alternatives=20)
    assert all(one.candidate == one.parent for one in same)


def test_canaries_depend_on_their_seed_alone() -> None:
    assert canaries.plan(5, seed=2) == canaries.plan(5, seed=2) != canaries.plan(5, seed=3)
