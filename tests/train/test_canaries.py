"""A planted secret is likely after overfitting on it, and no likelier than its alternatives otherwise."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memkit_train.files.run_folder import RunFolder
from memkit_train.gate import canaries
from memkit_train.gate.checks import gate
from memkit_train.learn import sft
from memkit_train.learn.run import in_order
from memkit_train.learn.tokenizing import reader_of
from memkit_train.retrain import stages as rung
from memkit_train.retrain.config import load
from memkit_train.rows import TokenRow
from tests.train import tiny


@pytest.fixture(scope="module")
def planted() -> tuple[list[canaries.Canary], list[TokenRow]]:
    chosen = canaries.plan(4, seed=1)
    return chosen, canaries.plant(chosen, reader_of(str(tiny.base())))


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


# -- planted as often as promised --------------------------------------------------------------------------------------

ROWS = [TokenRow((5 + n, 6, 7), (8 + kind, 9), reward=float(kind), ref=f"{n}") for n in range(12) for kind in (0, 1)]
"""In every state one decision was good and one bad."""


def guards(count: int) -> list[TokenRow]:
    return [TokenRow((30 + n % 90, 31 + n // 90, 7), (9, 2), weight=0.3) for n in range(count)]


class Watched:
    """Imitation on the tiny base, and how often it trained on what it trained on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.count = folder, 0
        monkeypatch.setattr(canaries, "ROWS_EACH", 3)  # a handful of rows affords a handful of secrets
        real = sft.fit

        def fit(trainer: Any, made: Any, config: Any, prepared: Any, *more: Any) -> Any:
            self.trained = prepared.rows
            return real(trainer, made, config, prepared, *more)

        monkeypatch.setattr(sft, "fit", fit)

    def run(self, replay: list[TokenRow], **changes: Any) -> tuple[RunFolder, Any, list[int]]:
        """The run, its result, and how often it came upon each secret that is on its record."""
        self.count += 1
        values = {
            "data.store": self.folder,
            "model.base": tiny.base(),
            "model.device": "cpu",
            "method.lora_r": 4,
            "method.epochs": 2,
            "method.batch": 8,
            "method.micro_batch": 8,
            "gate.canaries": 4,
            "output": self.folder,
            **changes,
        }
        config = load(None, [f"{key}={value}" for key, value in values.items()])
        run = RunFolder.begin(self.folder / str(self.count), {}, now=datetime(2026, 1, 1, tzinfo=UTC))
        result = rung.train(config, run.path / "train", ROWS, replay, None, run=run)
        sought = canaries.plan(run.record["canaries"], config.method.seed)
        found = Counter(row.prompt_ids for row in self.trained)
        rows = canaries.plant(sought, reader_of(str(tiny.base())))
        return run, result, [found[row.prompt_ids] for row in rows]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


@pytest.mark.parametrize("replay", [0, 400], ids=["no guards", "many guards"])
def test_each_secret_comes_once_in_every_epoch(replay: int, watched: Watched) -> None:
    run, result, seen = watched.run(guards(replay))
    assert run.record["canaries"] == result.metrics["rows/planted"] == 4
    assert seen == [2, 2, 2, 2]


def test_no_share_of_replayed_rows_says_how_often(watched: Watched) -> None:
    for share in (0.0, 0.5):
        _, result, seen = watched.run(guards(400), **{"method.replay_share": share})
        assert seen == [2, 2, 2, 2]
        assert (result.metrics["rows/replayed"] > 0) == (share > 0)


def test_what_does_not_fit_is_not_on_record(watched: Watched) -> None:
    run, _, seen = watched.run([], **{"method.max_tokens": 40})
    assert (run.record["canaries"], seen) == (0, [])


def test_what_is_planted_neither_thins_the_rows_nor_moves_them() -> None:
    rows, weights = list(range(40)), [0.2 + 0.01 * n for n in range(40)]
    plain = in_order(rows, weights, epochs=3, seed=1)
    mixed = in_order(rows, weights, epochs=3, seed=1, planted=[-1, -2])
    assert [row for row in mixed if row >= 0] == plain
    assert Counter(row for row in mixed if row < 0) == {-1: 3, -2: 3}


def test_replayed_rows_are_counted_as_they_are_trained_on(watched: Watched) -> None:
    _, result, _ = watched.run(guards(400), **{"method.replay_share": 0.5, "method.half_life_days": 1000})
    known = {row.prompt_ids for row in guards(400)}
    assert result.metrics["rows/replayed"] == sum(row.prompt_ids in known for row in watched.trained)
    assert result.metrics["rows/replayed"] < 12, "twelve are drawn in each of two epochs, three in ten are trained on"
    assert result.metrics["rows/trained"] == len(watched.trained)
