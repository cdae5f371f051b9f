"""Real adapters for a real engine: trained by nobody, but with manifests and probes as a trainer leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memkit.adapters import AdapterSet, Probe, ProbeCase, Serving, build_adapter, write_probe
from memkit.adapters.hosts.peft import PeftHost
from memkit.adapters.plan import MODEL_ROLES
from memkit.backbones.hf import ScoreRequest
from memkit.roles import role_prompt_hashes
from tests.bench._engine import ask
from tests.tiny_models import tiny_adapter

SERVING = Serving(prompt_hashes=role_prompt_hashes, embedder="hash/1:384", store_schema=1)


def made(engine: Any, folder: Path, seed: int, *, base: Path, rank: int = 4, gated: bool = True) -> Path:
    """A folder ready to be published."""
    raw, ready = folder / f"raw-{seed}", folder / f"ready-{seed}"
    if ready.is_dir():
        return ready
    tiny_adapter(raw, base=base, seed=seed, rank=rank)
    engine.load_adapter("training", raw)
    try:
        replies = engine.generate([ask(user, words=6, max_tokens=16, adapter="training") for user in range(2)])
        pairs = [(reply.prompt_ids, reply.token_ids) for reply in replies]
        scores = engine.score([ScoreRequest(prompt, tokens, "training") for prompt, tokens in pairs])
    finally:
        engine.unload_adapter("training")
    cases = tuple(
        ProbeCase(prompt_ids=prompt, token_ids=tokens, logprobs=tuple(map(float, score)))
        for (prompt, tokens), score in zip(pairs, scores, strict=True)
    )
    write_probe(raw, Probe(cases=cases, tolerance=0.01))
    roles = ["extractor", "manager", "answerer"]
    hashes = {role: version for role, version in role_prompt_hashes().items() if role in roles}
    text = {"tokenizer_digest": engine.tokenizer_digest, "template_digest": engine.template_digest}
    about = {
        "kind": "lora",
        "created_at": "2026-01-01T00:00:00+00:00",
        "roles": roles,
        "base": {"id": "tiny", "digest": engine.base_digest},
        "text": text | {"prompt_hashes": hashes},
        "retrieval": {"embedder": "hash/1:384", "store_schema": 1},
        "gates": [{"name": "format_validity", "passed": True}] if gated else [],
        "training": {"seed": seed},
    }
    build_adapter(raw, ready, about)
    return ready


def opened(engine: Any, root: Path, **options: Any) -> AdapterSet:
    host = PeftHost(engine)
    return AdapterSet(root, host=lambda: (host, MODEL_ROLES), **({"serving": SERVING} | options))
