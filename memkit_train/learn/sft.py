"""Rejection SFT: imitate the logged decisions that turned out well.

    result = sft.train(good_rows, "path/to/base", None, SftConfig(output="run"))

The caller rejects: `dataset` holds only what should be repeated, weighted by how sure that is. The loss is on
completion tokens alone, old decisions count less (half after `half_life_days`), and a fixed set of replayed rows
(duplicates and chit-chat answered with NOOP above all: feedback on answers seldom rewards those) keeps old skills.
Planted secrets come once in every epoch. Runs on `RowTrainer` with the logged ids as they are: all decisions of a role
begin with the same instructions, and these are read once for a sheet of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transformers import TrainerCallback

from memkit_train.errors import NoRows
from memkit_train.learn import processes
from memkit_train.learn.objective import Objective
from memkit_train.learn.run import (
    AdapterResult,
    Prepared,
    RunConfig,
    Setup,
    arguments,
    fit,
    fitting,
    in_order,
    last_checkpoint,
    mix_in,
    readable,
    setup,
)
from memkit_train.learn.steps import FixedSteps
from memkit_train.learn.texts import TokenReader, repeatable, short, token_rows
from memkit_train.learn.trainer import RowTrainer
from memkit_train.rows import Row, TextRow, TokenRow

OBJECTIVE = Objective(surrogate="likelihood")


@dataclass(frozen=True, slots=True, kw_only=True)
class SftConfig(RunConfig):
    half_life_days: float | None = 90.0
    """None: age does not matter."""
    replay_share: float = 0.1
    """Of the rows that are drawn, before weights thin them: guard rows weigh 0.3, so at 0.1 they are about 3 % of what
    is trained on."""


def prepare(
    dataset: Iterable[TokenRow | TextRow],
    reader: TokenReader,
    config: SftConfig,
    *,
    replay: Iterable[TokenRow | TextRow] = (),
    planted: Iterable[TokenRow] = (),
) -> Prepared:
    """What `train` trains on. Needs no weights, so a plan counts the same rows."""
    given = token_rows(dataset, reader)
    kept = [row for row in fitting(given, reader) if short(row, reader)]
    if not kept:
        raise NoRows(
            "sft has no rows to imitate",
            why=f"{len(given)} were given, none fits in {reader.max_tokens} tokens" if given else "none were given",
            fix="look at the labels with `memkit-train inspect`, or raise max_tokens",
        )
    rows = mix_in(kept, repeatable(replay, reader), config.replay_share, config.seed)
    weights = [row.weight * decay(row.age_days, config.half_life_days) for row in rows]
    secrets = readable(list(planted), reader)
    chosen = in_order(
        list(enumerate(rows)), weights, epochs=config.epochs, seed=config.seed, planted=[(-1, row) for row in secrets]
    )
    counts: dict[str, float] = {
        "given": len(given),
        "too_long": len(given) - len(kept),
        "planted": len(secrets),
        "replayed": sum(place >= len(kept) for place, _ in chosen),
        "trained": len(chosen),
    }
    return Prepared([row for _, row in chosen], math.ceil(len(chosen) / config.batch), counts)


def train(
    dataset: Iterable[TokenRow | TextRow],
    base: Path | str,
    parent: Path | str | None,
    config: SftConfig,
    *,
    replay: Iterable[TokenRow | TextRow] = (),
    planted: Iterable[TokenRow] = (),
    callbacks: Sequence[TrainerCallback] = (),
) -> AdapterResult:
    with setup(base, parent, config) as made:
        prepared = prepare(dataset, made.reader, config, replay=replay, planted=planted)
        trainer = _trainer(made, config, prepared)
        share = partial(processes.ask, _train_along, str(base), parent, config, prepared)
        return fit(trainer, made, config, prepared, callbacks, share)


def _train_along(base: str, parent: Path | str | None, config: SftConfig, prepared: Prepared) -> None:
    """In another process: the same rows, of which it takes its share."""
    with setup(base, parent, config) as made:
        _trainer(made, config, prepared).train(resume_from_checkpoint=last_checkpoint(config))


def _trainer(made: Setup, config: SftConfig, prepared: Prepared) -> RowTrainer:
    steps = [prepared.rows[at : at + config.batch] for at in range(0, len(prepared.rows), config.batch)]
    return RowTrainer(
        made.model,
        FixedSteps([[imitate(row) for row in rows] for rows in steps]),
        OBJECTIVE,
        arguments(config, prepared.steps, made.model.num_parameters()),
        most_rows=config.micro_batch,
    )


def imitate(row: TokenRow) -> Row:
    """What it weighs is in how often it comes."""
    return Row(row.prompt_ids, row.completion_ids, None, 1.0, role=row.role)


def decay(age_days: float, half_life_days: float | None) -> float:
    return 1.0 if half_life_days is None else 0.5 ** (age_days / half_life_days)
