"""A random model that stops soon: it decides something valid under the grammar, in a few tokens, for no reason."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from memkit_train.lab.worlds import Episode, Knobs, generate
from memkit_train.learn.lora import LoraSpec
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk, of_world
from tests.tiny_models import tiny_checkpoint

SPEC = LoraSpec(r=4, alpha=8)
SMALL = Knobs(sessions=3, turns=3, extra_turns=0, probes=3, questions=4)


@functools.cache
def base() -> Path:
    """One constant channel runs through the model, and the output head turns it into a wish to end."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = tiny_checkpoint(Path(tempfile.mkdtemp()) / "base", hidden=32, layers=1, spread=0.02)
    model = AutoModelForCausalLM.from_pretrained(folder)
    embeddings = model.get_input_embeddings().weight.detach().clone()
    model.config.tie_word_embeddings = False
    head = torch.nn.Parameter(torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(0)) * 0.15)
    with torch.no_grad():
        embeddings[:, 0] = 1.0
        head[:, 0] = 0.0
        head[model.config.eos_token_id, 0] = 1.5
        model.get_input_embeddings().weight.copy_(embeddings)
    model.lm_head.weight = head
    model.save_pretrained(folder)
    return folder


@functools.cache
def world(count: int = 4, seed: int = 0, split: Any = "train") -> tuple[list[Episode], list[Talk]]:
    episodes = generate(count, seed=seed, knobs=SMALL, split=split)
    return episodes, of_world(episodes)


def settings(**more: Any) -> OnlineSettings:
    chosen: dict[str, Any] = {
        "others": "world",
        "reward": {"answerer": "exact"},
        "group": 4,
        "states": 5,
        "talks": 2,
        "refresh": 2,
        "rerolls": 2,
        "stages": [{"steps": 2}],
        "stop": {"every": 2, "users": 2, "m_fail": 2.0},
        "lr": 1e-2,
    }
    return OnlineSettings.model_validate({**chosen, **more})
