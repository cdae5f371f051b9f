"""Adapters of the in-process backbone: right per request, never mixed, refused before they can do harm."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")

import torch

from memkit.adapters.hosts.base import AdapterArtifact, AdapterHost, ScoringHost
from memkit.adapters.hosts.peft import PeftHost
from memkit.backbones.hf import HFBackbone, ScoreRequest
from memkit.errors import AdapterRejected, HostFull, InvalidConfig, ModelRefused
from memkit.roles.base import ChatMessage, Prompt, View
from memkit.seams.backbone import GenRequest, all_or_error
from tests.tiny_models import tiny_adapter, tiny_checkpoint


def request(index: int, adapter: str | None, *, max_tokens: int = 16) -> GenRequest:
    messages = (ChatMessage("user", f"{index}: what does Ana like?"),)
    return GenRequest(
        Prompt("answerer", "compact", "test/1", messages, None, None, max_tokens, View()), adapter=adapter
    )


def ids(model: HFBackbone, requests: list[GenRequest]) -> list[tuple[int, ...] | None]:
    return [reply.token_ids for reply in model.generate(requests)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def folders(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("adapters")
    return {name: tiny_adapter(root / name, base=base, seed=seed) for seed, name in enumerate("abc", start=1)}


@pytest.fixture
def model(base: Path) -> Iterator[HFBackbone]:
    torch.set_num_threads(1)
    with HFBackbone(base, threads=1) as backbone:
        yield backbone


def test_each_request_gets_its_adapter_in_one_batch(model: HFBackbone, folders: dict[str, Path], base: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    names = [None, "a", "b", "a", None, "b"]
    for name in ("a", "b"):
        model.load_adapter(name, folders[name])
    replies = model.generate([request(index, name) for index, name in enumerate(names)])
    assert [reply.adapter for reply in replies] == names
    for index, (name, reply) in enumerate(zip(names, replies, strict=True)):
        assert model.generate([request(index, name)])[0].token_ids == reply.token_ids
        plain: Any = AutoModelForCausalLM.from_pretrained(base)
        if name is not None:
            plain = PeftModel.from_pretrained(plain, folders[name])
        assert reply.prompt_ids
        assert reply.token_ids
        with torch.no_grad():
            logits = plain(torch.tensor([[*reply.prompt_ids, *reply.token_ids]])).logits[0]
        expected = logits[len(reply.prompt_ids) - 1 : -1].argmax(-1).tolist()
        assert tuple(expected) == reply.token_ids


def test_merged_is_the_same_adapter(model: HFBackbone, folders: dict[str, Path]) -> None:
    model.load_adapter("a", folders["a"])
    asked = [request(index, "a") for index in range(6)]
    untouched = ids(model, [request(index, None) for index in range(6)])
    before = ids(model, asked)
    assert before != untouched
    model.merge_adapter("a")
    assert model.resident() == {"a": True}
    assert ids(model, asked) == before
    assert ids(model, [request(index, None) for index in range(6)]) == untouched
    assert model.generate([request(0, "a")])[0].extra["merged"] is True


def test_scores_are_those_of_the_named_adapter(model: HFBackbone, folders: dict[str, Path]) -> None:
    for name in ("a", "b"):
        model.load_adapter(name, folders[name])
    for name in (None, "a", "b"):
        reply = model.generate([request(1, name)])[0]
        assert reply.prompt_ids
        assert reply.token_ids
        assert reply.logprobs
        scored = {
            other: model.score([ScoreRequest(reply.prompt_ids, reply.token_ids, other)])[0]
            for other in (None, "a", "b")
        }
        assert scored[name] == pytest.approx(reply.logprobs, abs=1e-4)
        assert all(scored[other] != pytest.approx(reply.logprobs, abs=1e-1) for other in scored if other != name)


@pytest.mark.parametrize("swaps", [25, pytest.param(400, marks=pytest.mark.slow)])
def test_no_output_mixes_adapters_while_they_are_swapped(
    model: HFBackbone, folders: dict[str, Path], swaps: int
) -> None:
    """16 threads generate with whatever is current; another one loads, points to the new name, drains and unloads."""
    expected: dict[str, list[tuple[int, ...] | None]] = {}
    for name in ("a", "b"):
        model.load_adapter(name, folders[name])
        expected[name] = ids(model, [request(index, name) for index in range(16)])
        model.unload_adapter(name)
    guard, leases = threading.Condition(), {"v0": 0}
    weights_of = {"v0": "a"}
    model.load_adapter("v0", folders["a"])
    current = ["v0"]
    wrong: list[str] = []
    done = threading.Event()
    served = [0]

    def user(index: int) -> None:
        while not done.is_set():
            with guard:
                name = current[0]
                leases[name] += 1
            try:
                reply = model.generate([request(index, name)])[0]
                if reply.adapter != name or reply.token_ids != expected[weights_of[name]][index]:
                    wrong.append(f"{name}: {reply.token_ids}")
            except Exception as error:
                wrong.append(repr(error))
            with guard:
                leases[name] -= 1
                served[0] += 1
                guard.notify_all()

    threads = [threading.Thread(target=user, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for version in range(1, swaps + 1):
        old, new = f"v{version - 1}", f"v{version}"
        weights_of[new] = "ab"[version % 2]
        model.load_adapter(new, folders[weights_of[new]], merged=version % 5 == 0)
        with guard:
            leases[new] = 0
            current[0] = new
            guard.wait_for(lambda old=old: leases[old] == 0)
        model.unload_adapter(old)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert served[0] > swaps
    assert list(model.resident()) == [f"v{swaps}"]


def test_unloading_leaves_running_replies_alone(model: HFBackbone, folders: dict[str, Path]) -> None:
    model.load_adapter("a", folders["a"])
    expected = ids(model, [request(3, "a", max_tokens=200)])[0]
    future = model.submit(request(3, "a", max_tokens=200))
    model.unload_adapter("a")
    model.unload_adapter("a")
    assert future.result(timeout=30).token_ids == expected
    with pytest.raises(ModelRefused, match="not loaded"):
        all_or_error(model.generate([request(3, "a")]))


def test_bytes_behind_a_name_never_change(model: HFBackbone, folders: dict[str, Path]) -> None:
    model.load_adapter("a", folders["a"])
    model.load_adapter("a", folders["a"])
    with pytest.raises(InvalidConfig, match="already loaded"):
        model.load_adapter("a", folders["b"])


def test_room_is_limited(base: Path, folders: dict[str, Path]) -> None:
    with HFBackbone(base, threads=1, max_adapters=1) as small:
        small.load_adapter("a", folders["a"])
        with pytest.raises(HostFull, match="most"):
            small.load_adapter("b", folders["b"])
        small.unload_adapter("a")
        small.load_adapter("b", folders["b"])


def test_harmful_or_broken_adapters_are_refused(model: HFBackbone, folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    before = ids(model, [request(index, None) for index in range(4)])
    good = load_file(folders["a"] / "adapter_model.safetensors")
    settings = json.loads((folders["a"] / "adapter_config.json").read_text())
    first = sorted(good)[0]
    cases: dict[str, tuple[dict[str, Any], dict[str, Any], type[Exception]]] = {
        "nan": ({**good, first: good[first] * float("nan")}, settings, AdapterRejected),
        "shape": ({**good, first: good[first][:-1].clone()}, settings, AdapterRejected),
        "missing": ({key: value for key, value in good.items() if key != first}, settings, AdapterRejected),
        "extra": ({**good, first.replace("layers.0", "layers.9"): good[first].clone()}, settings, AdapterRejected),
        "base tensor": ({**good, "base_model.model.model.norm.weight": torch.zeros(64)}, settings, HostFull),
        "bias": (good, {**settings, "bias": "all"}, HostFull),
        "replication": (good, {**settings, "layer_replication": [[0, 2]]}, HostFull),
        "import": (good, {**settings, "megatron_config": {"a": 1}}, HostFull),
        "modules": (good, {**settings, "modules_to_save": ["lm_head"]}, HostFull),
        "no target": (good, {**settings, "target_modules": ["no_such"]}, AdapterRejected),
        "kind": (good, {**settings, "peft_type": "IA3"}, HostFull),
    }
    for name, (tensors, config, error) in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        save_file(tensors, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps(config))
        with pytest.raises(error):
            model.load_adapter(name, folder)
    (tmp_path / "nan" / "adapter_model.safetensors").write_bytes(b"no safetensors")
    with pytest.raises(AdapterRejected):
        model.load_adapter("garbage", tmp_path / "nan")
    with pytest.raises(AdapterRejected):
        model.load_adapter("absent", tmp_path / "absent")
    assert model.resident() == {}
    assert ids(model, [request(index, None) for index in range(4)]) == before


def test_the_host_speaks_the_protocol(model: HFBackbone, folders: dict[str, Path]) -> None:
    host = PeftHost(model)
    assert isinstance(host, AdapterHost)
    assert isinstance(host, ScoringHost)
    limits = host.capabilities()
    assert limits.base_digest == model.base_digest
    assert "q_proj" in (limits.target_modules or ())
    assert (limits.module_shapes or {})["model.layers.0.mlp.down_proj"] == (64, 192)
    loaded = host.load(AdapterArtifact("digest-a", folders["a"], 4, 8.0, ("q_proj",), 1))
    assert loaded.name == "digest-a"
    assert loaded.bytes
    assert 20_000 < loaded.bytes < 60_000
    assert [adapter.name for adapter in host.resident()] == ["digest-a"]
    reply = model.generate([request(0, "digest-a")])[0]
    assert host.score("digest-a", [(reply.prompt_ids or (), reply.token_ids or ())])[0] == pytest.approx(
        reply.logprobs, abs=1e-4
    )
    host.merge("digest-a")
    host.unload("digest-a")
    assert host.resident() == []
