"""Off-policy gradient from logs: what the policy that acted wrote, how likely it was, and how it turned out.

    result = offline.train(logged_rows, "path/to/base", parent, OfflineConfig(output="run"))

- Advantages: decisions of equal states (`gigpo.state_key`) are compared with each other, however far apart they were
  logged; the rest with the mean of their role. Median for small groups, a floor under the deviation, groups without
  spread are dropped and counted.
- Importance weights from the logged log-probs, clipped, so that one decision that the present policy would hardly make
  cannot own a step; each step's learning rate is scaled by its effective sample size, and steps below the floor change
  nothing. A run that is mostly below is refused.
- A small imitation term on what turned out well, and replayed rows, keep the reply format: the negative half of a
  policy gradient says what not to write, never what to write instead.

It needs raw log-probs and ids in the target vocabulary. What a hosted model wrote has neither and is left out: use sft,
kto or dpo for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformers import TrainerCallback

from memkit_train.algorithms.advantages import GroupStats, grouped
from memkit_train.errors import NoRows, NoSignal, WrongVocabulary
from memkit_train.methods.run import (
    AdapterResult,
    RunConfig,
    Setup,
    arguments,
    checkpoints,
    fit,
    fitting,
    mixed,
    passes,
    readable,
    setup,
    short,
)
from memkit_train.methods.texts import known, repeatable
from memkit_train.objective import Objective
from memkit_train.rows import Row, TextRow, TokenRow
from memkit_train.steps import shuffled_steps
from memkit_train.trainer import RowTrainer, training_arguments
from memkit_train.trajectories.rows import with_logprobs

OBJECTIVE = Objective(clip_low=0.2, clip_high=0.28, dual_clip=3.0, ess_floor=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineConfig(RunConfig):
    lr: float = 1e-3
    batch: int = 64
    objective: Objective = OBJECTIVE
    std_floor: float = 0.1
    imitation: float = 0.2
    """Advantage, at ratio 1, of once more imitating each row that was better than its peers. 0: none."""
    replay_share: float = 0.1
    """Of the rows that are drawn. What they weigh comes on top: a guard row counts 0.3 in the loss."""
    token_budget: int = 8192


def train(
    dataset: Iterable[TokenRow | TextRow],
    base: Path | str,
    parent: Path | str | None,
    config: OfflineConfig,
    *,
    replay: Iterable[TokenRow | TextRow] = (),
    planted: Iterable[TokenRow] = (),
    callbacks: Sequence[TrainerCallback] = (),
) -> AdapterResult:
    """`parent` should be the adapter that wrote the log, or a near descendant: the further away, the fewer effective
    samples."""
    with setup(base, parent, config) as made:
        given = list(dataset)
        logged = usable(given, made)
        rows, stats = advantage_rows(logged, std_floor=config.std_floor)
        if not rows:
            raise NoSignal(
                "no logged decision turned out better or worse than its peers",
                why=f"{stats.dropped} of {stats.groups} groups have equal rewards throughout",
                fix="collect more feedback, or use sft on the good decisions",
            )
        better = [row for row in rows if config.imitation and float(row.advantage) > 0]  # type: ignore[arg-type]
        imitated = [replace(row, behaviour_logprobs=None, advantage=config.imitation) for row in better]
        repeated = [_imitated(row, "replay") for row in repeatable(replay, made)]
        secrets = [_imitated(row, "planted") for row in readable(list(planted), lambda row: short(row, made))]
        logged_and_replayed = mixed([*rows, *imitated], repeated, config.replay_share, config.seed)
        every = [*logged_and_replayed, *secrets]
        source = shuffled_steps(every, batch=config.batch, epochs=passes(config, len(every)), seed=config.seed)
        chosen = training_arguments(checkpoints(config), steps=len(source), **arguments(config, len(source)))
        trainer = RowTrainer(made.model, source, config.objective, chosen, token_budget=config.token_budget)
        counts = {
            "given": len(given), "usable": len(logged), "trained": len(rows), "imitated": len(imitated),
            "replayed": len(logged_and_replayed) - len(rows) - len(imitated), "planted": len(secrets),
            "groups": stats.groups, "groups_dropped": stats.dropped,
        }  # fmt: skip
        return fit(trainer, made, config, every, counts, callbacks)


def _imitated(row: TokenRow, group: str) -> Row:
    return Row(row.prompt_ids, row.completion_ids, None, 1.0, row.weight, group, row.role)


def advantage_rows(logged: Sequence[TokenRow], *, std_floor: float = 0.1) -> tuple[list[Row], GroupStats]:
    """Equal states form groups; states that were met once are compared with each other, role by role."""
    met: dict[str, int] = {}
    for row in logged:
        met[row.state_key] = met.get(row.state_key, 0) + 1
    states: dict[str, list[tuple[TokenRow, float]]] = {}
    alone: dict[str, list[tuple[TokenRow, float]]] = {}
    for row in logged:
        if row.reward is not None:
            again = row.state_key and met[row.state_key] > 1
            group = states.setdefault(row.state_key, []) if again else alone.setdefault(f"alone/{row.role}", [])
            group.append((row, row.reward))
    found, stats = grouped(states, std_floor=std_floor)
    rest, rest_stats = grouped(alone, baseline="mean", std_floor=std_floor)
    rows = [
        Row(row.prompt_ids, row.completion_ids, row.logprobs, advantage, row.weight, group, row.role)
        for group, row, advantage in found + rest
    ]
    return rows, stats + rest_stats


def usable(given: Sequence[TokenRow | TextRow], made: Setup) -> list[TokenRow]:
    """Rows with log-probs in the target vocabulary and a reward, of readable length. The rest is left out and counted;
    a log without any such row is refused, and so is one mostly in another vocabulary."""
    if not given:
        raise NoRows("offline has no rows to learn from", why="none were given", fix="look at the labels")
    likely = with_logprobs(given, "offline")
    own = [row for row in fitting(likely, made, "offline") if known(row, made)]
    if not own:
        raise WrongVocabulary(
            f"offline cannot use this log: {len(likely)} of {len(likely)} rows have ids beyond this model's vocabulary",
            why="another tokenizer wrote them", fix="set model.base to the model that served", method="offline",
        )  # fmt: skip
    rewarded = [row for row in own if row.reward is not None]
    if not rewarded:
        raise NoSignal(
            "offline cannot use this log: no row has a reward",
            why="no feedback reached these decisions",
            fix="call memory.feedback on answers; `memkit-train inspect` shows what reaches which decision",
            method="offline",
        )
    return [row for row in rewarded if short(row, made)]
