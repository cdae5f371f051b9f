"""The seam between the router and whatever runs the model: four verbs, and one for probing.

A host never changes the bytes behind a name: `load` is given a digest-named artifact that has been verified, and is
idempotent. `unload` is called only when no lease names the adapter any more. A host reports what it cannot serve in
`capabilities`, so that an adapter is refused before its server is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What a host can serve. None means: it does not say, so it is not checked."""

    max_rank: int | None = None
    max_adapters: int | None = None
    """How many may be resident at once."""
    per_request: bool = True
    """Requests of one batch may name different adapters."""
    loads: bool = True
    """False: adapters are put there by other means, and `load` only checks that they are."""
    scores: bool = True
    """It is a `ScoringHost`, so an adapter can be probed after loading."""
    shared: bool = False
    """Other processes may use the same server: an adapter is unloaded when none of them holds it."""
    target_modules: frozenset[str] | None = None
    """Last parts of the module names that may carry a LoRA, e.g. q_proj."""
    module_shapes: Mapping[str, tuple[int, int]] | None = None
    """Full module name in the base model (`model.layers.0.self_attn.q_proj`) → (out_features, in_features)."""
    base_digest: str | None = None
    base_id: str | None = None
    tokenizer_digest: str | None = None
    template_digest: str | None = None


@dataclass(frozen=True, slots=True)
class AdapterArtifact:
    """A verified LoRA directory, ready to be loaded."""

    name: str
    """Its digest: the only name it is ever served under."""
    path: Path
    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    bytes: int
    """Size of its tensors."""


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    name: str
    bytes: int | None = None
    places: tuple[str, ...] = ()
    """Replicas that hold it (URLs), for hosts that have several."""


@runtime_checkable
class AdapterHost(Protocol):
    """Thread-safe. Raises `AdapterError`s, or `ModelUnavailable` when a server cannot be reached."""

    def capabilities(self) -> HostLimits: ...

    def load(self, artifact: AdapterArtifact) -> LoadedAdapter:
        """Make the adapter servable under its name; on failure nothing of it stays resident."""
        ...

    def unload(self, name: str) -> None:
        """The caller guarantees that it is drained. Unknown names are fine."""
        ...

    def resident(self) -> list[LoadedAdapter]: ...


@runtime_checkable
class ScoringHost(Protocol):
    """A host that can say how likely given tokens are, without sampling."""

    def score(self, name: str | None, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """For each (prompt ids, completion ids): log p of every completion token at temperature 1 without a mask, under
        the adapter `name` (None: the base model)."""
        ...


@runtime_checkable
class MergingHost(Protocol):
    """A host that can serve an adapter at the base model's speed, at the memory of the layers that it touches."""

    def merge(self, name: str) -> None:
        """Requests to come are served so; those under way finish as they began. Idempotent."""
        ...
