"""The one seam through which text is generated.

A backbone takes a list of requests and returns a reply, or an error, for each. It knows nothing of memories: it renders
chat messages with its own template, samples, and reports exactly what it did, so that a trainer can learn from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from memkit.errors import ModelError

if TYPE_CHECKING:
    from memkit.roles.base import Prompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 is greedy. `seed` with `GenRequest.key` fixes the noise of a sampled reply, whatever the batch."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class GenRequest:
    prompt: Prompt
    key: str = ""
    """Identity of the decision (noise is keyed by (seed, key, position))."""
    adapter: str | None = None
    """Immutable adapter name (its digest) to generate with; None is the base model."""
    sampling: Sampling = Sampling()
    deadline_s: float = 60.0
    """Total time, retries included."""
    max_calls: int = 3
    """Transport attempts at most."""


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    calls: int = 1


@dataclass(frozen=True, slots=True)
class GenReply:
    text: str
    adapter: str | None = None
    """The adapter that really produced the tokens."""
    model: str = ""
    """Identity of the base model (name, or name with weight digest)."""
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """log p of each sampled token under the raw model: temperature 1, no mask."""
    sampled_logprobs: tuple[float, ...] | None = None
    """log p of each sampled token as sampled: with temperature, top-p and the grammar's mask."""
    finish: str = "stop"
    usage: Usage = Usage()
    latency_ms: float = 0.0
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Field → why this backbone cannot give it (law 6: all fields or an explicit reason)."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


Replies = list[GenReply | ModelError]
"""One for each request, in their order: a reply, or the error that stands in its place."""


@runtime_checkable
class Backbone(Protocol):
    """Thread-safe. One that serves roles by different models may have `style_of(role)` beside `style`."""

    @property
    def identity(self) -> str: ...
    @property
    def style(self) -> str:
        """The reply style it follows best: compact or json."""
        ...

    @property
    def max_parallel(self) -> int: ...
    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        """What fails is returned in its place, so that nobody loses the other replies."""
        ...

    def close(self) -> None: ...


def style_of(backbone: Backbone, role: str) -> str:
    """The reply style in which a role is asked."""
    own = getattr(backbone, "style_of", None)
    return backbone.style if own is None else own(role)


def all_or_error(replies: Replies) -> list[GenReply]:
    """For whoever can do nothing with some: the first error is raised."""
    for reply in replies:
        if isinstance(reply, ModelError):
            raise reply
    return [reply for reply in replies if isinstance(reply, GenReply)]
