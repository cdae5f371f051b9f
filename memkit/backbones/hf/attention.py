"""Who sees whom, as a causal language model of transformers wants to be told: one mask, or one for each kind of layer.

Serving packs rows of different lengths into slots, training packs rows that begin alike onto one sheet. Both know which
tokens a token may see and how far apart they are; what a model with sliding windows makes of that is said here.
"""

from __future__ import annotations

from typing import Any

import torch

from memkit.errors import InvalidConfig

SERVED_LAYERS = frozenset({"full_attention", "sliding_attention"})


class Attention:
    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        kinds: set[str] = set(getattr(config, "layer_types", None) or ())
        if kinds - SERVED_LAYERS:
            raise InvalidConfig(
                f"models with {', '.join(sorted(kinds - SERVED_LAYERS))} layers are not run in process",
                why="their state is not a list of keys and values per token",
                fix="serve this model with vLLM and use an openai: backbone",
            )
        self._by_kind = "sliding_attention" in kinds
        self._window: int | None = getattr(config, "sliding_window", None) if self._by_kind or not kinds else None
        self._additive = getattr(config, "_attn_implementation", "") != "sdpa"
        self._dtype = model.dtype

    def masks(self, visible: Any, gap: Any) -> Any:
        """`visible`: rows × queries × keys. `gap`: how many positions the key lies before the query."""
        masks = {"full_attention": self._mask(visible)}
        if self._window is not None:
            masks["sliding_attention"] = self._mask(visible & (gap < self._window))
        return masks if self._by_kind else masks.get("sliding_attention", masks["full_attention"])

    def _mask(self, visible: Any) -> Any:
        visible = visible.unsqueeze(1)
        if not self._additive:
            return visible
        lowest = torch.finfo(self._dtype).min
        return torch.zeros(visible.shape, dtype=self._dtype, device=visible.device).masked_fill(~visible, lowest)
