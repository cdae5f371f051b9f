"""Adapters in this process: each becomes a module tree beside the base in the in-process backbone."""

from __future__ import annotations

from collections.abc import Sequence

from memkit.adapters.hosts.base import AdapterArtifact, HostLimits, LoadedAdapter
from memkit.backbones.hf import HFBackbone, ScoreRequest


class PeftHost:
    """`merge(name)` folds a stable adapter into weights of its own: the speed of the plain base for its memory."""

    def __init__(self, engine: HFBackbone) -> None:
        self.engine = engine

    def capabilities(self) -> HostLimits:
        shapes = self.engine.linear_shapes
        return HostLimits(
            max_adapters=self.engine.max_adapters,
            target_modules=frozenset(path.rsplit(".", 1)[-1] for path in shapes),
            module_shapes=shapes,
            base_digest=self.engine.base_digest,
            base_id=self.engine.name,
            tokenizer_digest=self.engine.tokenizer_digest,
            template_digest=self.engine.template_digest,
        )

    def load(self, artifact: AdapterArtifact) -> LoadedAdapter:
        self.engine.load_adapter(artifact.name, artifact.path)
        return self._loaded(artifact.name)

    def unload(self, name: str) -> None:
        self.engine.unload_adapter(name)

    def resident(self) -> list[LoadedAdapter]:
        return [self._loaded(name) for name in self.engine.resident()]

    def merge(self, name: str) -> None:
        """Requests to come run on the merged weights; those under way finish as they began."""
        self.engine.merge_adapter(name)

    def score(self, name: str | None, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        requests = [ScoreRequest(tuple(prompt), tuple(tokens), name) for prompt, tokens in pairs]
        return [list(scores) for scores in self.engine.score(requests)]

    def _loaded(self, name: str) -> LoadedAdapter:
        return LoadedAdapter(name, bytes=self.engine.adapter_bytes(name))
