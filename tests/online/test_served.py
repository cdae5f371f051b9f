"""Rollouts on another machine: what a server samples teaches what the process itself would have sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file

from memkit.backbones.hf import HFBackbone
from memkit.backbones.wire import noise_seed
from memkit.errors import IncompatibleBase, InvalidConfig, ModelUnavailable
from memkit.seams.backbone import GenRequest, Replies
from memkit_train.lab.tiny import checkpoint
from memkit_train.rl import learner
from memkit_train.rl.run import Machine, Polished, polish
from tests.fakes.vllm_model import ModelVLLM
from tests.online import model

EPISODES, TALKS = model.world()
HELD_EPISODES, HELD = model.world(2, 1, "heldout")


class AsServed(HFBackbone):
    """Without a grammar, and with the noise that a server is told."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more, constrain=False)

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        told = [replace(one.sampling, seed=noise_seed(one.sampling.seed, one.key)) for one in requests]
        return super().generate([replace(r, key="", sampling=s) for r, s in zip(requests, told, strict=True)])


def run(folder: Path, **chosen: Any) -> Polished:
    stop = {"every": 2, "users": 1, "m_fail": 2.0}
    return polish(
        checkpoint("biased"),
        TALKS[:1],
        HELD[:1],
        folder,
        settings=model.settings(stages=[{"steps": 2}], refresh=1, states=4, stop=stop, **chosen),
        episodes=[*EPISODES, *HELD_EPISODES],
        spec=model.SPEC,
        machine=Machine(save_steps=2),
    )


def compare(folder: Path) -> tuple[float, float]:
    """How far a server's adapter is from this process's after two steps, and how far both have come."""
    torch.set_num_threads(1)
    with ModelVLLM(checkpoint("biased")) as server:
        there = run(folder / "there", rollouts=server.url)
        assert server.loras == {}, "what was published is withdrawn"
    with patch.object(learner, "HFBackbone", AsServed):
        here = run(folder / "here")
    assert there.generated == here.generated > 0
    ours, theirs = (
        load_file(folder / name / "stage-1" / "checkpoints" / "checkpoint-2" / "adapter_model.safetensors")
        for name in ("here", "there")
    )
    gap = max((ours[name] - theirs[name]).abs().max().item() for name in ours)
    return gap, max(tensor.abs().max().item() for name, tensor in ours.items() if "lora_B" in name)


def test_a_server_and_this_process_teach_the_same(tmp_path: Path) -> None:
    gap, moved = compare(tmp_path)
    assert gap <= 1e-4 < 1e-3 < moved


def test_a_server_that_does_not_say_what_it_sampled_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelVLLM(checkpoint("biased")) as server:
        real = server._complete
        monkeypatch.setattr(server, "_complete", lambda body: real({**body, "return_token_ids": False}))
        with pytest.raises(InvalidConfig, match="does not say what it sampled"):
            run(tmp_path, rollouts=server.url)
        assert server.loras == {}


def test_a_server_of_another_model_is_refused(tmp_path: Path) -> None:
    with ModelVLLM(checkpoint("skilled")) as server:
        with pytest.raises(IncompatibleBase, match="does not run the model under training"):
            run(tmp_path, rollouts=server.url)
        assert server.loras == {}


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:9 cannot be reached"):
        run(tmp_path, rollouts="http://127.0.0.1:9")
