"""Keys and values of a running batch, in slots.

Row i keeps its tokens at positions 0, 1, 2… of slot i; padding is to the right and masked. Rows therefore join with
one prefill, leave by moving the last row into the gap, and nothing is ever re-padded or copied as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

_STEP = 64


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Keys and values of tokens that many prompts begin with."""

    ids: tuple[int, ...]
    layers: tuple[tuple[Any, Any], ...]


@dataclass
class ForwardPlan:
    """What the next forward pass writes: a prefill of `fresh` new slots, or one token for each running row."""

    lengths: list[int] = field(default_factory=list[int])
    """Tokens held per slot."""
    fresh: int = 0
    prefix: Prefix | None = None
    """What the fresh slots begin with, already computed."""
    rows: Any = None
    columns: Any = None
    span: int = 0

    def prefill(self, count: int, prefix: Prefix | None = None) -> None:
        self.fresh, self.prefix = count, prefix

    def decode(self, device: Any) -> None:
        self.prefill(0)
        self.rows = torch.arange(len(self.lengths), device=device)
        self.columns = torch.tensor(self.lengths, device=device)
        self.span = max(self.lengths) + 1


class SlotLayer(CacheLayerMixin):
    """One layer's slots. Transformers hands the new keys and values to `update` and attends to what it returns."""

    is_sliding = False
    keys: Any
    values: Any

    def __init__(self, plan: ForwardPlan, index: int) -> None:
        super().__init__()
        self.plan, self._index = plan, index

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        plan = self.plan
        running = len(plan.lengths)
        if plan.fresh:
            known = 0 if plan.prefix is None else len(plan.prefix.ids)
            width = known + key_states.shape[-2]
            self._reserve(key_states, value_states, running + plan.fresh, width)
            keys = self.keys[running : running + plan.fresh, :, :width]
            values = self.values[running : running + plan.fresh, :, :width]
            if plan.prefix is not None:
                keys[:, :, :known], values[:, :, :known] = plan.prefix.layers[self._index]
            keys[:, :, known:], values[:, :, known:] = key_states, value_states
            return keys, values
        self._reserve(key_states, value_states, running, plan.span)
        self.keys[plan.rows, :, plan.columns] = key_states[:, :, 0]
        self.values[plan.rows, :, plan.columns] = value_states[:, :, 0]
        return self.keys[:running, :, : plan.span], self.values[:running, :, : plan.span]

    def copy(self, slot: int, length: int) -> tuple[Any, Any]:
        return self.keys[slot, :, :length].clone(), self.values[slot, :, :length].clone()

    def repeat(self, slots: list[int], start: int, width: int) -> None:
        """Copies of these slots from slot `start` on."""
        end = start + len(slots)
        self._reserve(self.keys, self.values, end, width)
        self.keys[start:end, :, :width] = self.keys[slots, :, :width]
        self.values[start:end, :, :width] = self.values[slots, :, :width]

    def move(self, source: int, target: int, length: int) -> None:
        self.keys[target, :, :length] = self.keys[source, :, :length]
        self.values[target, :, :length] = self.values[source, :, :length]

    def _reserve(self, keys: Any, values: Any, slots: int, width: int) -> None:
        if self.is_initialized and self.keys.shape[0] >= slots and self.keys.shape[2] >= width:
            return
        held_slots, held_width = (self.keys.shape[0], self.keys.shape[2]) if self.is_initialized else (0, 0)
        slots = held_slots if slots <= held_slots else max(slots, 2 * held_slots)
        width = held_width if width <= held_width else (width + width // 4) // _STEP * _STEP + _STEP
        grown_keys = keys.new_zeros((slots, keys.shape[1], width, keys.shape[3]))
        grown_values = values.new_zeros((slots, values.shape[1], width, values.shape[3]))
        if self.is_initialized:
            grown_keys[:held_slots, :, :held_width] = self.keys
            grown_values[:held_slots, :, :held_width] = self.values
        self.keys, self.values, self.is_initialized = grown_keys, grown_values, True

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        self._reserve(key_states, value_states, key_states.shape[0], key_states.shape[2])

    def get_seq_length(self) -> int:
        if self.plan.fresh:
            return 0 if self.plan.prefix is None else len(self.plan.prefix.ids)
        return max(self.plan.lengths, default=0)

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0


class SlotCache(Cache):
    def __init__(self, layers: int) -> None:
        self.plan = ForwardPlan()
        self._slots = [SlotLayer(self.plan, index) for index in range(layers)]
        super().__init__(layers=list(self._slots))

    def admit(self, lengths: list[int]) -> None:
        """After a prefill: its rows run."""
        self.plan.lengths.extend(lengths)
        self.plan.prefill(0)

    def repeat(self, slots: list[int]) -> None:
        """After a prefill: more rows that begin as these do."""
        lengths = [self.plan.lengths[slot] for slot in slots]
        if slots:
            for layer in self._slots:
                layer.repeat(slots, len(self.plan.lengths), max(lengths))
            self.plan.lengths.extend(lengths)

    def prefix(self, slot: int, ids: tuple[int, ...]) -> Prefix:
        """The first tokens of a row, kept for prompts to come."""
        return Prefix(ids, tuple(layer.copy(slot, len(ids)) for layer in self._slots))

    def grew(self) -> None:
        """After a decoding step: each row holds one more token."""
        self.plan.lengths[:] = [length + 1 for length in self.plan.lengths]

    def drop(self, slot: int) -> None:
        """Free a slot; the last row takes its place."""
        last = len(self.plan.lengths) - 1
        if slot != last:
            for layer in self._slots:
                layer.move(last, slot, self.plan.lengths[last])
            self.plan.lengths[slot] = self.plan.lengths[last]
        self.plan.lengths.pop()
