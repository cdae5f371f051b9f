"""Servers that are given their adapters by other means (SGLang, LoRAX, mistral.rs, hosted endpoints): adapter = model
name. Nothing is loaded from here; the router still assigns users, logs propensities and rolls back.

    host = StaticHost({"9f3a…": "memory-v7"})                     # digest → the name that the server knows
    Memory(path, model="openai:base", base_url=…, adapters=host, adapter_model_name=host.model_name)

SGLang's OpenAI endpoint wants `base:adapter`: `StaticHost(names, base="qwen", naming="base:adapter")`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from memkit.adapters.hosts.base import AdapterArtifact, HostLimits, LoadedAdapter
from memkit.errors import HostFull, InvalidConfig


class StaticHost:
    """`names`: digest → name on the server; None: the server knows adapters by their digests."""

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        *,
        base: str = "",
        naming: Literal["adapter", "base:adapter"] = "adapter",
    ) -> None:
        if naming == "base:adapter" and not base:
            raise InvalidConfig(
                "naming 'base:adapter' needs base=", fix="pass the name of the base model on that server"
            )
        self._names = None if names is None else dict(names)
        self._base, self._naming = base, naming

    def capabilities(self) -> HostLimits:
        return HostLimits(loads=False, scores=False, shared=True, base_id=self._base or None)

    def load(self, artifact: AdapterArtifact) -> LoadedAdapter:
        self.model_name(artifact.name)
        return LoadedAdapter(artifact.name)

    def unload(self, name: str) -> None:
        """It stays where the server's operator put it."""

    def resident(self) -> list[LoadedAdapter]:
        return [LoadedAdapter(name) for name in self._names or ()]

    def model_name(self, digest: str) -> str:
        """What a request names as its model."""
        name = digest if self._names is None else self._names.get(digest)
        if name is None:
            raise HostFull(
                f"the server has no adapter {digest[:12]}",
                why="StaticHost was not told under which name it serves it",
                fix="put it on the server, then pass its name in StaticHost({digest: name})",
                reason="not_on_server",
            )
        return f"{self._base}:{name}" if self._naming == "base:adapter" else name
