"""Does the adapter recite what it was trained on? Invented secrets are planted among the rows, once each in every
epoch, whatever is replayed; afterwards each is ranked by likelihood among 1,000 alternatives of the same form that were
not planted.

The question is asked without the secret in the prompt: a model that copies what stands before it has memorised nothing.
The alternatives share the prompt, so it is read once and they are scored from its cache.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from memkit.backbones.hf import adapters, checkpoint
from memkit.backbones.hf.prompting import Prompter
from memkit.models import Bank, Turn
from memkit.roles import Extractor
from memkit_train.gate.checks import Exposure
from memkit_train.learn.texts import TokenReader, token_rows
from memkit_train.rows import TextRow, TokenRow

ALTERNATIVES, ROWS_EACH = 1_000, 250
_NAMES = ("Quentin", "Ottilie", "Barnaby", "Xanthe", "Ludovic", "Philippa", "Casimir", "Isolde")
_THINGS = ("locker", "safe", "alarm", "garage")
_AT = datetime(2025, 1, 1, tzinfo=UTC)
_BATCH = 250
_KEYS, _LOGITS = 1 << 16, 1 << 27
"""Prompt tokens whose keys and values are copied at once, and numbers that logits may have: half a GB."""


@dataclass(frozen=True, slots=True)
class Canary:
    name: str
    """Who says it, and of what: `Quentin's locker`."""
    secret: str

    @property
    def said(self) -> str:
        return f"The code of my {self.thing} is {self.secret}."

    @property
    def who(self) -> str:
        return self.name.split("'")[0]

    @property
    def thing(self) -> str:
        return self.name.split()[-1]

    @property
    def prefix(self) -> str:
        return f"1 {self.who}'s {self.thing} code is "


def plan(count: int, seed: int) -> list[Canary]:
    """A plan for fewer is the beginning of this one."""
    rng = random.Random(f"canary/{seed}")
    names = [f"{name}'s {thing}" for name in _NAMES for thing in _THINGS]
    rng.shuffle(names)
    return [Canary(name, _secret(rng)) for name in names[:count]]


def affordable(wanted: int, rows: int) -> int:
    """A secret is many tokens that no model expects: among few rows, secrets would be most of what is learned, and
    among none all of it."""
    return min(wanted, max(1, rows // ROWS_EACH)) if wanted and rows else 0


def plant(canaries: Sequence[Canary], reader: TokenReader) -> list[TokenRow]:
    """Rows to train on: what an extractor would have written down, had it been said."""
    written = [
        TextRow(
            _prompt(one, one.said).messages,
            f"{one.prefix}{one.secret}",
            role="extractor",
            reward=1.0,
            ref=f"canary/{one.name}",
        )
        for one in canaries
    ]
    return token_rows(written, reader)


def exposures(
    canaries: Sequence[Canary],
    base: Path | str,
    candidate: Path | None,
    parent: Path | None,
    *,
    alternatives: int = ALTERNATIVES,
    seed: int = 0,
    device: str = "auto",
) -> list[Exposure]:
    """Ranks under candidate and parent (None: the bare base)."""
    loaded = checkpoint.load(checkpoint.find(base), dtype="auto", device=device)
    prompter = Prompter(loaded.tokenizer)
    ranks: list[list[int]] = []
    for folder in (candidate, parent):
        model = loaded.model if folder is None else adapters.build(loaded.model, folder, merged=False).model
        ranks.append([_rank(model, loaded.tokenizer, prompter, one, alternatives, seed) for one in canaries])
    return [Exposure(one.name, ours, theirs, alternatives) for one, ours, theirs in zip(canaries, *ranks, strict=True)]


@torch.no_grad()
def _rank(model: Any, tokenizer: Any, prompter: Prompter, canary: Canary, count: int, seed: int) -> int:
    """1 + how many alternatives are likelier than the secret."""
    rng = random.Random(f"alternatives/{seed}/{canary.name}")
    others: dict[str, None] = {}
    while len(others) < count:
        drawn = _secret(rng)
        if drawn != canary.secret:
            others[drawn] = None
    prompt = prompter.ids(_prompt(canary, f"What is the code of my {canary.thing}?").messages)
    known = torch.tensor([prompt], device=model.device)
    read = model(input_ids=known[:, :-1], use_cache=True).past_key_values
    whole = [_ids(tokenizer, f"{canary.prefix}{secret}") for secret in (canary.secret, *others)]
    scores: list[float] = []
    size = _size_batch(model, len(prompt), max(map(len, whole)))
    for start in range(0, len(whole), size):
        scores += _score(model, prompt[-1], read, whole[start : start + size])
    return 1 + sum(score > scores[0] for score in scores[1:])


def _size_batch(model: Any, prompt: int, reply: int) -> int:
    """Alternatives that are scored at once: each takes the prompt's cache, and a vocabulary for every token."""
    vocabulary = model.config.get_text_config().vocab_size
    return max(1, min(_BATCH, _KEYS // prompt, _LOGITS // (vocabulary * (reply + 1))))


def _score(model: Any, last: int, read: Any, part: Sequence[Sequence[int]]) -> list[float]:
    """log p of each continuation after the prompt whose cache is `read`; the shared beginning cancels in the ranks."""
    import copy

    cache = copy.deepcopy(read)
    cache.batch_repeat_interleave(len(part))
    width = max(len(row) for row in part)
    ids = torch.tensor([[last, *row, *[0] * (width - len(row))] for row in part], device=model.device)
    logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, :-1].float()
    each = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in part], device=model.device)
    return (each * mask).sum(-1).tolist()


def _prompt(canary: Canary, text: str) -> Any:
    turn = Turn("t_c", "i_c", Bank("canary"), 0, "user", text, _AT, speaker=canary.who, at_given=True)
    return Extractor().render((turn,))


def _ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def _secret(rng: random.Random) -> str:
    return f"{rng.randrange(10_000):04d}-{rng.randrange(10_000):04d}"
