"""DPO with an SFT term: of two decisions in one state, the better one. Pairs come from replayed probes.

    result = dpo.train(pairs, "path/to/base", None, DpoConfig(output="run"))

Text that a hosted model wrote, with its reward, is read by the tokenizer of the model to be trained, and paired then.
Runs on TRL's DPOTrainer with loss_type ["sigmoid", "sft"]; the reference is the parent adapter (or the bare base). The
SFT term matters: plain DPO lowers the chosen reply too, as long as the rejected one falls faster, and at a high
learning rate that ends the reply format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset
from transformers import TrainerCallback
from trl import DPOConfig as TrlConfig
from trl import DPOTrainer

from memkit_train.errors import NoRows
from memkit_train.methods.exact_ids import asked, id_tokenizer, replied
from memkit_train.methods.run import (
    AdapterResult,
    RunConfig,
    Setup,
    drawn,
    fit,
    fitting,
    in_order,
    passes,
    readable,
    setup,
    stock_arguments,
)
from memkit_train.methods.texts import token_rows
from memkit_train.rows import PreferencePair, TextRow
from memkit_train.trajectories.rows import pairs as paired


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoConfig(RunConfig):
    lr: float = 2e-4
    batch: int = 16
    beta: float = 0.1
    sft_weight: float = 1.0
    """0: plain DPO."""


def train(
    dataset: Iterable[PreferencePair | TextRow],
    base: Path | str,
    parent: Path | str | None,
    config: DpoConfig,
    *,
    planted: Iterable[PreferencePair] = (),
    callbacks: Sequence[TrainerCallback] = (),
) -> AdapterResult:
    with setup(base, parent, config) as made:
        logged = list(dataset)
        texts = [row for row in logged if isinstance(row, TextRow)]
        given = [row for row in logged if isinstance(row, PreferencePair)]
        given += paired(token_rows(texts, made))
        pairs = [pair for pair in fitting(given, made, "dpo") if _short(pair, made)]
        if not pairs:
            raise NoRows(
                "dpo has no pairs to learn from",
                why=f"{len(given)} were given, none fits in {made.max_tokens} tokens" if given else "none were given",
                fix="pairs come from probes with differing scores; collect `expected` answers, or use sft or kto",
            )
        secrets = readable(list(planted), lambda pair: _short(pair, made))
        weights = [pair.weight for pair in pairs]
        ordered = in_order(pairs, weights, epochs=passes(config, drawn(weights)), seed=config.seed, planted=secrets)
        losses = {"sigmoid": 1.0, **({"sft": config.sft_weight} if config.sft_weight else {})}
        trainer = DPOTrainer(
            model=made.model,
            args=TrlConfig(
                **stock_arguments(config, ordered), beta=config.beta,
                loss_type=list(losses), loss_weights=list(losses.values()),
            ),
            train_dataset=Dataset.from_list([
                {"prompt": asked(pair.prompt_ids), "chosen": replied(pair.chosen_ids),
                 "rejected": replied(pair.rejected_ids)}
                for pair in ordered
            ]),
            processing_class=id_tokenizer(
                made.vocab_size, pad_id=made.tokenizer.pad_token_id or 0, end_id=made.tokenizer.eos_token_id
            ),
        )  # fmt: skip
        counts = {
            "given": len(given), "too_long": len(given) - len(pairs), "planted": len(secrets), "trained": len(ordered)
        }  # fmt: skip
        return fit(trainer, made, config, ordered, counts, callbacks)


def _short(pair: PreferencePair, made: Setup) -> bool:
    return len(pair.prompt_ids) + max(len(pair.chosen_ids), len(pair.rejected_ids)) <= made.max_tokens
