"""The backbone that the policies of a run act through.

Roles that do not learn are greedy. Where a frozen model answers in them its replies never change, so each prompt is
asked once in the whole run; what the model under training writes is never remembered. Everything that generates is
timed, so that a step can tell generation from environment.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from memkit.seams.backbone import Backbone, GenRequest, Replies, Sampling
from memkit_train.replay.delegating import DelegatingBackbone
from memkit_train.rewards.cached import CachedBackbone


@dataclass(slots=True)
class Stopwatch:
    """Seconds by name; what runs inside another name counts for the inner one alone."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _stack: list[str] = field(default_factory=list[str])
    _since: float = 0.0

    @contextmanager
    def __call__(self, name: str) -> Generator[None]:
        self._turn()
        self._stack.append(name)
        try:
            yield
        finally:
            self._turn()
            self._stack.pop()

    def _turn(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def take(self) -> dict[str, float]:
        """What has run since the last call."""
        self._turn()
        found = dict(self.seconds)
        self.seconds.clear()
        return found


class Acting(DelegatingBackbone):
    """`sampled`: roles that are trained. A request without an adapter goes to the base model; `others` answers in its
    place where it is not a question (the app's own LLM extracts, the adapter manages)."""

    def __init__(
        self, engine: Backbone, sampled: Collection[str], clock: Stopwatch, others: Backbone | None = None
    ) -> None:
        super().__init__(engine)
        self._base, self.clock = CachedBackbone(engine), clock
        self._others = self._base if others is None else CachedBackbone(others)
        self.sampled = frozenset(sampled)
        """Roles that learn."""

    @property
    def max_parallel(self) -> int:
        return 1 << 20  # the engine queues by itself

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        asked = [self._as_trained(one) for one in requests]
        by: dict[int, tuple[Backbone, list[GenRequest]]] = {}
        for one in asked:
            backbone = self._for(one)
            by.setdefault(id(backbone), (backbone, []))[1].append(one)
        with self.clock("generation"):
            replies = {key: iter(backbone.generate(mine)) for key, (backbone, mine) in by.items()}
        return [next(replies[id(self._for(one))]) for one in asked]

    def _for(self, request: GenRequest) -> Backbone:
        if request.adapter is not None:
            return self.inner
        return self._base if request.prompt.role == "answerer" else self._others

    def _as_trained(self, request: GenRequest) -> GenRequest:
        return request if request.prompt.role in self.sampled else replace(request, sampling=Sampling())

    def close(self) -> None:
        """The engine belongs to whoever made it."""


class TimedBackbone(DelegatingBackbone):
    """A frozen answerer of another make, whose work counts as generation too."""

    def __init__(self, inner: Backbone, clock: Stopwatch) -> None:
        super().__init__(CachedBackbone(inner))
        self._clock = clock

    @property
    def max_parallel(self) -> int:
        return 1 << 20

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        with self._clock("generation"):
            return self.inner.generate(requests)
