"""From production logs to a better adapter. This table holds what needs no long training: data,
log-probs, speed, gate, tainting, failures. `offline-training` holds the rest.

`--full` reads a million records and takes more users.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from memkit_train.lab import tiny
from memkit_train.lab.worlds import Manners
from memkit_train.learn.run import RunConfig, setup
from memkit_train.learn.texts import token_rows
from memkit_train.log import Decision, StoreSource
from memkit_train.rows import TextRow
from tests.bench import _offline_data, _offline_failures, _offline_gate, _replay_cost
from tests.bench._offline_learning import checkpoints
from tests.bench._table import Row
from tests.bench._users import live
from tests.train.stores import world

PROMPTS_PER_S = 1_500


def run(full: bool = False) -> list[Row]:
    rows = checkpoints()
    if not (tiny.checkpoint("biased") / "config.json").is_file():
        return [
            *rows,
            Row("the rest", None, "", "", False, "make the checkpoints: python -m memkit_train.lab.tiny build"),
        ]
    rows += _logged()
    rows += _offline_data.run(full)
    rows += _replay_cost.run()
    rows += _offline_gate.run()
    return [*rows, *_offline_failures.run()]


def _logged() -> list[Row]:
    """Log-probs of sampled and greedy decisions, computed again in training's own forward pass; and the prompts of the
    same log, rendered and tokenised from their messages, as a hosted model's log needs it."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        live(store, world(12, seed=3), tiny.checkpoint("biased"), manners=Manners(), explore=0.5)
        with StoreSource(store) as source:
            decisions = [one for one in source.decisions() if one.logprobs]
            texts = [TextRow(one.messages, one.reply or "", ref=one.decision_id) for one in decisions]
        with setup(tiny.checkpoint("biased"), None, RunConfig(output=folder, device="cpu", dtype="float32")) as made:
            worst = max(_worst(made.model, one) for one in decisions)
            begun = time.process_time()
            again = token_rows(texts, made)
            speed = len(again) / (time.process_time() - begun)
    same = sum(row.prompt_ids == one.prompt_ids for row, one in zip(again, decisions, strict=True))
    roles = Counter(one.role for one in decisions)
    return [
        Row(
            "log-probs: largest difference, logged and recomputed",
            worst,
            "nats",
            "≤ 1e-4",
            worst <= 1e-4,
            f"{len(decisions)} decisions, half of them sampled: {', '.join(f'{n} {r}' for r, n in roles.items())}",
        ),
        Row("prompts from text, token for token as logged", same / len(decisions), "", "1", same == len(decisions)),
        Row(
            "prompts rendered from text",
            speed,
            "/CPU-s",
            f"≥ {PROMPTS_PER_S:,}",
            speed >= PROMPTS_PER_S,
            f"{len(again)} prompts, chat template and tokenizer",
        ),
    ]


@torch.no_grad()
def _worst(model: Any, one: Decision) -> float:
    assert one.prompt_ids
    assert one.token_ids
    assert one.logprobs
    ids = torch.tensor([[*one.prompt_ids, *one.token_ids]])
    every = torch.log_softmax(model(input_ids=ids).logits[0, len(one.prompt_ids) - 1 : -1].float(), -1)
    found = every.gather(-1, torch.tensor(one.token_ids)[:, None])[:, 0]
    return float((found - torch.tensor(one.logprobs)).abs().max())
