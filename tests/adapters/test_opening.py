"""Which model in this process hosts adapters, and so is the one that explores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.adapters.opening import own_host
from memkit.backbones.base import GenReply, GenRequest
from memkit.backbones.routed import RoutedBackbone


class Says:
    """A model behind an endpoint: it cannot learn."""

    identity, style, max_parallel = "says", "compact", 1

    def __init__(self, text: str = "NONE") -> None:
        self.text, self.asked = text, list[GenRequest]()

    def generate(self, requests: list[GenRequest]) -> list[GenReply]:
        self.asked += requests
        return [GenReply(self.text) for _ in requests]

    def close(self) -> None: ...


class Local(Says):
    """A model in this process, as far as hosting goes."""

    identity = "local"

    def load_adapter(self, name: str, path: Any) -> None: ...


def test_of_two_models_in_this_process_the_one_that_manages_hosts_adapters() -> None:
    manager, own = Local(), Local()
    host, roles = own_host(RoutedBackbone({"manager": manager}, own))
    assert roles == {"manager"}
    assert host is not None
    assert host.engine is manager  # type: ignore[attr-defined]


def test_only_what_learns_is_sampled(tmp_path: Path) -> None:
    """Noise in the app's own model would be logged as what users said, and teach nothing."""
    for name, manager, sampled in (("split", Local("ADD"), 0.0), ("hosted", Says("ADD"), 1.0)):
        own = Says("1 Ana lives in Oslo.")
        with Memory(tmp_path / name, model=RoutedBackbone({"manager": manager}, own), explore=1.0) as memory:
            memory.add("I moved to Oslo", user_id="ana")
        assert [one.sampling.temperature for one in manager.asked] == [1.0]
        assert [one.sampling.temperature for one in own.asked] == [sampled]
