from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from memkit_train.errors import DataError, Diverged
from memkit_train.learn import lora
from memkit_train.learn.objective import Objective
from memkit_train.learn.seeding import reproducible
from memkit_train.learn.sheets import lay_out
from memkit_train.learn.steps import FixedSteps
from memkit_train.learn.trainer import RowTrainer, training_arguments
from memkit_train.rl.algorithms import ppo
from memkit_train.rows import Row
from tests.train import tiny
from tests.zoo import ZOO, build

WIDE = Objective(clip_low=0.9, clip_high=5.0, dual_clip=None)


def row_trainer(
    folder: Path, objective: Objective, *, rows: Sequence[Row] = tiny.THREE, model: Any = None, **more: Any
) -> RowTrainer:
    budget, head = more.pop("token_budget", 8192), more.pop("value_head", False)
    arguments = training_arguments(folder, learning_rate=1e-2, steps=more.pop("steps", 1), **more)
    source = FixedSteps([rows])
    return RowTrainer(model or tiny.model(), source, objective, arguments, token_budget=budget, value_head=head)


def step_of(trainer: RowTrainer, rows: Sequence[Row] = tiny.THREE) -> tuple[float, torch.Tensor]:
    trainer.model.zero_grad()
    loss = trainer.training_step(trainer.model, {"rows": rows}).item()
    return loss, tiny.gradients(trainer.model)


def twenty_lines(model: Any, parent: Any, rows: Sequence[Row], aim: Objective) -> torch.Tensor:
    """The objective, row by row and without batches."""
    total, tokens, weights = (
        torch.zeros(()),
        sum(r.weight * len(r.completion_ids) for r in rows),
        sum(r.weight for r in rows),
    )
    for row in rows:
        ids = torch.tensor([row.prompt_ids + row.completion_ids])
        at = torch.arange(len(row.prompt_ids) - 1, ids.size(1) - 1)
        every = torch.log_softmax(model(ids).logits[0, at], -1)
        logps, entropy = every[range(len(at)), ids[0, at + 1]], -(every.exp() * every).sum(-1)
        log_ratio = logps - (logps.detach() if row.behaviour_logprobs is None else torch.tensor(row.behaviour_logprobs))
        ratio = (log_ratio.mean() if aim.ratio == "sequence" else log_ratio).exp()
        advantage = torch.tensor(row.advantage)
        clipped = ratio.clamp(1 - aim.clip_low, 1 + aim.clip_high)
        per_token = -torch.min(ratio.clamp(max=aim.dual_clip or math.inf) * advantage, clipped * advantage)
        if aim.surrogate == "truncated":
            per_token = -ratio.clamp(max=1 + aim.clip_high).detach() * advantage * logps
        with torch.no_grad():
            reference = torch.log_softmax(parent(ids).logits[0, at], -1)[range(len(at)), ids[0, at + 1]]
        if aim.surrogate == "likelihood":
            per_token = -advantage * logps
        kl = (reference - logps).exp() - (reference - logps) - 1
        per_token = per_token + aim.kl * (ratio * kl if aim.kl_unbiased else kl)
        per_token = per_token.expand(len(at))
        total = total + row.weight * (
            per_token.sum() / tokens if aim.average == "token" else per_token.mean() / weights
        )
        total = total - aim.entropy * row.weight * entropy.sum() / tokens
    return total


OBJECTIVES = [
    Objective(),
    WIDE,
    Objective(ratio="sequence", average="row", kl=0.05, kl_unbiased=False, entropy=0.01),
    Objective(surrogate="truncated", clip_high=1.0, kl=0.1),
    Objective(clip_low=0.1, clip_high=0.4, dual_clip=2.0, average="row"),
    Objective(surrogate="likelihood"),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("budget", [8192, 12], ids=["one batch", "three batches"])
def test_loss_and_gradient_equal_a_reference_without_batches(objective: Objective, budget: int, tmp_path: Path) -> None:
    rows = (
        tiny.THREE[0],
        replace(tiny.THREE[1], weight=0.5),
        replace(tiny.THREE[2], behaviour_logprobs=None),
        Row((3, 4), (5, 6), (-4.0, -9.0), (0.5, -0.5)),
    )
    parent = tiny.model(tiny.adapter(1)).requires_grad_(False)
    trainer = row_trainer(tmp_path, objective, model=tiny.model(tiny.adapter(1)), token_budget=budget)
    with torch.no_grad():  # the policy has moved away from its parent
        for parameter in lora.trainable(trainer.model).values():
            parameter.mul_(1.2)
    loss, gradient = step_of(trainer, rows)
    trainer.model.zero_grad()
    expected = twenty_lines(trainer.model, parent, rows, objective)
    expected.backward()
    assert loss == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(gradient, tiny.gradients(trainer.model), atol=1e-6)


def padded(rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """As TRL lays rows out: prompts end, and completions begin, at one column."""
    left, right = max(len(row.prompt_ids) for row in rows), max(len(row.completion_ids) for row in rows)

    def fill(of: Sequence[Sequence[float]], width: int, *, before: bool = False) -> torch.Tensor:
        return torch.tensor(
            [[0] * (width - len(v)) * before + [*v] + [0] * (width - len(v)) * (not before) for v in of]
        )

    prompts, replies = [row.prompt_ids for row in rows], [row.completion_ids for row in rows]
    return {
        "prompt_ids": fill(prompts, left, before=True),
        "prompt_mask": fill([[1] * len(one) for one in prompts], left, before=True),
        "completion_ids": fill(replies, right),
        "completion_mask": fill([[1] * len(one) for one in replies], right),
        "advantages": torch.tensor([row.advantage for row in rows]),
        "old_per_token_logps": fill([row.behaviour_logprobs or () for row in rows], right),
        "num_items_in_batch": torch.tensor(sum(map(len, replies))),
    }


@pytest.mark.parametrize(
    ("objective", "theirs"),
    [
        (Objective(clip_high=0.28, dual_clip=None), {"loss_type": "dapo", "epsilon_high": 0.28}),
        (Objective(dual_clip=3.0, kl=0.05, average="row"), {"loss_type": "grpo", "delta": 3.0, "beta": 0.05}),
        (
            Objective(dual_clip=None, kl=0.05, kl_unbiased=False),
            {"loss_type": "dapo", "beta": 0.05, "use_bias_correction_kl": False},
        ),
        (
            Objective(dual_clip=None, ratio="sequence", average="row"),
            {"loss_type": "grpo", "importance_sampling_level": "sequence"},
        ),
        (Objective(surrogate="truncated", clip_high=1.0), {"loss_type": "cispo", "epsilon_high": 2.0}),
        (Objective(dual_clip=None, entropy=0.02), {"loss_type": "dapo", "entropy_coef": 0.02}),
    ],
    ids=["dapo", "grpo+delta+kl", "dapo+k3", "gspo", "cispo", "entropy"],
)
def test_loss_and_gradient_equal_trl(objective: Objective, theirs: dict[str, Any], tmp_path: Path) -> None:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=3,
        num_generations=3,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        max_completion_length=8,
        report_to="none",
        **theirs,
    )
    tokenizer = AutoTokenizer.from_pretrained(tiny.base())
    grpo = GRPOTrainer(
        tiny.model(tiny.adapter(1)),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * 3),
        processing_class=tokenizer,
    )
    grpo.current_gradient_accumulation_steps = 1
    ours = row_trainer(tmp_path, objective, model=tiny.model(tiny.adapter(1)))
    with torch.no_grad():
        for left, right in zip(lora.trainable(grpo.model).values(), lora.trainable(ours.model).values(), strict=True):
            left.mul_(1.2)
            right.mul_(1.2)
    (batch,) = map(ours._collate, lay_out(tiny.THREE, tokens=8192, scored=8192))
    inputs = padded(tiny.THREE)
    with torch.no_grad(), ours._as_parent(ours.model):
        reference = ours._score(ours.model, batch)[0]
    by_length = {int(mask.sum()): line for mask, line in zip(batch["mask"], reference, strict=True)}
    inputs["ref_per_token_logps"] = torch.stack([by_length[len(row.completion_ids)] for row in tiny.THREE])
    grpo.model.train()
    expected = grpo._compute_loss(grpo.model, inputs)
    expected.backward()
    loss, gradient = step_of(ours)
    theirs_gradient = tiny.gradients(grpo.model)
    assert loss == pytest.approx(expected.item(), abs=1e-6)
    assert theirs_gradient.abs().max() > 1e-3
    assert torch.allclose(gradient, theirs_gradient, atol=1e-6)


def test_parent_is_the_reference_and_comes_back_unharmed(tmp_path: Path) -> None:
    trainer = row_trainer(tmp_path, Objective(kl=1.0), model=tiny.model(tiny.adapter(1)))
    step_of(trainer)
    total, count = trainer._sums["kl"]
    assert total / count == pytest.approx(0.0, abs=1e-6)  # untrained: the policy is its parent
    before = {name: tensor.clone() for name, tensor in lora.trainable(trainer.model).items()}
    with torch.no_grad():
        for parameter in lora.trainable(trainer.model).values():
            parameter.mul_(1.3)
    moved = {name: tensor.clone() for name, tensor in lora.trainable(trainer.model).items()}
    with trainer._as_parent(trainer.model):
        assert all(torch.equal(tensor, before[name]) for name, tensor in lora.trainable(trainer.model).items())
    assert all(torch.equal(tensor, moved[name]) for name, tensor in lora.trainable(trainer.model).items())


def test_ratio_is_one_without_logged_logprobs(tmp_path: Path) -> None:
    """Then the step is plain weighted likelihood: loss -advantage, gradient that of -advantage * log p."""
    rows = [replace(row, behaviour_logprobs=None, advantage=1.0) for row in tiny.THREE]
    loss, gradient = step_of(row_trainer(tmp_path, Objective(), model=tiny.model(tiny.adapter(1))), rows)
    assert loss == pytest.approx(-1.0)
    assert gradient.abs().max() > 1e-3


def test_weights_are_relative_and_zero_leaves_a_row_out(tmp_path: Path) -> None:
    trainer = row_trainer(tmp_path, WIDE, model=tiny.model(tiny.adapter(1)))
    alone, gradient = step_of(trainer, tiny.THREE[:1])
    weighted, same = step_of(
        trainer, [replace(tiny.THREE[0], weight=5.0), *(replace(r, weight=0.0) for r in tiny.THREE[1:])]
    )
    assert weighted == pytest.approx(alone, abs=1e-6)
    assert torch.allclose(gradient, same, atol=1e-6)


def test_sheets_hold_every_row_once_within_the_budget() -> None:
    rows = [Row((1,) * (1 + n % 37), (2,) * (1 + n % 11), None, float(n)) for n in range(100)]
    sheets = lay_out(rows, tokens=200, scored=50, most=7)
    assert sorted(row.advantage for one in sheets for row in one.rows) == sorted(row.advantage for row in rows)
    for one in sheets:
        assert len(one.ids) <= 200
        assert sum(len(row.completion_ids) for row in one.rows) <= 50
        assert len(one.rows) <= 7
    (alone,) = lay_out([Row((1,) * 500, (2,), None, 1.0)], tokens=200, scored=1)
    assert len(alone.ids) == 501


@pytest.mark.parametrize("name", ["qwen2", "llama3", "gemma3"])
def test_what_rows_share_is_read_once_and_the_gradient_is_that_of_each_alone(name: str, tmp_path: Path) -> None:
    """Gemma sees 96 tokens far in every other layer, and the prompts are longer."""
    from transformers import AutoModelForCausalLM

    base = build(ZOO[name], tmp_path / "base", talkative=True)
    lone, shared = (lora.attach(AutoModelForCausalLM.from_pretrained(base), tiny.SPEC) for _ in range(2))
    noise = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for one, other in zip(lora.trainable(lone).values(), lora.trainable(shared).values(), strict=True):
            one.copy_(torch.randn(one.shape, generator=noise) * 0.05)
            other.copy_(one)

    def drawn(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(300, 800, (count,), generator=noise).tolist())

    role = drawn(60)
    prompts = [role + drawn(60), role + drawn(75)]
    rows = [Row(prompt, drawn(3 + n), None, 1.0 - n / 3) for prompt in prompts for n in range(8)]
    trainer = row_trainer(tmp_path, WIDE, model=shared)
    _, gradient = step_of(trainer, rows)
    assert trainer._sums["sheet_tokens"][0] * 5 <= sum(row.tokens for row in rows)
    parent = lora.attach(AutoModelForCausalLM.from_pretrained(base), tiny.SPEC).requires_grad_(False)
    twenty_lines(lone, parent, rows, WIDE).backward()
    assert (gradient - tiny.gradients(lone)).abs().max() <= 1e-6
    assert gradient.abs().max() > 1e-4


def test_training_raises_what_was_better_and_logs_by_role(tmp_path: Path) -> None:
    good, bad = Row((5, 6, 7), (8, 9), None, 1.0), Row((5, 6, 7), (10, 11), None, -1.0, role="extractor")
    trainer = RowTrainer(
        tiny.model(),
        FixedSteps([[good, bad]] * 8),
        Objective(),
        training_arguments(tmp_path, learning_rate=1e-2, steps=8),
    )
    (batch,) = map(trainer._collate, lay_out([good, bad], tokens=100, scored=100))
    with torch.no_grad():
        before = trainer._score(trainer.model, batch)[0].sum(-1)
    trainer.train()
    with torch.no_grad():
        after = trainer._score(trainer.model, batch)[0].sum(-1)
    assert after[0] > before[0]
    assert after[1] < before[1]
    logged = trainer.state.log_history[0]
    assert {
        "loss",
        "grad_norm",
        "entropy",
        "clip_ratio/low_mean",
        "clip_ratio/high_mean",
        "completions/mean_length",
        "num_tokens",
        "manager/entropy",
        "extractor/entropy",
    } <= set(logged)
    assert trainer.state.log_history[-2]["num_tokens"] == 8 * (good.tokens + bad.tokens)


def test_a_row_that_stands_for_several_counts_as_so_many_in_the_metrics(tmp_path: Path) -> None:
    rows = [Row((5,), (6, 7), None, 1.0, weight=7.0), Row((5,), tuple(range(8, 28)), None, -1.0)]
    trainer = RowTrainer(
        tiny.model(), FixedSteps([rows]), Objective(), training_arguments(tmp_path, learning_rate=1e-3, steps=1)
    )
    trainer.train()
    assert trainer.state.log_history[0]["completions/mean_length"] == pytest.approx((7 * 2 + 20) / 8)


def test_value_head_learns_the_return_of_each_state(tmp_path: Path) -> None:
    rows = [
        Row((5, 6, 7), (8,), None, 0.0, ret=1.0),
        Row((30, 31), (8,), None, 0.0, ret=-1.0),
        Row((3,), (4,), None, 0.0),
    ]
    trainer = RowTrainer(
        tiny.model(),
        FixedSteps([rows] * 40),
        ppo.OBJECTIVE,
        training_arguments(tmp_path, learning_rate=2e-2, steps=40, lr_scheduler_type="constant"),
        value_head=True,
    )
    assert trainer.predict_values([(5, 6, 7)]) == [0.0]
    trainer.train()
    first, second = trainer.predict_values([(5, 6, 7), (30, 31)])
    assert first == pytest.approx(1.0, abs=0.15)
    assert second == pytest.approx(-1.0, abs=0.15)
    lora.save(trainer.model, tmp_path / "adapter")  # the critic is no part of the adapter
    tiny.model(tmp_path / "adapter")


@pytest.mark.parametrize("value_head", [False, True])
def test_a_resumed_run_ends_in_the_same_bytes(value_head: bool, tmp_path: Path) -> None:
    rows = [replace(row, ret=0.5) for row in tiny.THREE]

    def run(folder: Path, *, resume: bool | str = False, stop: int = 0) -> str:
        source = FixedSteps([rows[:2], rows[1:], rows[::2]] * 2)
        with reproducible(3):
            trainer = RowTrainer(
                tiny.model(seed=3),
                source,
                Objective(kl=0.1),
                training_arguments(folder, learning_rate=1e-2, steps=len(source), save_strategy="steps", save_steps=2),
                value_head=value_head,
            )
            if stop:
                source.rows = _failing(source.rows, stop)  # type: ignore[method-assign]
                with pytest.raises(RuntimeError, match="power cut"):
                    trainer.train()
                return ""
            trainer.train(resume_from_checkpoint=resume)
            return lora.save(trainer.model, folder / "adapter")

    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", stop=5)
    assert run(tmp_path / "cut", resume=True) == whole
    source = FixedSteps([rows[:2], rows[2:]] * 4)
    changed = RowTrainer(
        tiny.model(),
        source,
        Objective(),
        training_arguments(tmp_path / "cut", learning_rate=1e-2, steps=6),
        value_head=value_head,
    )
    with pytest.raises(DataError, match="other rows"):
        changed.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-4"))


def _failing(rows: Any, at: int) -> Any:
    def fetch(step: int) -> Any:
        if step == at:
            raise RuntimeError("power cut")
        return rows(step)

    return fetch


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    trainer = row_trainer(tmp_path, Objective())
    with torch.no_grad():
        next(iter(lora.trainable(trainer.model).values())).fill_(math.nan)
    with pytest.raises(Diverged):
        step_of(trainer)


def test_an_empty_step_changes_nothing(tmp_path: Path) -> None:
    trainer = RowTrainer(
        tiny.model(),
        FixedSteps([[], tiny.THREE, []]),
        Objective(),
        training_arguments(tmp_path, learning_rate=1e-2, steps=3),
    )
    trainer.train()
    assert trainer.state.global_step == 3
