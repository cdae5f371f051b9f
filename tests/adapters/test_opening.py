"""Which model in this process hosts adapters."""

from __future__ import annotations

from typing import Any

from memkit.adapters.opening import own_host
from memkit.backbones.routed import RoutedBackbone


class Local:
    """A model in this process, as far as hosting goes."""

    identity, style, max_parallel = "local", "compact", 1

    def generate(self, requests: Any) -> list[Any]:
        return []

    def load_adapter(self, name: str, path: Any) -> None: ...

    def close(self) -> None: ...


def test_of_two_models_in_this_process_the_one_that_manages_hosts_adapters() -> None:
    manager, own = Local(), Local()
    host, roles = own_host(RoutedBackbone({"manager": manager}, own))
    assert roles == {"manager"}
    assert host is not None
    assert host.engine is manager  # type: ignore[attr-defined]
