"""KTO: learn from single decisions that were good or bad, without pairs. The natural form of thumbs.

    result = kto.train(labelled_rows, "path/to/base", None, KtoConfig(output="run"))

Text that a hosted model wrote, with its reward, is read by the tokenizer of the model to be trained.
Runs on TRL's KTOTrainer; the reference is the parent adapter (or the bare base). The rarer label is weighted up to the
paper's balance. The learning rate is the danger: a few times the default and the model forgets the reply format, so
the gate's check of format validity is not optional after this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset
from transformers import TrainerCallback
from trl import KTOConfig as TrlConfig
from trl import KTOTrainer

from memkit_train.errors import NoRows, NoSignal
from memkit_train.methods.exact_ids import asked, id_tokenizer, replied
from memkit_train.methods.run import (
    AdapterResult,
    RunConfig,
    drawn,
    fit,
    fitting,
    in_order,
    passes,
    readable,
    setup,
    short,
    stock_arguments,
)
from memkit_train.methods.texts import token_rows
from memkit_train.rows import LabelledRow, TextRow
from memkit_train.trajectories.rows import labelled


@dataclass(frozen=True, slots=True, kw_only=True)
class KtoConfig(RunConfig):
    lr: float = 1e-4
    batch: int = 32
    beta: float = 0.1
    """Pull towards the parent."""


def train(
    dataset: Iterable[LabelledRow | TextRow],
    base: Path | str,
    parent: Path | str | None,
    config: KtoConfig,
    *,
    planted: Iterable[LabelledRow] = (),
    callbacks: Sequence[TrainerCallback] = (),
) -> AdapterResult:
    with setup(base, parent, config) as made:
        logged = list(dataset)
        texts = [row for row in logged if isinstance(row, TextRow)]
        given = [row for row in logged if isinstance(row, LabelledRow)]
        given += labelled(token_rows(texts, made))
        rows = [row for row in fitting(given, made, "kto") if short(row, made)]
        good = sum(row.label for row in rows)
        bad = len(rows) - good
        if not rows:
            raise NoRows("kto has no rows to learn from", why=f"{len(given)} were given", fix="look at the labels")
        if not good or not bad:
            raise NoSignal(
                f"all {len(rows)} rows are labelled {'good' if good else 'bad'}",
                why="KTO learns from the contrast",
                fix="use sft on good rows alone, or collect negative feedback",
            )
        secrets = readable(list(planted), lambda row: short(row, made))
        weights = [row.weight for row in rows]
        ordered = in_order(rows, weights, epochs=passes(config, drawn(weights)), seed=config.seed, planted=secrets)
        trainer = KTOTrainer(
            model=made.model,
            args=TrlConfig(
                **stock_arguments(config, ordered), beta=config.beta,
                desirable_weight=max(1.0, bad / good), undesirable_weight=max(1.0, good / bad),
            ),
            train_dataset=Dataset.from_list([
                {"prompt": asked(row.prompt_ids), "completion": replied(row.completion_ids), "label": row.label}
                for row in ordered
            ]),
            processing_class=id_tokenizer(
                made.vocab_size, pad_id=made.tokenizer.pad_token_id or 0, end_id=made.tokenizer.eos_token_id
            ),
        )  # fmt: skip
        counts = {
            "given": len(given), "too_long": len(given) - len(rows), "good": good, "bad": bad, "planted": len(secrets),
            "trained": len(ordered),
        }  # fmt: skip
        return fit(trainer, made, config, ordered, counts, callbacks)
