"""Another backbone with something done on the way: the base of those that remember, time or foretell replies."""

from __future__ import annotations

from collections.abc import Sequence

from memkit.seams.backbone import Backbone, GenRequest, Replies, style_of


class DelegatingBackbone:
    """What a subclass does not say is the inner one's."""

    def __init__(self, inner: Backbone) -> None:
        self.inner = inner

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def style(self) -> str:
        return self.inner.style

    def style_of(self, role: str) -> str:
        return style_of(self.inner, role)

    @property
    def max_parallel(self) -> int:
        return self.inner.max_parallel

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return self.inner.generate(requests)

    def close(self) -> None:
        self.inner.close()
