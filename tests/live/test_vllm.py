"""Against a real vLLM server:

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve BASE --enable-lora --max-lora-rank 16 --max-loras 2
    MEMKIT_VLLM_URL=http://127.0.0.1:8000 MEMKIT_VLLM_ADAPTER=/path/to/adapter pytest -m live tests/live/test_vllm.py

MEMKIT_VLLM_ADAPTER is a folder with a manifest and a probe for the served base, readable by the server.
"""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from memkit.adapters import AdapterSet, VLLMHost
from memkit.adapters.plan import MODEL_ROLES
from memkit.adapters.verify import inspect

URL, ADAPTER = os.environ.get("MEMKIT_VLLM_URL"), os.environ.get("MEMKIT_VLLM_ADAPTER")
pytestmark = [pytest.mark.live, pytest.mark.skipif(not URL, reason="MEMKIT_VLLM_URL names no server")]


def served_base() -> str:
    cards = httpx.get(f"{URL}/v1/models", timeout=10, trust_env=False).json()["data"]
    return next(card["id"] for card in cards if not card.get("parent"))


def test_scores_the_base_model() -> None:
    with VLLMHost(URL or "", base=served_base()) as host:
        ((first, second),) = host.score(None, [((1, 2, 3), (4, 5))])
        assert first < 0
        assert second < 0


@pytest.mark.skipif(not ADAPTER, reason="MEMKIT_VLLM_ADAPTER names no adapter")
def test_a_full_swap(tmp_path: Path) -> None:
    with VLLMHost(URL or "", base=inspect(ADAPTER or "").manifest.base.id) as host:  # type: ignore[union-attr]
        with AdapterSet(tmp_path / "adapters", host=lambda: (host, MODEL_ROLES)) as adapters:
            digest = adapters.publish(ADAPTER or "")
            report = adapters.promote("production", digest, ungated=True)
            assert report.state.proved
            assert digest in {one.name for one in host.resident()}
        host.unload(digest)
        assert digest not in {one.name for one in host.resident()}
