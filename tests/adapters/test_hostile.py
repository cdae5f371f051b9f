"""Adapters are untrusted input: what is refused, why, and that nothing of it reaches the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memkit.adapters import AdapterSet
from memkit.adapters.verify import inspect
from memkit.errors import AdapterError
from tests.adapters._hostile import HOSTILE
from tests.adapters._make import FakeHost, adapter
from tests.adapters._sets import serving


@pytest.mark.parametrize("reason", HOSTILE)
def test_hostile_adapters_are_refused_before_the_host_sees_them(reason: str, tmp_path: Path) -> None:
    host = FakeHost()
    with serving(tmp_path / "store", host) as adapters:
        good = adapters.publish(adapter(tmp_path / "good"))
        adapters.promote("production", good)
        calls = list(host.calls)
        folder = HOSTILE[reason](tmp_path / "hostile")

        with pytest.raises(AdapterError) as refused:
            adapters.promote("production", adapters.publish(folder))

        assert refused.value.details["reason"] == reason
        assert host.calls == calls
        with adapters.resolve("manager", "ana") as lease:
            assert (lease.name, lease.version) == (good, 1)


def test_there_are_forty_of_them() -> None:
    assert len(HOSTILE) >= 40


def test_an_adapter_that_changes_after_it_was_published_is_not_loaded(tmp_path: Path) -> None:
    host = FakeHost()
    with serving(tmp_path / "store", host) as adapters:
        digest = adapters.publish(adapter(tmp_path / "good"))
        weights = adapters.registry.path(digest) / "adapter_model.safetensors"
        weights.chmod(0o644)
        weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
        with pytest.raises(AdapterError, match="changed"):
            adapters.promote("production", digest)
        assert adapters.verify()[0][1]
        assert not host.calls


@pytest.mark.slow
def test_files_of_a_real_peft_adapter_pass(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from memkit.adapters import build_adapter
    from tests.adapters._make import manifest
    from tests.tiny_models import tiny_adapter, tiny_checkpoint

    base = tiny_checkpoint(tmp_path / "base")
    made = build_adapter(tiny_adapter(tmp_path / "peft", base=base), tmp_path / "ready", manifest())
    verified = inspect(tmp_path / "ready")
    assert set(made.files) == {"adapter_config.json", "adapter_model.safetensors"}
    assert (verified.rank, len(verified.pairs)) == (4, 14)


def test_verifying_needs_no_torch(tmp_path: Path) -> None:
    adapter(tmp_path / "good")
    code = (
        f"from memkit.adapters import inspect; inspect({str(tmp_path / 'good')!r}); import sys;"
        "assert not {'torch', 'peft', 'safetensors', 'transformers', 'httpx', 'lancedb'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_imports_without_its_dependencies() -> None:
    code = "import memkit.adapters, sys; assert not {'pydantic', 'numpy', 'httpx', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_fixture_itself_is_accepted(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        assert isinstance(adapters, AdapterSet)
        report = adapters.promote("production", adapters.publish(adapter(tmp_path / "good")))
        assert report.state.proved
        assert report.unchecked == ()
