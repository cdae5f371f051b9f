"""The embedder that a store names: what users call it, how it is made again, and what stands in where nothing is
embedded."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memkit.embedders.deferred import DEFAULT_IDENTITY, DeferredDefault
from memkit.errors import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memkit.seams.embedder import Embedder

_OPENAI = re.compile(r"openai:(?P<model>.+):(?P<dim>\d+)")
_FASTEMBED = re.compile(r"fastembed:(?P<model>.+):(?P<dim>\d+)")
_HASH = re.compile(r"hash/1:(?P<dim>\d+)")


class Recorded:
    """Knows a store's embedder by name only: enough to read, undo, import and erase. Vectors are left to the next
    process that has the embedder."""

    cheap = False

    def __init__(self, identity: str, dim: int = 0) -> None:
        """dim: 0 where neither the identity nor the store says how long its vectors are."""
        self.identity, self.dim = identity, dim

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise EmbedderError(
            f"this needs vectors of the embedder {self.identity}, which was not loaded",
            why="the store was opened for work that embeds nothing",
            fix="nothing was changed; do it from the app that has the embedder, or name it with --embedder",
        )


def dimension(identity: str) -> int | None:
    """The length of the vectors, where the identity ends with it, as those of memkit's own embedders do."""
    tail = identity.rpartition(":")[2]
    return int(tail) if tail.isascii() and tail.isdecimal() and len(tail) < 10 else None


def name_of(identity: str) -> str | None:
    """What to pass as `embedder=` or `--embedder`; None for functions and objects, which have no name."""
    if identity == DEFAULT_IDENTITY:
        return "hash"
    if identity.startswith("minilm/"):
        return "minilm" if identity.startswith("minilm/fp32:") else "minilm:PATH"
    if identity.startswith("multilingual/"):
        return "multilingual"
    if found := _FASTEMBED.fullmatch(identity):
        return f"fastembed:{found['model']}"
    found = _OPENAI.fullmatch(identity)
    return f"openai:{found['model']}" if found else None


def remake(identity: str, *, asked: bool = False) -> Embedder | None:
    """The embedder of this identity; None where its name does not tell how to make it. Queries go to an endpoint only
    where the user chose one: `asked`, or with OPENAI_BASE_URL, or by the name of one of OpenAI's own models."""
    from memkit.embedders import make_embedder

    if identity == DEFAULT_IDENTITY:
        return DeferredDefault()
    if found := _HASH.fullmatch(identity):
        return make_embedder("hash", dim=int(found["dim"]))
    if identity.startswith("minilm/"):
        made = make_embedder("minilm")
        return made if made.identity == identity else None  # other weights, which lie we know not where
    if identity.startswith("multilingual/"):
        made = make_embedder("multilingual")
        return made if made.identity == identity else None
    if found := _FASTEMBED.fullmatch(identity):
        made = make_embedder(f"fastembed:{found['model']}")
        return made if made.identity == identity else None
    if found := _OPENAI.fullmatch(identity):
        from memkit.embedders.openai import NATIVE_DIMS

        if asked or os.environ.get("OPENAI_BASE_URL") or found["model"] in NATIVE_DIMS:
            return make_embedder(f"openai:{found['model']}", dim=int(found["dim"]))
    return None
