"""The ladder on a tiny random model: each method makes good replies likelier than bad ones, by its own means."""

from __future__ import annotations

import functools
import math
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
from memkit_train import lora
from memkit_train.errors import MissingLogprobs, NoRows, NoSignal, OtherData, StaleLog, WrongParent, WrongVocabulary
from memkit_train.methods import dpo, kto, offline, sft
from memkit_train.methods.exact_ids import asked, id_tokenizer, replied
from memkit_train.methods.run import AdapterResult, drawn, in_order, mixed, passes
from memkit_train.rows import LabelledRow, PreferencePair, TextRow, TokenRow
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
    return [(logprobs(model, prompt(n), good(n)).sum().item(), logprobs(model, prompt(n), bad(n)).sum().item())
            for n in range(STATES)]  # fmt: skip


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


def labelled() -> list[LabelledRow]:
    return [LabelledRow(prompt(n), good(n), True) for n in range(STATES)] + [
        LabelledRow(prompt(n), bad(n), False) for n in range(0, STATES, 2)
    ]


def pairs() -> list[PreferencePair]:
    return [PreferencePair(prompt(n), good(n), bad(n)) for n in range(STATES)]


def logged() -> list[TokenRow]:
    model = checkpoint.load(tiny.base(), dtype="float32", device="cpu").model
    return [
        TokenRow(
            prompt(n), ids, reward=reward, logprobs=tuple(logprobs(model, prompt(n), ids).tolist()), state_key=str(n)
        )
        for n in range(STATES)
        for ids, reward in ((good(n), 1.0), (bad(n), 0.0))
    ]


def run(method: Any, rows: Any, folder: Path, parent: Path | None = None, **more: Any) -> AdapterResult:
    made = {sft: sft.SftConfig, kto: kto.KtoConfig, dpo: dpo.DpoConfig, offline: offline.OfflineConfig}[method]
    return method.train(rows, tiny.base(), parent, made(output=folder, **{"lr": 1e-2, **COMMON, **more}))


METHODS = [(sft, good_rows), (kto, labelled), (dpo, pairs), (offline, logged)]
NAMES = ["sft", "kto", "dpo", "offline"]


@pytest.mark.parametrize(("method", "rows"), METHODS, ids=NAMES)
def test_each_method_prefers_good_replies_and_gives_an_adapter_that_serves(
    method: Any, rows: Any, tmp_path: Path
) -> None:
    result = run(method, rows(), tmp_path)
    assert margin(result.path) > margin(None) + 1.0
    assert likelihood(result.path) > likelihood(None)
    assert result.steps > 0
    assert {"loss", "grad_norm", "rows/given", "rows/trained"} <= set(result.metrics)
    assert result.digest == lora.digest_of(result.path)
    assert read_lora_tensors(result.path / "adapter_model.safetensors")
    assert str(tiny.base().parent) not in (result.path / "adapter_config.json").read_text()
    assert result.seconds > 0


@pytest.mark.parametrize(("method", "rows"), METHODS, ids=NAMES)
def test_an_interrupted_run_goes_on_to_the_same_bytes(
    method: Any, rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"epochs": 2, "save_steps": 1, "lr": 1e-3}
    parent = tiny.adapter(2)
    whole = run(method, rows(), tmp_path / "whole", parent, **short)
    from transformers import Trainer

    real, calls = Trainer.log, iter(range(100))
    with monkeypatch.context() as patched:

        def cut(self: Any, logs: Any, start_time: Any = None) -> None:
            real(self, logs, start_time)
            if next(calls) == 2:
                raise KeyboardInterrupt

        patched.setattr(Trainer, "log", cut)
        with pytest.raises(KeyboardInterrupt):
            run(method, rows(), tmp_path / "cut", parent, **short)
    again = run(method, rows(), tmp_path / "cut", parent, **short)
    assert again.digest == whole.digest
    assert again.steps == whole.steps
    with pytest.raises(OtherData):
        run(method, rows()[:-1], tmp_path / "cut", parent, **short)


def test_continuing_a_parent_starts_from_it_and_keeps_its_shape(tmp_path: Path) -> None:
    parent = tiny.adapter(3)
    still = run(sft, good_rows(), tmp_path, parent, lr=0.0, epochs=1, lora=lora.LoraSpec(r=16))
    assert torch.allclose(torch.tensor(scores(still.path)), torch.tensor(scores(parent)))
    assert not torch.allclose(torch.tensor(scores(parent)), torch.tensor(scores(None)))
    other = tiny_checkpoint(tmp_path / "other", hidden=64, layers=1)
    with pytest.raises(WrongParent, match="does not fit"):
        sft.train(good_rows(), other, parent, sft.SftConfig(output=tmp_path / "o", device="cpu"))
    with pytest.raises(WrongParent, match="cannot continue"):
        run(sft, good_rows(), tmp_path, tmp_path / "nowhere")


def test_lora_starts_the_same_whatever_was_drawn_before() -> None:
    first = lora.trainable(tiny.model(seed=5))
    torch.rand(100)
    second, other = lora.trainable(tiny.model(seed=5)), lora.trainable(tiny.model(seed=6))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert not any("lm_head" in name or "embed" in name for name in first)


def test_text_of_a_hosted_model_is_rendered_as_it_will_be_served(tmp_path: Path) -> None:
    texts = [TextRow((ChatMessage("user", f"fact {n}"),), "NOOP", reward=1.0) for n in range(4)]
    assert run(sft, texts, tmp_path, epochs=1).metrics["rows/trained"] == 4
    with pytest.raises(WrongVocabulary, match="offline cannot use this log: 4 of 4") as caught:
        run(offline, texts, tmp_path)
    assert caught.value.details["method"] == "offline"


def hosted(count: int = 4) -> list[TextRow]:
    return [
        TextRow((ChatMessage("user", f"fact {n}"),), reply, reward=reward, state_key=f"hosted {n}")
        for n in range(count) for reply, reward in (("ADD", 1.0), ("NOOP", 0.0))
    ]  # fmt: skip


@pytest.mark.parametrize("method", [kto, dpo])
def test_text_joins_rows_that_have_ids(method: Any, tmp_path: Path) -> None:
    rows, own = {kto: (labelled(), 18), dpo: (pairs(), 12)}[method]
    result = run(method, [*rows, *hosted()], tmp_path, epochs=1)
    assert result.metrics["rows/trained"] == own + {kto: 8, dpo: 4}[method]
    assert run(method, hosted(), tmp_path / "alone", epochs=1).metrics["rows/trained"] == {kto: 8, dpo: 4}[method]


def test_offline_leaves_out_and_counts_what_it_cannot_weigh(tmp_path: Path) -> None:
    found = run(offline, [*hosted(20), *(replace(row, logprobs=None) for row in logged()), *logged()], tmp_path).metrics
    assert (found["rows/given"], found["rows/usable"], found["rows/trained"]) == (88, 24, 24)


@pytest.mark.parametrize(("method", "rows"), [METHODS[0], METHODS[3]], ids=["sft", "offline"])
def test_rows_to_be_repeated_are_read_and_fitted_like_the_others(method: Any, rows: Any, tmp_path: Path) -> None:
    made = {sft: sft.SftConfig, offline: offline.OfflineConfig}[method]
    settings = made(output=tmp_path, **{**COMMON, "lr": 1e-3, "epochs": 1, "max_tokens": 40, "replay_share": 0.5})
    text = TextRow((ChatMessage("user", "x"),), "NONE")
    long = TokenRow(tuple(range(10, 60)), (2,))
    foreign = TokenRow((10_000,), (2,))

    def repeated(*given: TokenRow | TextRow) -> float:
        return method.train(rows(), tiny.base(), None, settings, replay=given).metrics["rows/replayed"]

    assert repeated(text, long, foreign) == repeated(text) > 0
    assert repeated(long, foreign, replace(long, vocabulary="of another tokenizer")) == 0


class TestRefusals:
    def test_offline_names_what_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(MissingLogprobs, match="offline"):
            run(offline, [replace(row, logprobs=None) for row in logged()], tmp_path)
        with pytest.raises(WrongVocabulary, match="offline"):
            run(offline, [replace(row, vocabulary="0" * 64) for row in logged()], tmp_path)
        with pytest.raises(WrongVocabulary, match="offline"):
            run(offline, [replace(row, prompt_ids=(10_000,)) for row in logged()], tmp_path)
        with pytest.raises(NoSignal, match="no row has a reward"):
            run(offline, [replace(row, reward=None) for row in logged()], tmp_path)
        with pytest.raises(NoSignal, match="better or worse"):
            run(offline, [replace(row, reward=0.5) for row in logged()], tmp_path)

    def test_offline_stops_on_a_log_of_too_different_a_policy(self, tmp_path: Path) -> None:
        stale = [
            replace(row, logprobs=tuple(p - 3.0 * n for p in row.logprobs or ())) for n, row in enumerate(logged())
        ]
        with pytest.raises(StaleLog):
            run(offline, stale, tmp_path, objective=replace(offline.OBJECTIVE, ess_floor=0.5))

    def test_constant_labels_and_empty_data(self, tmp_path: Path) -> None:
        with pytest.raises(NoSignal, match="all 12 rows are labelled good"):
            run(kto, labelled()[:STATES], tmp_path)
        for method in (sft, kto, dpo):
            with pytest.raises(NoRows):
                run(method, [], tmp_path)
        with pytest.raises(NoRows, match="fits in 3 tokens"):
            run(sft, good_rows(), tmp_path, max_tokens=3)
        with pytest.raises(NoRows, match="weight 0"):
            run(sft, good_rows(weight=0.0), tmp_path)


def test_ids_survive_the_way_through_text() -> None:
    tokenizer = id_tokenizer(500, pad_id=0, end_id=2)
    ids = [17, 1, 7, 2, 0, 499, 2, 17]
    for end in (2, 45):
        read = tokenizer.apply_chat_template(asked(ids) + replied([5, end]), tokenize=True, return_dict=True)
        assert read["input_ids"] == [*ids, 5, end]


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

    @pytest.mark.parametrize(("rows", "epochs"), [(1, 10), (100, 10), (400, 5), (1_920, 1), (100_000, 1)])
    def test_a_small_log_is_gone_through_until_something_can_change(
        self, rows: int, epochs: int, tmp_path: Path
    ) -> None:
        config = kto.KtoConfig(output=tmp_path)
        assert passes(config, rows) == epochs
        assert passes(replace(config, epochs=2), rows) == 2
        assert drawn([0.3] * rows) == pytest.approx(rows)

    def test_replay_makes_up_its_share(self) -> None:
        every = mixed(["new"] * 90, ["old"], 0.1, seed=0)
        assert Counter(every) == {"new": 90, "old": 10}
        assert mixed(["new"], [], 0.5, seed=0) == ["new"]

    def test_old_decisions_count_less(self) -> None:
        assert [sft.decay(age, 30.0) for age in (0.0, 30.0, 60.0)] == [1.0, 0.5, 0.25]
        assert sft.decay(1e6, None) == 1.0


class TestOfflineAdvantages:
    def test_equal_states_are_compared_across_the_log(self) -> None:
        def row(key: str, reward: float | None, role: str = "manager") -> TokenRow:
            return TokenRow((1,), (2,), reward=reward, logprobs=(-1.0,), state_key=key, role=role)

        rows, stats = offline.advantage_rows(
            [row("s", 1.0), row("t", 0.0), row("s", 0.0), row("", 1.0), row("u", 1.0, "answerer"), row("v", None),
             row("w", 0.3, "answerer"), row("tie", 0.5), row("tie", 0.5)],
        )  # fmt: skip
        found = {(one.group, one.role): [] for one in rows}
        for one in rows:
            found[one.group, one.role].append(one.advantage)
        half = 0.5 / math.sqrt(0.5)
        assert found["s", "manager"] == pytest.approx([half, -half])
        assert found["alone/manager", "manager"] == pytest.approx([-half, half])
        assert found["alone/answerer", "answerer"] == pytest.approx([half, -half])
        assert (stats.groups, stats.dropped) == (4, 1)


def test_no_private_method_of_trl_is_touched() -> None:
    import ast
    import inspect

    for method in (sft, kto, dpo):
        tree = ast.parse(inspect.getsource(method))
        used: Sequence[str] = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        assert not [name for name in used if name.startswith("_")]
        assert not [
            node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and "Trainer" in ast.unparse(node)
        ]


@pytest.mark.parametrize("method", ["sft", "kto", "dpo"])
def test_rows_of_another_vocabulary_are_left_out_and_refused_by_name(method: str, tmp_path: Path) -> None:
    module, settings, rows = {
        "sft": (sft, sft.SftConfig, good_rows()), "kto": (kto, kto.KtoConfig, labelled()),
        "dpo": (dpo, dpo.DpoConfig, pairs()),
    }[method]  # fmt: skip
    foreign = [replace(row, vocabulary="of another tokenizer", ref="d_9") for row in rows]
    chosen = settings(output=tmp_path, **{**COMMON, "epochs": 1})
    with pytest.raises(WrongVocabulary, match=f"{method} cannot use this log.*d_9"):
        module.train([*rows[:2], *foreign], tiny.base(), None, chosen)  # type: ignore[operator]
    mostly = module.train([*rows, *foreign[:2]], tiny.base(), None, chosen)  # type: ignore[operator]
    assert mostly.metrics["rows/trained"] == len(rows)
