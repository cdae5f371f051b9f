"""`RowTrainer`: policy-gradient training on any number of rows per optimiser step, inside transformers' own loop.

TRL's GRPOTrainer wants a fixed number of rows per step and generates them itself. Memory episodes give as many rows as
there were decisions, some from logs with the log-probs of the policy that acted, so here a step is whatever its source
returns: it is laid out on sheets (sheets.py), on which rows that begin alike share what they begin with, and summed to
exactly one gradient. Where both can say the same, the loss equals TRL's; a test holds it to that.

    source = FixedSteps([rows])                     # or an online source, see steps.py
    trainer = RowTrainer(model, source, grpo.OBJECTIVE, training_arguments(folder, steps=10, learning_rate=1e-3))
    trainer.train()

The reference of the KL term is the model as it was given (the parent adapter, or the bare base), kept as a copy of the
trainable tensors. Several processes (`torchrun`) must be given the same rows; they share the sheets.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from memkit.backbones.hf.attention import Attention
from memkit_train.errors import Diverged
from memkit_train.learn.lora import trainable
from memkit_train.learn.objective import Objective
from memkit_train.learn.sheets import Sheet, lay_out
from memkit_train.learn.steps import StepSource
from memkit_train.rows import Row

SOURCE_STATE, VALUE_HEAD = "memkit_source.json", "memkit_value_head.safetensors"
TOKENS = 8192
LOGITS = 1 << 27
"""Numbers that the logits of a sheet may have: half a GB, and about twice that again while gradients are computed."""
N = TypeVar("N", int, float)


class RowTrainer(Trainer):
    model: Any

    def __init__(
        self,
        model: Any,
        source: StepSource,
        objective: Objective,
        args: TrainingArguments,
        *,
        token_budget: int = TOKENS,
        most_rows: int | None = None,
        value_head: bool = False,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        for module in model.modules():  # dropout would make log-probs differ from those of serving
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        self.source, self.objective = source, objective
        self._budget, self._most, self._attention = token_budget, most_rows, Attention(model)
        self._vocabulary: int = model.get_output_embeddings().weight.shape[0]
        self._parent = {name: tensor.detach().clone() for name, tensor in trainable(model).items()}
        if value_head:
            device = next(model.parameters()).device
            model.value_head = torch.nn.Linear(model.config.get_text_config().hidden_size, 1, device=device)
            torch.nn.init.zeros_(model.value_head.weight)
            torch.nn.init.zeros_(model.value_head.bias)
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._tokens_seen = 0
        super().__init__(model=model, args=args, train_dataset=_Steps(source), callbacks=[_Extras(self), *callbacks])
        self.remove_callback(PrinterCallback)

    def record(self, name: str, value: float, count: float = 1.0) -> None:
        """Add to a metric; its mean since the last log is logged. For sources: rewards, group counts, times."""
        total = self._sums[name]
        total[0] += value * count
        total[1] += count

    @torch.no_grad()
    def predict_values(self, prompts: Sequence[tuple[int, ...]]) -> list[float]:
        """What the value head expects of each state."""
        self.model.eval()
        found: list[float] = []
        for prompt in prompts:
            ids = torch.tensor([prompt], device=self.args.device)
            hidden = self.model(input_ids=ids, output_hidden_states=True, logits_to_keep=1).hidden_states[-1]
            found.append(self.model.value_head(hidden[:, -1].float()).item())
        return found

    def get_train_dataloader(self) -> DataLoader:
        """Never sharded, never ahead of the weights: every process is asked for the same step when it comes."""
        steps: Any = self.train_dataset
        return DataLoader(steps, batch_size=1, shuffle=False, collate_fn=lambda items: {"rows": items[0]})

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        model.train()
        rows: Sequence[Row] = inputs["rows"]
        total: Any = torch.zeros((), device=self.args.device)
        if not rows:
            return total
        tokens = sum(row.weight * len(row.completion_ids) for row in rows)
        scale = {"token": tokens, "row": sum(row.weight for row in rows), "valued": _valued(rows)}
        scored = max(1, LOGITS // self._vocabulary)
        sheets = lay_out(rows, tokens=self._budget, scored=scored, most=self._most)
        self.record("sheet_tokens", float(sum(len(sheet.ids) for sheet in sheets)))
        batches = [self._collate(sheet, idle=idle) for sheet, idle in self._own_share(sheets)]
        if self.objective.kl:
            with torch.no_grad(), self._as_parent(model):
                for batch in batches:
                    batch["reference"] = self._score(model, batch)[0]
        for number, batch in enumerate(batches, 1):
            sync = contextlib.nullcontext() if number == len(batches) else self.accelerator.no_sync(model)
            with sync:
                with self.compute_loss_context_manager():
                    loss = self._loss(model, batch, scale)
                self.accelerator.backward(loss * self.accelerator.num_processes)
            total += loss.detach()
        if self.accelerator.num_processes > 1:  # so that all of them see what one of them saw
            total = self.accelerator.reduce(total, "sum")
        if not math.isfinite(total.item()):
            raise Diverged(
                f"the loss became {total.item()} in step {self.state.global_step}",
                why="the learning rate is too high, or logged log-probs do not belong to these ids",
                fix="lower the learning rate, or go back to the last checkpoint",
            )
        self._tokens_seen += sum(row.tokens for row in rows)
        return total

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        means = {name: total / count for name, (total, count) in self._sums.items() if count}
        if "loss" in logs:
            means["num_tokens"] = float(self._tokens_seen)
        self._sums.clear()
        super().log({**logs, **means}, start_time)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        return 0  # the estimate of the base class knows `input_ids` only

    def _loss(self, model: Any, batch: dict[str, Any], scale: dict[str, float]) -> torch.Tensor:
        aim, mask, weight, advantage = self.objective, batch["mask"], batch["weight"], batch["advantage"]
        logps, entropy, values = self._score(model, batch)
        behaviour = torch.where(batch["logged"], batch["behaviour"], logps.detach())
        log_ratio = ((logps - behaviour) * mask).clamp(-20.0, 20.0)
        lengths = mask.sum(-1, keepdim=True)
        if aim.ratio == "sequence":
            log_ratio = log_ratio.sum(-1, keepdim=True) / lengths
        ratio = log_ratio.exp()
        if aim.surrogate == "likelihood":
            per_token = -advantage * logps
        elif aim.surrogate == "truncated":
            per_token = -ratio.clamp(max=1 + aim.clip_high).detach() * advantage * logps
        else:
            bounded = ratio if aim.dual_clip is None else ratio.clamp(max=aim.dual_clip)
            clipped = ratio.clamp(1 - aim.clip_low, 1 + aim.clip_high)
            per_token = -torch.min(bounded * advantage, clipped * advantage)
        if aim.kl:
            difference = batch["reference"] - logps
            kl = difference.exp() - difference - 1
            per_token = per_token + aim.kl * (kl * ratio if aim.kl_unbiased else kl)
            self._measure(batch, "kl", kl)
        self._measure(batch, "entropy", entropy)
        if aim.surrogate != "likelihood":
            self._measure(batch, "clip_ratio/low_mean", (ratio < 1 - aim.clip_low) & (advantage < 0))
            self._measure(batch, "clip_ratio/high_mean", (ratio > 1 + aim.clip_high) & (advantage > 0))
        if count := weight.sum().item():
            self.record("completions/mean_length", (lengths * weight).sum().item() / count, count)
        if aim.average == "token":
            loss = (per_token * mask * weight).sum() / scale["token"]
        else:
            loss = ((per_token * mask).sum(-1, keepdim=True) / lengths * weight).sum() / scale["row"]
        if aim.entropy:
            loss = loss - aim.entropy * (entropy * mask * weight).sum() / scale["token"]
        if values is not None:
            error = torch.where(batch["valued"], (values - batch["return"]) ** 2, 0.0) * weight[:, 0]
            loss = loss + aim.value * error.sum() / max(scale["valued"], 1e-9)
            if count := (weight[:, 0] * batch["valued"]).sum().item():
                self.record("value/loss", error.sum().item() / count, count)
        return loss

    def _score(self, model: Any, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Raw log-probs and entropies of the completion tokens, and values of the prompts."""
        head = getattr(self.accelerator.unwrap_model(model), "value_head", None)
        output = model(
            input_ids=batch["ids"],
            attention_mask=batch["attention"],
            position_ids=batch["positions"],
            logits_to_keep=batch["keep"],
            use_cache=False,
            output_hidden_states=head is not None,
        )
        logits = output.logits[0].float()
        total = logits.logsumexp(-1)
        with contextlib.nullcontext() if self.objective.entropy else torch.no_grad():
            entropy = entropy_of(logits, total)
        logps = (logits[batch["at"], batch["targets"]] - total[batch["at"]]) * batch["mask"]
        entropies = entropy[batch["at"]] * batch["mask"]
        if head is None:
            return logps, entropies, None
        return logps, entropies, head(output.hidden_states[-1][0, batch["ends"]].float())[:, 0]

    def _collate(self, sheet: Sheet, *, idle: bool = False) -> dict[str, Any]:
        """The sheet as one sequence, and for each row the places that its completion is read from. `idle`: it counts
        for nothing."""
        rows = [_weightless(row) for row in sheet.rows] if idle else sheet.rows
        after = max(len(row.completion_ids) for row in rows)
        read = [path[len(row.prompt_ids) - 1 : row.tokens - 1] for path, row in zip(sheet.paths, rows, strict=True)]
        keep = sorted({place for places in read for place in places})
        where = {place: at for at, place in enumerate(keep)}
        positions = torch.tensor([sheet.positions])
        device = self.args.device
        attention = self._attention.masks(
            sheet.visible().unsqueeze(0).to(device), (positions.unsqueeze(-1) - positions.unsqueeze(-2)).to(device)
        )
        advantages = [
            _padded(row.advantage, after) if isinstance(row.advantage, tuple) else [row.advantage] * after
            for row in rows
        ]
        batch: dict[str, Any] = {
            "ids": torch.tensor([sheet.ids]),
            "positions": positions,
            "keep": torch.tensor(keep),
            "at": torch.tensor([_padded([where[place] for place in places], after) for places in read]),
            "targets": torch.tensor([_padded(row.completion_ids, after) for row in rows]),
            "ends": torch.tensor([places[0] for places in read]),
            "mask": torch.tensor([_padded([1.0] * len(places), after) for places in read]),
            "behaviour": torch.tensor([_padded(row.behaviour_logprobs or (), after, 0.0) for row in rows]),
            "logged": torch.tensor([[row.behaviour_logprobs is not None] for row in rows]),
            "advantage": torch.tensor(advantages),
            "weight": torch.tensor([[row.weight] for row in rows]),
            "return": torch.tensor([row.ret or 0.0 for row in rows]),
            "valued": torch.tensor([row.ret is not None for row in rows]),
        }
        batch = {name: tensor.to(device) for name, tensor in batch.items()} | {"attention": attention}
        roles = {row.role for row in rows}
        batch["roles"] = {role: [at for at, row in enumerate(rows) if row.role == role] for role in roles}
        return batch

    def _own_share(self, sheets: list[Sheet]) -> list[tuple[Sheet, bool]]:
        """As many sheets for each process, because all must meet in every forward pass: spare ones are idle."""
        count = self.accelerator.num_processes
        shared = [(sheet, False) for sheet in sheets] + [(sheets[0], True)] * (-len(sheets) % count)
        return shared[self.accelerator.process_index :: count]

    @contextlib.contextmanager
    def _as_parent(self, model: Any) -> Generator[None]:
        parameters = dict(self.accelerator.unwrap_model(model).named_parameters())
        swapped = [(parameters[name], tensor.to(parameters[name].device)) for name, tensor in self._parent.items()]
        kept = [parameter.data for parameter, _ in swapped]
        try:
            for parameter, tensor in swapped:
                parameter.data = tensor
            yield
        finally:
            for (parameter, _), tensor in zip(swapped, kept, strict=True):
                parameter.data = tensor

    def _measure(self, batch: dict[str, Any], name: str, per_token: torch.Tensor) -> None:
        """Token means, over everything and by role; a row that stands for several counts as so many."""
        counted = batch["mask"] * batch["weight"]
        values = per_token.detach().float().expand_as(counted) * counted
        for where, at in (("", slice(None)), *((f"{role}/", rows) for role, rows in batch["roles"].items())):
            if count := counted[at].sum().item():
                self.record(f"{where}{name}", values[at].sum().item() / count, count)


class _Steps(Dataset[Any]):
    def __init__(self, source: StepSource) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, step: int) -> Sequence[Row]:
        return self._source.rows(step)


class _Extras(TrainerCallback):
    """What the base class leaves out of a checkpoint: the source's state, counters and the value head."""

    def __init__(self, trainer: RowTrainer) -> None:
        self._trainer = trainer

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        folder, trainer = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}", self._trainer
        if not args.should_save:
            return
        kept = {"source": trainer.source.state(), "tokens": trainer._tokens_seen}
        (folder / SOURCE_STATE).write_text(json.dumps(kept))
        head = getattr(trainer.accelerator.unwrap_model(trainer.model), "value_head", None)
        if head is not None:
            save_file(head.state_dict(), folder / VALUE_HEAD)

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        folder, trainer = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}", self._trainer
        if not state.global_step:
            return
        kept = json.loads((folder / SOURCE_STATE).read_text())
        trainer.source.restore(kept["source"])
        trainer._tokens_seen = kept["tokens"]
        head = getattr(trainer.accelerator.unwrap_model(trainer.model), "value_head", None)
        if head is not None:
            head.load_state_dict(load_file(folder / VALUE_HEAD))


def training_arguments(folder: Path | str, *, steps: int, learning_rate: float, **more: Any) -> TrainingArguments:
    """transformers' arguments with the defaults that fit `RowTrainer`; anything in `more` goes through as it is."""
    chosen: dict[str, Any] = {
        "learning_rate": learning_rate,
        "max_steps": steps,
        "lr_scheduler_type": "linear",
        "weight_decay": 0.0,
        "per_device_train_batch_size": 1,
        "logging_steps": 1,
        "save_strategy": "no",
        "save_total_limit": 2,
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "logging_nan_inf_filter": False,
        "ddp_find_unused_parameters": False,
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": False,
    }
    return TrainingArguments(output_dir=str(folder), **{**chosen, **more})


def entropy_of(logits: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Of each line of logits whose logarithmic sum is `total`; some lines at a time, as each takes a vocabulary."""
    lines = max(1, LOGITS // 8 // logits.size(-1))
    parts = zip(logits.split(lines), total.split(lines), strict=True)
    return torch.cat([whole - ((part - whole[:, None]).exp() * part).sum(-1) for part, whole in parts])


def _padded(values: Sequence[N], width: int, filling: N | int = 0) -> list[Any]:
    return [*values, *[filling] * (width - len(values))]


def _valued(rows: Sequence[Row]) -> float:
    return sum(row.weight for row in rows if row.ret is not None)


def _weightless(row: Row) -> Row:
    return replace(row, weight=0.0, behaviour_logprobs=None)
