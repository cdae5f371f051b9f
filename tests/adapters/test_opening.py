"""Which model in this process hosts adapters, and so is the one that explores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.adapters import Registry, build_adapter
from memkit.adapters.opening import own_host
from memkit.adapters.plan import with_stable
from memkit.backbones.routed import RoutedBackbone
from memkit.errors import InvalidConfig, InvalidInput, StoreDamaged
from memkit.retrieval import RankerWeights
from memkit.seams.backbone import GenReply, GenRequest, Replies
from tests.adapters._make import adapter


class Says:
    """A model behind an endpoint: it cannot learn."""

    identity, style, max_parallel = "says", "compact", 1

    def __init__(self, text: str = "NONE") -> None:
        self.text, self.asked = text, list[GenRequest]()

    def generate(self, requests: list[GenRequest]) -> Replies:
        self.asked += requests
        return [GenReply(self.text) for _ in requests]

    def close(self) -> None: ...


class Local(Says):
    """A model in this process, as far as hosting goes."""

    identity = "local"

    def load_adapter(self, name: str, path: Any) -> None: ...


def test_of_two_models_in_this_process_the_one_that_manages_hosts_adapters() -> None:
    pytest.importorskip("torch", reason="needs the extra local")
    manager, own = Local(), Local()
    host, roles = own_host(RoutedBackbone({"manager": manager}, own))
    assert roles == {"manager"}
    assert host is not None
    assert host.engine is manager  # type: ignore[attr-defined]


def test_only_what_learns_is_sampled(tmp_path: Path) -> None:
    """Noise in the app's own model would be logged as what users said, and teach nothing."""
    pytest.importorskip("torch", reason="needs the extra local")
    for name, manager, sampled in (("split", Local("ADD"), 0.0), ("hosted", Says("ADD"), 1.0)):
        own = Says("1 Ana lives in Oslo.")
        with Memory(tmp_path / name, model=RoutedBackbone({"manager": manager}, own), explore=1.0) as memory:
            memory.add("I moved to Oslo", user_id="ana")
        assert [one.sampling.temperature for one in manager.asked] == [1.0]
        assert [one.sampling.temperature for one in own.asked] == [sampled]


def test_a_name_that_can_never_serve_is_refused_before_there_is_an_adapter(tmp_path: Path) -> None:
    for alias in ("Production", "", "../x", 5):
        with pytest.raises(InvalidInput):
            Memory(tmp_path / "s", alias=alias)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with Memory(tmp_path / "s", adapters=tmp_path / "file") as memory, pytest.raises(InvalidConfig, match="be kept in"):
        memory.search("tea", user_id="ana")


def test_what_is_damaged_beside_the_adapters_is_named_by_every_verb_and_by_the_doctor(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        registry = memory.adapters.registry
        digest = registry.publish(adapter(tmp_path / "a"))
        registry.move("production", lambda routes: with_stable(routes, digest, ("manager",)), roles=("manager",))
        assert memory.doctor() == []
        weights = registry.path(digest) / "adapter_model.safetensors"
        weights.chmod(0o644)
        weights.write_bytes(weights.read_bytes()[:-1] + b"?")
        assert [problem.code for problem in memory.doctor()] == ["adapter_damaged"]
    kept = tmp_path / "s" / "adapters" / "registry.sqlite"
    whole = kept.read_bytes()
    kept.write_bytes(b"no database " * 1000)
    with Memory(tmp_path / "s") as memory:
        with pytest.raises(StoreDamaged, match="is damaged"):
            memory.search("tea", user_id="ana")
        assert [problem.code for problem in memory.doctor()] == ["adapters_unreadable"]
    kept.write_bytes(whole)
    with Memory(tmp_path / "s") as memory:
        (kept.parent / "shadow.sqlite").write_bytes(b"no database " * 1000)
        with pytest.raises(StoreDamaged, match="delete it"):
            memory.erase(user_id="ana")


@pytest.mark.parametrize("manifest", [{}, {"kind": "ranker", "roles": ["ranker"], "created_at": object()}])
def test_what_is_handed_in_to_be_built_or_published_is_checked(tmp_path: Path, manifest: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="no manifest"):
        build_adapter(tmp_path, tmp_path / "made", manifest)
    whole = {"kind": "ranker", "roles": ["ranker"], "created_at": "2026-01-01T00:00:00+00:00"}
    with pytest.raises(InvalidInput, match="cannot be made"):
        build_adapter(tmp_path, tmp_path, whole)
    with pytest.raises(InvalidConfig, match="weight"):
        RankerWeights.of("mine", {"words": "5"})  # type: ignore[dict-item]
    for source in (None, 5, ""):
        with pytest.raises(InvalidInput, match="no path"):
            Registry(tmp_path / "kept").publish(source)  # type: ignore[arg-type]
