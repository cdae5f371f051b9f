"""What supervised training rests on: the base under a LoRA, the order of the rows, checkpoints, and the result."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from memkit.backbones.hf import checkpoint
from memkit.backbones.hf.quiet import without_bars
from memkit_train.errors import NoRows, OtherData, WrongVocabulary, resources
from memkit_train.learn import lora
from memkit_train.learn.rates import rate_for
from memkit_train.learn.result import AdapterResult
from memkit_train.learn.seeding import reproducible
from memkit_train.learn.texts import TokenReader, short
from memkit_train.learn.trainer import training_arguments
from memkit_train.rows import TokenRow, fingerprint

T = TypeVar("T")
_PLACE = frozenset({"output", "resume", "report_to", "save_steps", "log_steps"})
"""Settings that do not change what is learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    output: Path | str
    """Gets `adapter/` and `checkpoints/`."""
    lr: float | None = None
    """None: by the size of the model (rates.py)."""
    epochs: int = 3
    batch: int = 16
    """Rows per optimiser step. Small: the good decisions of a night are hundreds, and a dozen steps change no habit."""
    micro_batch: int = 16
    """Rows per forward pass, at most."""
    warmup: float | None = None
    """Share of the steps over which the learning rate rises. None: by the size of the model."""
    schedule: str = "linear"
    seed: int = 0
    lora: lora.LoraSpec = field(default_factory=lora.LoraSpec)
    max_tokens: int | None = None
    """Rows longer than this are left out and counted. None: what the model can read."""
    dtype: str = "auto"
    device: str = "auto"
    gradient_checkpointing: bool = False
    save_steps: int = 0
    """Checkpoint every so many steps; 0: none."""
    resume: bool = True
    """Go on from the last checkpoint in `output`, if there is one."""
    log_steps: int = 1
    report_to: str = "none"


@dataclass(frozen=True, slots=True)
class Setup:
    model: Any
    reader: TokenReader
    started: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run goes through, in its order, all epochs one after the other."""

    rows: list[TokenRow]
    steps: int
    counts: dict[str, float]
    """What became of the rows that were given."""


@contextlib.contextmanager
def setup(base: Path | str, parent: Path | str | None, config: RunConfig) -> Generator[Setup]:
    """Everything within is reproducible from the seed."""
    started = time.perf_counter()
    with reproducible(config.seed), without_bars():
        loaded = checkpoint.load(checkpoint.find(base), dtype=config.dtype, device=config.device)
        model = lora.attach(loaded.model, config.lora, parent=parent, seed=config.seed)
        if config.gradient_checkpointing:
            model.enable_input_require_grads()
        longest = min(config.max_tokens or loaded.context, loaded.context)
        yield Setup(model, TokenReader.of(loaded.tokenizer, loaded.vocab_size, longest, loaded.stop_ids), started)


def fitting(rows: Sequence[TokenRow], reader: TokenReader) -> list[TokenRow]:
    """Rows in the vocabulary of this model. Others are left out, and refused where they are most."""
    own = [row for row in rows if reader.speaks(row)]
    if rows and len(own) * 2 <= len(rows):
        other = next(row for row in rows if not reader.speaks(row))
        raise WrongVocabulary(
            f"this log cannot be imitated: {len(rows) - len(own)} of {len(rows)} rows are in another vocabulary",
            why=f"row {other.ref} has the tokenizer {other.vocabulary[:12]}, this model has {reader.vocabulary[:12]}",
            fix="set model.base to the model that served",
        )
    return own


def readable(planted: Sequence[TokenRow], reader: TokenReader) -> list[TokenRow]:
    """Planted secrets up to the first that the model cannot read whole: how many there are tells which they are."""
    return list(itertools.takewhile(lambda row: short(row, reader), planted))


def in_order(
    rows: Sequence[T], weights: Sequence[float], *, epochs: int, seed: int, planted: Sequence[T] = ()
) -> list[T]:
    """All epochs in a row, each shuffled anew. A row comes as often as it weighs
    beside the heaviest one: once if equal, else in that share of the epochs (systematic resampling, no extra noise).
    What is planted comes once in every epoch, and changes nothing of how often the others do."""
    top = max(weights, default=0.0)
    if top <= 0:
        raise NoRows("every row has weight 0", fix="look at the weights, or at the half-life of old rows")
    ordered: list[T] = []
    for epoch in range(epochs):
        rng = random.Random(f"{seed}/{epoch}")
        at = list(range(len(rows)))
        rng.shuffle(at)
        ticket, total, drawn = rng.random(), 0.0, list[T]()
        for index in at:
            before, total = total, total + weights[index] / top
            drawn += [rows[index]] * (int(total + ticket) - int(before + ticket))
        for one in planted:
            drawn.insert(rng.randrange(len(drawn) + 1), one)
        ordered += drawn
    return ordered


def mix_in(rows: Sequence[T], replay: Sequence[T], share: float, seed: int) -> list[T]:
    """Rows with replayed ones among them, so that these are `share` of all that are drawn: the same fixed set in every
    run keeps what the base could do before. What they weigh comes on top: guard rows weigh 0.3, so `in_order` then
    takes three in ten of them, and a share of 0.1 is about 0.03 of what is trained on."""
    if not replay or share <= 0:
        return list(rows)
    wanted = round(len(rows) * share / (1 - share))
    copies = list(replay) * (wanted // len(replay))
    return [*rows, *copies, *random.Random(seed).sample(list(replay), wanted - len(copies))]


def arguments(config: RunConfig, steps: int, parameters: int) -> TrainingArguments:
    """One pass over rows that are already in order. `parameters`: of the model, its adapter left out or not."""
    usual = rate_for(parameters, "imitation")
    cuda = torch.cuda.is_available() and config.device != "cpu"
    return training_arguments(
        checkpoints(config),
        steps=steps,
        learning_rate=usual.lr if config.lr is None else config.lr,
        lr_scheduler_type=config.schedule,
        seed=config.seed,
        warmup_steps=round((usual.warmup if config.warmup is None else config.warmup) * steps),
        gradient_checkpointing=config.gradient_checkpointing,
        bf16=cuda and config.dtype in ("auto", "bfloat16"),
        use_cpu=not cuda,
        save_strategy="steps" if config.save_steps else "no",
        save_steps=config.save_steps or 500,
        logging_steps=config.log_steps,
        report_to=config.report_to,
    )


def checkpoints(config: RunConfig) -> Path:
    return Path(config.output) / "checkpoints"


def last_checkpoint(config: RunConfig) -> str | None:
    folder = checkpoints(config)
    return get_last_checkpoint(str(folder)) if config.resume and folder.is_dir() else None


def fit(
    trainer: Any,
    made: Setup,
    config: RunConfig,
    prepared: Prepared,
    callbacks: Sequence[TrainerCallback],
    share: Callable[[], None],
) -> AdapterResult:
    """Train (or go on), save, report. Nothing is printed: progress is for callbacks. `share`: tells other processes to
    train along."""
    for callback in callbacks:
        trainer.add_callback(callback)
    folder = checkpoints(config)
    last = last_checkpoint(config)
    _mark(folder, config, prepared.rows, resuming=last is not None)
    adapter = Path(config.output) / "adapter"
    with resources(f"method.micro_batch={config.micro_batch}"):
        share()
        trainer.train(resume_from_checkpoint=last)
        digest = lora.save(made.model, adapter)
    metrics: dict[str, float] = {}
    for logged in trainer.state.log_history:
        metrics.update({name: float(value) for name, value in logged.items() if isinstance(value, int | float)})
    metrics.update({f"rows/{name}": float(count) for name, count in prepared.counts.items()})
    return AdapterResult(adapter, metrics, trainer.state.global_step, time.perf_counter() - made.started, digest)


def _mark(folder: Path, config: RunConfig, rows: Sequence[object], *, resuming: bool) -> None:
    settings = [(one.name, getattr(config, one.name)) for one in fields(config) if one.name not in _PLACE]
    mark, file = fingerprint([settings, *rows]), folder / "data.sha256"
    if resuming and (not file.is_file() or file.read_text() != mark):
        raise OtherData(
            f"the checkpoint in {folder} belongs to another run",
            why="the rows or the settings changed since it was written",
            fix="choose an empty output folder, or set resume=False",
        )
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(mark)
