"""Hosts by contract: vLLM against a faithful fake of its API, static servers, the in-process host is in test_hf.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit.adapters import AdapterHost, ScoringHost, StaticHost, VLLMHost
from memkit.adapters.hosts.vllm import resolvable, resolver_settings
from memkit.adapters.verify import inspect
from memkit.errors import AdapterRejected, HostFull, InvalidConfig, ModelUnavailable, ProbeFailed
from tests.adapters._make import MODULES, adapter, log_probs
from tests.adapters._sets import serving
from tests.fakes.vllm_server import FakeVLLM, error


@pytest.fixture
def server() -> Iterator[FakeVLLM]:
    with FakeVLLM() as server:
        yield server


def test_hosts_keep_the_contract() -> None:
    with VLLMHost("http://127.0.0.1:1", base="tiny") as host:
        assert isinstance(host, AdapterHost)
        assert isinstance(host, ScoringHost)
    assert isinstance(StaticHost(), AdapterHost)


def test_vllm_full_swap(server: FakeVLLM, tmp_path: Path) -> None:
    with VLLMHost(f"{server.url}/v1/", base="tiny") as host, serving(tmp_path / "store", host, keep=1) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        report = adapters.promote("production", b)
        assert report.state.proved
        assert "base" in report.unchecked, "vLLM does not tell the digest of its weights"
        assert set(server.loras) == {b}
        assert not any("load_inplace" in (body or {}) for _, _, body in server.requests)


def test_vllm_loading_twice_is_fine_and_unloading_the_unknown_too(server: FakeVLLM, tmp_path: Path) -> None:
    artifact = inspect(adapter(tmp_path / "a")).artifact
    with VLLMHost(server.url, base="tiny") as host:
        host.load(artifact)
        host.load(artifact)
        assert [one.name for one in host.resident()] == [artifact.name]
        host.unload(artifact.name)
        host.unload(artifact.name)
        assert host.resident() == []


def test_vllm_scores_the_completion_under_the_named_adapter(server: FakeVLLM, tmp_path: Path) -> None:
    artifact = inspect(adapter(tmp_path / "a")).artifact
    with VLLMHost(server.url, base="tiny") as host:
        host.load(artifact)
        weights = (artifact.path / "adapter_model.safetensors").read_bytes()
        assert host.score(artifact.name, [((1, 2), (5, 6))]) == [log_probs(weights, (5, 6))]
        assert host.score(None, [((1, 2), (5,))]) == [log_probs(None, (5,))]
        with pytest.raises(ModelUnavailable, match="does not exist"):
            host.score("f" * 64, [((1,), (5,))])


def test_vllm_that_ignores_the_adapter_fails_the_probe(server: FakeVLLM, tmp_path: Path) -> None:
    server.ignore_adapters = True
    with VLLMHost(server.url, base="tiny") as host, serving(tmp_path / "store", host) as adapters:
        with pytest.raises(ProbeFailed) as failed:
            adapters.promote("production", adapters.publish(adapter(tmp_path / "a")))
        assert failed.value.details["reason"] == "same_as_base"
        assert not server.loras, "what failed its probe does not stay"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("runtime_loading_off", HostFull), ("not_found_by_server", AdapterRejected), ("not_listed", HostFull)],
)
def test_vllm_documented_errors(fault: str, reason: type[Exception], server: FakeVLLM, tmp_path: Path) -> None:
    artifact = inspect(adapter(tmp_path / "a")).artifact
    where = str(artifact.path)
    if fault == "runtime_loading_off":
        server.runtime_loading = False
    elif fault == "not_found_by_server":
        where = "/not/there"
    else:
        server.swallow_loads = True
    with VLLMHost(server.url, base="tiny", path_of=lambda _: where) as host, pytest.raises(reason) as refused:
        host.load(artifact)
    assert refused.value.details["reason"] == fault  # type: ignore[attr-defined]


def test_vllm_rank_beyond_the_server_is_refused_before_it_is_asked(server: FakeVLLM, tmp_path: Path) -> None:
    with VLLMHost(server.url, base="tiny", max_rank=1) as host, serving(tmp_path / "store", host) as adapters:
        with pytest.raises(HostFull) as refused:
            adapters.promote("production", adapters.publish(adapter(tmp_path / "a")))
        assert refused.value.details["reason"] == "rank_unservable"
        assert not server.requests or all(method == "GET" for method, _, _ in server.requests)


def test_vllm_rank_beyond_what_the_server_admits(server: FakeVLLM, tmp_path: Path) -> None:
    server.max_lora_rank = 1
    with VLLMHost(server.url, base="tiny") as host, pytest.raises(HostFull) as refused:
        host.load(inspect(adapter(tmp_path / "a")).artifact)
    assert refused.value.details["reason"] == "rank_unservable"


def test_vllm_other_bytes_under_our_digest(server: FakeVLLM, tmp_path: Path) -> None:
    artifact = inspect(adapter(tmp_path / "a")).artifact
    server.loras[artifact.name] = "/somewhere/else"
    with VLLMHost(server.url, base="tiny") as host, pytest.raises(AdapterRejected) as refused:
        host.load(artifact)
    assert refused.value.details["reason"] == "other_files"
    assert artifact.name in server.loras, "not ours to unload"


@pytest.mark.parametrize("answer", [(500, "boom"), (502, "<html>"), error("engine died", "InternalServerError", 500)])
def test_vllm_unexpected_answers_are_model_errors(answer: tuple[int, object], server: FakeVLLM, tmp_path: Path) -> None:
    server.next_error = answer
    with VLLMHost(server.url, base="tiny") as host, pytest.raises(ModelUnavailable):
        host.load(inspect(adapter(tmp_path / "a")).artifact)


def test_vllm_needs_its_key(tmp_path: Path) -> None:
    artifact = inspect(adapter(tmp_path / "a")).artifact
    with FakeVLLM(api_key="secret") as server:
        with VLLMHost(server.url, base="tiny", api_key="secret") as host:
            host.load(artifact)
        with VLLMHost(server.url, base="tiny", api_key="wrong") as host, pytest.raises(ModelUnavailable) as refused:
            host.load(artifact)
        assert "wrong" not in str(refused.value)


def test_a_fleet_is_loaded_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    artifact = inspect(adapter(tmp_path / "a")).artifact
    with FakeVLLM() as one, FakeVLLM() as two:
        with VLLMHost([one.url, two.url], base="tiny") as host:
            two.swallow_loads = True
            with pytest.raises(HostFull):
                host.load(artifact)
            assert not one.loras
            two.swallow_loads = False
            assert host.load(artifact).places == (one.url, two.url)
            two.loras.clear()
            assert host.resident() == [], "an adapter that one replica lost is not resident"
        with VLLMHost([one.url, "http://127.0.0.1:9"], base="tiny") as host, pytest.raises(ModelUnavailable):
            host.load(inspect(adapter(tmp_path / "b", seed=2)).artifact)
        assert set(one.loras) == {artifact.name}


@pytest.mark.parametrize("broken", [0, 1])
def test_a_probe_must_hold_on_every_replica(broken: int, tmp_path: Path) -> None:
    with FakeVLLM() as one, FakeVLLM() as two, VLLMHost([one.url, two.url], base="tiny") as host:
        (one, two)[broken].ignore_adapters = True
        with serving(tmp_path / "store", host) as adapters, pytest.raises(ProbeFailed):
            adapters.promote("production", adapters.publish(adapter(tmp_path / "a")))
        assert not one.loras
        assert not two.loras


def test_an_unreachable_server_leaves_the_alias_and_is_tried_again(tmp_path: Path) -> None:
    with VLLMHost("http://127.0.0.1:9", base="tiny") as host, serving(tmp_path / "store", host) as adapters:
        digest = adapters.publish(adapter(tmp_path / "a"))
        with pytest.raises(ModelUnavailable):
            adapters.promote("production", digest)
        assert adapters.registry.alias("production").version == 0


def test_the_registry_is_laid_out_for_vllms_filesystem_resolver(tmp_path: Path) -> None:
    with serving(tmp_path / "store", None) as adapters:
        digest = adapters.publish(adapter(tmp_path / "a"))
        folder = Path(resolver_settings(adapters.registry.root)["VLLM_LORA_RESOLVER_CACHE_DIR"]) / digest
        assert (folder / "adapter_config.json").is_file()
        assert resolvable(folder, "tiny")
        assert not resolvable(folder, "other")


def test_vllm_rejects_a_rank_that_vllm_would_not_start_with() -> None:
    with pytest.raises(InvalidConfig):
        VLLMHost("http://127.0.0.1:1", base="tiny", max_rank=12)


def test_static_servers_only_route(tmp_path: Path) -> None:
    digest = inspect(adapter(tmp_path / "a")).manifest.digest
    host = StaticHost({digest: "memory-v7"}, base="qwen", naming="base:adapter")
    assert host.model_name(digest) == "qwen:memory-v7"
    with serving(tmp_path / "store", host) as adapters:
        adapters.publish(tmp_path / "a")
        with pytest.raises(Exception, match="another base"):
            adapters.promote("production", digest)
    host = StaticHost({digest: "memory-v7"})
    with serving(tmp_path / "store", host) as adapters:
        report = adapters.promote("production", digest)
        assert not report.state.proved, "a static server cannot be probed"
        with adapters.resolve("manager", "ana") as lease:
            assert host.model_name(lease.name or "") == "memory-v7"
        other = adapters.publish(adapter(tmp_path / "b", seed=2))
        with pytest.raises(HostFull) as refused:
            adapters.promote("production", other)
        assert refused.value.details["reason"] == "not_on_server"


def test_the_fixtures_modules_are_what_vllm_adapts() -> None:
    assert {module.rsplit(".", 1)[-1] for module in MODULES} <= (
        VLLMHost("http://127.0.0.1:1", base="tiny").capabilities().target_modules or set()
    )
