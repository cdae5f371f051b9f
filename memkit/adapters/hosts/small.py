"""Adapters of the small manager: LoRA matrices and heads, each a session of the upper layers in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence

from memkit.adapters.hosts.base import AdapterArtifact, HostLimits, LoadedAdapter
from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.encoder import TextPair

MAX_ADAPTERS = 4


class SmallHost:
    def __init__(self, backbone: SmallBackbone) -> None:
        self.backbone = backbone

    def capabilities(self) -> HostLimits:
        shapes = self.backbone.linear_shapes
        return HostLimits(
            max_adapters=MAX_ADAPTERS,
            target_modules=frozenset(path.rsplit(".", 1)[-1] for path in shapes),
            module_shapes=shapes,
            base_digest=self.backbone.base_digest,
            base_id=self.backbone.identity,
        )

    def load(self, artifact: AdapterArtifact) -> LoadedAdapter:
        self.backbone.load_learned(artifact.name, artifact.path)
        return LoadedAdapter(artifact.name, bytes=artifact.bytes)

    def unload(self, name: str) -> None:
        self.backbone.unload_learned(name)

    def resident(self) -> list[LoadedAdapter]:
        return [LoadedAdapter(name) for name in self.backbone.resident()]

    def score(self, name: str | None, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """A case of a probe is a pair of texts as `as_case` writes it, and the places of options among its own."""
        logs = self.backbone.score(name or "", [_of_case(case) for case, _ in pairs])
        return [[float(one[place]) for place in places] for one, (_, places) in zip(logs, pairs, strict=True)]


def as_case(pair: TextPair) -> tuple[int, ...]:
    """A pair as numbers, which is what probes hold."""
    told = json.dumps([pair.task, pair.first, pair.second, list(pair.features)], ensure_ascii=False)
    return tuple(told.encode())


def _of_case(numbers: Sequence[int]) -> TextPair:
    task, first, second, features = json.loads(bytes(numbers))
    return TextPair(task, first, second, features)
