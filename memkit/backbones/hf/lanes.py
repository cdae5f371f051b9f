"""One module tree with its cache and running rows: the base model, or the base under one adapter.

Trees share the base tensors, so a lane costs its adapter. Each lane runs its own sub-batch: no request ever meets
another adapter's weights, and nothing is switched under a running forward pass.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch

from memkit.backbones.hf.attention import Attention
from memkit.backbones.hf.cache import Prefix, SlotCache

_RECENT = 8
_PREFIXES = 4
"""Kept per lane: extractor, manager, answerer, and one more."""
_WORTH_KEEPING = 32

R = TypeVar("R")


class Tree:
    """How a causal language model of transformers is called: right padding, explicit positions and masks."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._attention = Attention(model)
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self.layers: int = model.config.get_text_config().num_hidden_layers
        self.device = model.device
        self.dtype = model.dtype

    def forward(self, ids: Any, positions: Any, key_positions: Any, cache: SlotCache | None, keep: Any) -> Any:
        """Logits at the columns `keep` of every row, float32. A query sees keys at its own position and before."""
        gap = positions.unsqueeze(-1) - key_positions.unsqueeze(-2)  # rows × queries × keys
        options: dict[str, Any] = {"logits_to_keep": keep} if self._keeps else {}
        out = self.model(
            input_ids=ids,
            attention_mask=self._attention.masks(gap >= 0, gap),
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            **options,
        )
        logits = out.logits if self._keeps else out.logits[:, keep]
        return logits.float()

    def pad(self, sequences: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """(ids, positions), padded to the right with zeros."""
        width = max(len(sequence) for sequence in sequences)
        rows = [[*sequence, *[0] * (width - len(sequence))] for sequence in sequences]
        ids = torch.tensor(rows, device=self.device)
        return ids, torch.arange(width, device=self.device).expand(len(rows), width)

    def alone(self, sequence: Sequence[int]) -> Any:
        """Logits after `sequence`, computed without cache, padding or company: the same bits every time."""
        ids, positions = self.pad([sequence])
        return self.forward(ids, positions, positions, None, torch.tensor([len(sequence) - 1], device=self.device))[0]

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[tuple[float, ...]]:
        """Raw log p of every token of each continuation, given its prompt."""
        ids, positions = self.pad([[*prompt, *tokens] for prompt, tokens in pairs])
        spans = [range(len(prompt) - 1, len(prompt) + len(tokens) - 1) for prompt, tokens in pairs]
        columns = sorted({column for span in spans for column in span})
        place = {column: index for index, column in enumerate(columns)}
        logits = self.forward(ids, positions, positions, None, torch.tensor(columns, device=self.device))
        found: list[tuple[float, ...]] = []
        for row, (span, (_, tokens)) in enumerate(zip(spans, pairs, strict=True)):
            lines = torch.log_softmax(logits[row, [place[column] for column in span]], dim=-1)
            targets = torch.tensor(list(tokens), device=lines.device).unsqueeze(-1)
            found.append(tuple(lines.gather(-1, targets).squeeze(-1).tolist()))
        return found


class Lane(Generic[R]):
    """A tree at work. `rows[i]` occupies slot i; used by the inference worker only."""

    def __init__(self, name: str | None, tree: Tree, *, merged: bool = False) -> None:
        self.name, self.tree, self.merged = name, tree, merged
        self.rows: list[R] = []
        self._cache: SlotCache | None = None
        self._recent: deque[tuple[int, ...]] = deque(maxlen=_RECENT)
        self._prefixes: list[Prefix] = []

    def known_prefix(self, prompt: tuple[int, ...]) -> Prefix | None:
        """The longest beginning of the prompt that needs no computing; its last token always does."""
        fitting = [one for one in self._prefixes if prompt[: len(one.ids)] == one.ids and len(one.ids) < len(prompt)]
        return max(fitting, key=lambda one: len(one.ids), default=None)

    def prefill(self, rows: Sequence[R], prompts: Sequence[tuple[int, ...]], prefix: Prefix | None = None) -> Any:
        """Admit rows whose prompts all begin with `prefix`; logits after each prompt, in the order of the new slots.
        Rows with one and the same prompt (alternatives of a state) share its computation."""
        if self._cache is None:
            self._cache = SlotCache(self.tree.layers)
        known, start = 0 if prefix is None else len(prefix.ids), len(self.rows)
        place = {prompt: at for at, prompt in enumerate(dict.fromkeys(prompts))}
        distinct = list(place)
        ids, offsets = self.tree.pad([prompt[known:] for prompt in distinct])
        keys = torch.arange(known + ids.shape[1], device=self.tree.device).expand(len(distinct), -1)
        columns = sorted({len(prompt) - known - 1 for prompt in distinct})
        keep = torch.tensor(columns, device=self.tree.device)
        self._cache.plan.prefill(len(distinct), prefix)
        try:
            logits = self.tree.forward(ids, offsets + known, keys, self._cache, keep)
        finally:
            self._cache.plan.prefill(0)
        self._cache.admit([len(prompt) for prompt in distinct])
        self._learn_prefix(start, distinct, prefix)
        firsts = [prompts.index(prompt) for prompt in distinct]
        order = [*firsts, *sorted(set(range(len(prompts))) - set(firsts))]
        self._cache.repeat([start + place[prompts[row]] for row in order[len(firsts) :]])
        self.rows.extend(rows[row] for row in order)
        asked = [place[prompts[row]] for row in order]
        return logits[asked, [columns.index(len(distinct[at]) - known - 1) for at in asked]]

    def _learn_prefix(self, slot: int, prompts: Sequence[tuple[int, ...]], used: Prefix | None) -> None:
        """Keep what at least three of the last prompts begin with: a role's instructions. The first is in `slot`."""
        assert self._cache is not None
        if used is not None:  # most recently used last
            self._prefixes.remove(used)
            self._prefixes.append(used)
        first = prompts[0]
        others = [*self._recent, *prompts[1:_RECENT]]
        self._recent.extend(prompts)
        shared = sorted(_common_length(first, other) for other in others)[-2:]
        length = min(shared[0] if len(shared) == 2 else 0, len(first) - 1)
        known = 0 if used is None else len(used.ids)
        if length >= known + max(_WORTH_KEEPING, known // 4):
            self._prefixes.append(self._cache.prefix(slot, first[:length]))
            del self._prefixes[:-_PREFIXES]

    def decode(self, last_tokens: Sequence[int]) -> Any:
        """One step of every running row: logits after its last token."""
        cache = self._cache
        assert cache is not None
        plan, device = cache.plan, self.tree.device
        plan.decode(device)
        ids = torch.tensor(last_tokens, device=device).unsqueeze(-1)
        keys = torch.arange(plan.span, device=device).expand(len(last_tokens), plan.span)
        keep = torch.zeros(1, dtype=torch.long, device=device)
        logits = self.tree.forward(ids, plan.columns.unsqueeze(-1), keys, cache, keep)
        cache.grew()
        return logits[:, 0]

    def drop(self, slot: int) -> R:
        row = self.rows[slot]
        self.rows[slot] = self.rows[-1]
        self.rows.pop()
        if not self.rows:
            self._cache = None  # an idle lane holds its weights and prefixes only
        elif self._cache is not None:
            self._cache.drop(slot)
        return row


def _common_length(first: Sequence[int], second: Sequence[int]) -> int:
    limit = min(len(first), len(second))
    return next((index for index in range(limit) if first[index] != second[index]), limit)
