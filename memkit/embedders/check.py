"""What a vector must be before the store takes it. A NaN or a wrong dimension would poison a bank for good."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.errors import EmbedderError


def unit_rows(raw: Any, count: int, dim: int | None, source: str) -> NDArray[np.float32]:
    """`raw` as (count, dim) float32 rows of unit length, or EmbedderError."""
    try:
        array = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _error(source, "returned something that is no table of numbers", str(error)) from error
    if array.ndim != 2 or len(array) != count:
        shape = "×".join(str(n) for n in array.shape) or "a single number"
        raise _error(source, f"returned {shape} for {count} texts", "it owes one vector per text", shape=array.shape)
    if count and (array.shape[1] == 0 or (dim is not None and array.shape[1] != dim)):
        raise _error(
            source,
            f"returned vectors of {array.shape[1]} numbers",
            f"{dim or 'at least one'} were expected",
            dim=array.shape[1],
        )
    if not np.isfinite(array).all():
        raise _error(source, "returned NaN or infinity", "such a vector is near to nothing, or to everything")
    lengths = np.sqrt((array * array).sum(axis=1, keepdims=True))
    if count and (not np.isfinite(lengths).all() or float(lengths.min()) < 1e-12):
        raise _error(source, "returned a zero vector", "it has no direction, so nothing can be compared with it")
    return (array / np.maximum(lengths, 1e-12)).astype(np.float32)


def _error(source: str, what: str, why: str, **details: Any) -> EmbedderError:
    return EmbedderError(
        f"the embedder {source} {what}", why=why, fix="nothing was stored; check the model and its settings", **details
    )
