"""A published adapter is complete: it verifies, loads in the runtime, passes its probe there, names its subjects."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memkit.adapters import Registry
from memkit.adapters.hosts.peft import PeftHost
from memkit.adapters.probe import read_probe, run_probe
from memkit.adapters.promotion import promote
from memkit.adapters.verify import Serving, check_serving, inspect
from memkit.backbones.hf import HFBackbone
from memkit.errors import GateRefused
from memkit.roles import role_prompt_hashes
from memkit_train.errors import NoEffect
from memkit_train.gate.checks import Limits, Verdict, gate
from memkit_train.retrain.publish import Lineage, Published, describe_model, publish
from tests.train import tiny

PAIRS = [((5, 6, 7, 8 + n), (9, 10 + n, 11)) for n in range(20)]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def verdict(passed: bool) -> Verdict:
    better = {"answer_f1": {f"u{n}": [0.9, 1.0] for n in range(4)}}
    worse = {"answer_f1": {f"u{n}": [0.1, 0.2] for n in range(4)}}
    limits = Limits(min_probes=4, min_users=2)
    return gate(better, worse, limits=limits) if passed else gate(worse, better, limits=limits)


def published(registry: Registry, adapter: Path | None = None, **more: Any) -> Published:
    roles: list[Any] = ["extractor", "manager"]
    parts = describe_model(adapter or tiny.adapter(), tiny.base(), more.pop("probe_pairs", PAIRS), roles, device="cpu")
    given: dict[str, Any] = {
        "roles": roles,
        "embedder": "hash/1:384",
        "lineage": Lineage("sft", "store", 0, 90, {"rows": 4}, ["s2", "s1"], None, 7, {"lr": 0.1}),
        "verdict": verdict(True),
        "report": {"cases": []},
        "now": NOW,
    }
    return publish(registry, adapter or tiny.adapter(), parts, **{**given, **more})


def test_it_is_what_the_runtime_serves(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    made = published(registry)
    verified = inspect(made.path, expected=made.digest)
    manifest = verified.manifest
    assert manifest.gated
    assert manifest.data is not None
    assert (manifest.data.subjects, manifest.data.seq_last) == (("s1", "s2"), 90)
    assert manifest.training.algorithm == "sft"
    assert registry.aliases() == {}, "publishing promotes nothing"
    with HFBackbone(tiny.base(), threads=1, device="cpu") as backbone:
        serving = Serving(
            base_digest=backbone.base_digest,
            tokenizer_digest=backbone.tokenizer_digest,
            template_digest=backbone.template_digest,
            prompt_hashes=role_prompt_hashes,
            embedder="hash/1:384",
            store_schema=1,
        )
        assert check_serving(manifest, serving) == ()
        host = PeftHost(backbone)
        host.load(verified.artifact)
        result = run_probe(host, made.digest, read_probe(made.path))
        assert result.from_trainer < 1e-4 < result.from_base
    promote(registry, "production", made.digest)
    registry.close()


def test_an_adapter_that_failed_its_gates_is_on_record_and_not_promoted(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    made = published(registry, verdict=verdict(False))
    with pytest.raises(GateRefused, match="target"):
        promote(registry, "production", made.digest)
    registry.close()


def test_an_adapter_without_effect_is_not_published(tmp_path: Path) -> None:
    from memkit_train.learn import lora

    lora.save(tiny.model(), tmp_path / "fresh")
    registry = Registry(tmp_path / "registry")
    with pytest.raises(NoEffect, match="does nothing"):
        published(registry, tmp_path / "fresh")
    assert registry.digests() == []
    assert not list((tmp_path / "registry").glob(".incoming*"))
    registry.close()


def test_erasing_a_subject_marks_the_adapters_that_saw_it_and_no_other(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    one, other = published(registry), published(registry, lineage=Lineage("sft", subjects=["s3"]))
    assert list(registry.taint("s1")) == [one.digest]
    assert registry.taints(other.digest) == [] or registry.taints(other.digest) == ()
    with pytest.raises(GateRefused, match="erased"):
        promote(registry, "production", one.digest)
    registry.close()
