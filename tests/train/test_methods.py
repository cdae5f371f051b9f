"""Imitation on a tiny random model: good replies become likelier than bad ones."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from memkit.adapters.tensors import read_lora_tensors
from memkit.backbones.hf import adapters, checkpoint
from memkit.roles.base import ChatMessage
from memkit_train.errors import NoRows, OtherData, WrongParent, WrongVocabulary
from memkit_train.learn import lora, sft
from memkit_train.learn.result import AdapterResult
from memkit_train.learn.run import in_order, mix_in
from memkit_train.rows import TextRow, TokenRow
from tests.tiny_models import tiny_checkpoint
from tests.train import tiny

STATES = 12
COMMON: dict[str, Any] = {"lora": tiny.SPEC, "batch": 8, "micro_batch": 4, "epochs": 4, "device": "cpu"}


def prompt(state: int) -> tuple[int, ...]:
    return tuple(range(40 + state, 46 + state + state % 4))


def good(state: int) -> tuple[int, ...]:
    return (100, 110 + state % 3, 2)


def bad(state: int) -> tuple[int, ...]:
    return (130, 131 + state % 2, 132, 2)


@functools.cache
def scores(adapter: Path | None) -> list[tuple[float, float]]:
    """log p of the good and the bad reply of every state, through the runtime's own way to load an adapter."""
    loaded = checkpoint.load(tiny.base(), dtype="float32", device="cpu").model
    model: Any = adapters.build(loaded, adapter, merged=False).model if adapter else loaded
    return [
        (logprobs(model, prompt(n), good(n)).sum().item(), logprobs(model, prompt(n), bad(n)).sum().item())
        for n in range(STATES)
    ]


@torch.no_grad()
def logprobs(model: Any, before: tuple[int, ...], after: tuple[int, ...]) -> torch.Tensor:
    logits = model(torch.tensor([before + after])).logits[0, len(before) - 1 : -1]
    return torch.log_softmax(logits, -1)[range(len(after)), after]


def margin(adapter: Path | None) -> float:
    return sum(g - b for g, b in scores(adapter)) / STATES


def likelihood(adapter: Path | None) -> float:
    return sum(g for g, _ in scores(adapter)) / STATES


def good_rows(**more: Any) -> list[TokenRow]:
    return [TokenRow(prompt(n), good(n), **more) for n in range(STATES)]


def run(rows: Any, folder: Path, parent: Path | None = None, **more: Any) -> AdapterResult:
    return sft.train(rows, tiny.base(), parent, sft.SftConfig(output=folder, **{"lr": 1e-2, **COMMON, **more}))


def test_it_prefers_good_replies_and_gives_an_adapter_that_serves(tmp_path: Path) -> None:
    result = run(good_rows(), tmp_path)
    assert margin(result.path) > margin(None) + 1.0
    assert likelihood(result.path) > likelihood(None)
    assert result.steps > 0
    assert {"loss", "grad_norm", "rows/given", "rows/trained"} <= set(result.metrics)
    assert result.digest == lora.digest_of(result.path)
    assert read_lora_tensors(result.path / "adapter_model.safetensors")
    assert str(tiny.base().parent) not in (result.path / "adapter_config.json").read_text()
    assert result.seconds > 0


def test_an_interrupted_run_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"epochs": 2, "save_steps": 1, "lr": 1e-3}
    parent = tiny.adapter(2)
    whole = run(good_rows(), tmp_path / "whole", parent, **short)
    from transformers import Trainer

    real, calls = Trainer.log, iter(range(100))
    with monkeypatch.context() as patched:

        def cut(self: Any, logs: Any, start_time: Any = None) -> None:
            real(self, logs, start_time)
            if next(calls) == 2:
                raise KeyboardInterrupt

        patched.setattr(Trainer, "log", cut)
        with pytest.raises(KeyboardInterrupt):
            run(good_rows(), tmp_path / "cut", parent, **short)
    again = run(good_rows(), tmp_path / "cut", parent, **short)
    assert again.digest == whole.digest
    assert again.steps == whole.steps
    with pytest.raises(OtherData):
        run(good_rows()[:-1], tmp_path / "cut", parent, **short)


def test_continuing_a_parent_starts_from_it_and_keeps_its_shape(tmp_path: Path) -> None:
    parent = tiny.adapter(3)
    still = run(good_rows(), tmp_path, parent, lr=0.0, epochs=1, lora=lora.LoraSpec(r=16))
    assert torch.allclose(torch.tensor(scores(still.path)), torch.tensor(scores(parent)))
    assert not torch.allclose(torch.tensor(scores(parent)), torch.tensor(scores(None)))
    other = tiny_checkpoint(tmp_path / "other", hidden=64, layers=1)
    with pytest.raises(WrongParent, match="does not fit"):
        sft.train(good_rows(), other, parent, sft.SftConfig(output=tmp_path / "o", device="cpu"))
    with pytest.raises(WrongParent, match="cannot continue"):
        run(good_rows(), tmp_path, tmp_path / "nowhere")


def test_lora_starts_the_same_whatever_was_drawn_before() -> None:
    first = lora.trainable(tiny.model(seed=5))
    torch.rand(100)
    second, other = lora.trainable(tiny.model(seed=5)), lora.trainable(tiny.model(seed=6))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert not any("lm_head" in name or "embed" in name for name in first)


def test_text_of_a_hosted_model_is_rendered_as_it_will_be_served(tmp_path: Path) -> None:
    texts = [TextRow((ChatMessage("user", f"fact {n}"),), "NOOP", reward=1.0) for n in range(4)]
    assert run(texts, tmp_path, epochs=1).metrics["rows/trained"] == 4


def test_rows_to_be_repeated_are_read_and_fitted_like_the_others(tmp_path: Path) -> None:
    text = TextRow((ChatMessage("user", "x"),), "NONE")
    long = TokenRow(tuple(range(10, 60)), (2,))
    foreign = TokenRow((10_000,), (2,))

    def repeated(*given: TokenRow | TextRow) -> float:
        settings = sft.SftConfig(
            output=tmp_path, **{**COMMON, "lr": 1e-3, "epochs": 1, "max_tokens": 40, "replay_share": 0.5}
        )
        return sft.train(good_rows(), tiny.base(), None, settings, replay=given).metrics["rows/replayed"]

    assert repeated(text, long, foreign) == repeated(text) > 0
    assert repeated(long, foreign, replace(long, vocabulary="of another tokenizer")) == 0


def test_what_cannot_be_imitated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRows):
        run([], tmp_path)
    with pytest.raises(NoRows, match="fits in 3 tokens"):
        run(good_rows(), tmp_path, max_tokens=3)
    with pytest.raises(NoRows, match="weight 0"):
        run(good_rows(weight=0.0), tmp_path)


class TestOrder:
    def test_equal_weights_show_every_row_once_per_epoch(self) -> None:
        rows = list(range(50))
        ordered = in_order(rows, [0.3] * 50, epochs=3, seed=1)
        assert Counter(ordered) == dict.fromkeys(rows, 3)
        assert ordered[:50] != ordered[50:100]
        assert ordered == in_order(rows, [0.3] * 50, epochs=3, seed=1)

    def test_weights_become_shares_of_the_epochs(self) -> None:
        seen = Counter(in_order(list(range(60)), [1.0] * 20 + [0.25] * 20 + [0.0] * 20, epochs=40, seed=0))
        assert all(seen[n] == 40 for n in range(20))
        assert sum(seen[n] for n in range(20, 40)) == pytest.approx(200, abs=1)
        assert all(seen[n] == 0 for n in range(40, 60))

    def test_replay_makes_up_its_share(self) -> None:
        every = mix_in(["new"] * 90, ["old"], 0.1, seed=0)
        assert Counter(every) == {"new": 90, "old": 10}
        assert mix_in(["new"], [], 0.5, seed=0) == ["new"]

    def test_old_decisions_count_less(self) -> None:
        assert [sft.decay(age, 30.0) for age in (0.0, 30.0, 60.0)] == [1.0, 0.5, 0.25]
        assert sft.decay(1e6, None) == 1.0


def test_no_private_method_of_trl_is_touched() -> None:
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(sft))
    used: Sequence[str] = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in used if name.startswith("_")]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and "Trainer" in ast.unparse(node)]


def test_rows_of_another_vocabulary_are_left_out_and_refused_by_name(tmp_path: Path) -> None:
    foreign = [replace(row, vocabulary="of another tokenizer", ref="d_9") for row in good_rows()]
    with pytest.raises(WrongVocabulary, match=r"cannot be imitated.*d_9"):
        run([*good_rows()[:2], *foreign], tmp_path, epochs=1)
    assert run([*good_rows(), *foreign[:2]], tmp_path, epochs=1).metrics["rows/trained"] == STATES
