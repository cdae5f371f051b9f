"""TRL's trainer by memkit's command: what it samples teaches what memkit's own engine would have learned from it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from trl.trainer.grpo_trainer import GRPOTrainer

from memkit.backbones.hf import checkpoint
from memkit.embedders import make_embedder
from memkit.errors import InvalidConfig
from memkit.roles.base import ChatMessage
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit_train.files.run_folder import RunFolder
from memkit_train.learn import lora
from memkit_train.learn.steps import FixedSteps
from memkit_train.replay.env import Env, Policy
from memkit_train.rl.acting import Acting, Stopwatch
from memkit_train.rl.decisions import Decisions
from memkit_train.rl.engines.frozen import Scorer
from memkit_train.rl.engines.own import OwnEngine
from memkit_train.rl.engines.stage import Machine
from memkit_train.rl.engines.trl import Drawn, spread
from memkit_train.rl.pool import Place
from memkit_train.rl.run import Polished, polish
from memkit_train.rl.scoring import others, scoring
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rows import Row
from tests.online import model
from tests.train import test_processes
from tests.zoo import ZOO, build

EPISODES, TALKS = model.world()
HELD_EPISODES, HELD = model.world(2, 1, "heldout")
WORLD = [*EPISODES, *HELD_EPISODES]
CHOSEN: dict[str, Any] = {"engine": "trl", "roles": ["manager"], "group": 6, "states": 4}


def speaking(name: str, folder: Path) -> Path:
    """Without a grammar to keep it, the model adds or leaves alone, by chance: one channel is the same for every token,
    another tells that something was said, and the head reads both."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    build(ZOO[name], folder)
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder)
    said = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["ADD", "NOOP"])
    table, head = loaded.get_input_embeddings().weight, loaded.get_output_embeddings().weight
    with torch.no_grad():
        table[:, 1], head[:, :2] = 0.0, 0.0
        table[said, 1] = 1.0
        head[said, :2] = torch.tensor([[8.0, -16.0], [7.9, -15.5]])  # equal ones would leave noise as a gradient
        head[loaded.generation_config.eos_token_id, 1] = 16.0
        for layer in loaded.modules():
            for written in ("down_proj", "o_proj"):
                if isinstance(getattr(layer, written, None), torch.nn.Linear):
                    getattr(layer, written).weight[:2] = 0.0
    loaded.save_pretrained(folder)
    return folder


def chosen(**more: Any) -> OnlineSettings:
    return model.settings(**{**CHOSEN, "stop": {"every": 2, "users": 1, "m_fail": 2.0}, **more})


def run(base: Path, folder: Path, **more: Any) -> Polished:
    return polish(base, TALKS, HELD, folder, settings=chosen(**more), episodes=WORLD, spec=model.SPEC)


@dataclass
class Seen:
    """What went through TRL: states and replies, and what it made of their worth."""

    places: Sequence[Place] = ()
    drawn: list[list[Drawn]] = field(default_factory=list[list[Drawn]])
    advantages: list[list[float]] = field(default_factory=list[list[float]])


def watch(base: Path, folder: Path) -> Seen:
    seen, score, made = Seen(), Scorer.advantages, GRPOTrainer._generate_and_score_completions

    def scored(self: Scorer, drawn: Sequence[Drawn]) -> list[float | None]:
        seen.places = self.places
        seen.drawn.append(list(drawn))
        return score(self, drawn)

    def generated(self: Any, inputs: Any) -> Any:
        out = made(self, inputs)
        seen.advantages.append(out["advantages"].tolist())
        return out

    with (
        patch.object(Scorer, "advantages", scored),
        patch.object(GRPOTrainer, "_generate_and_score_completions", generated),
    ):
        assert run(base, folder).generated == sum(map(len, seen.drawn))
    return seen


class Saying:
    """Replies what TRL sampled, for the same prompts in the same order."""

    identity, style, max_parallel = "said", "compact", 1 << 20

    def __init__(self, base: Path) -> None:
        self._loaded = checkpoint.load(base, dtype="float32", device="cpu")
        self._left: dict[tuple[ChatMessage, ...], deque[tuple[int, ...]]] = defaultdict(deque)

    def expect(self, places: Sequence[Place], drawn: Sequence[Drawn]) -> None:
        for at, ids in drawn:
            call = places[at].call
            assert call is not None
            self._left[call.prompt.messages].append(ids)

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._reply(one) for one in requests]

    def _reply(self, request: GenRequest) -> GenReply:
        if "#" in request.key:
            return GenReply("NOOP")
        ids = self._left[request.prompt.messages].popleft()
        said = [one for one in ids if one not in self._loaded.stop_ids]
        finish = "stop" if ids[-1] in self._loaded.stop_ids else "length"
        return GenReply(self._loaded.tokenizer.decode(said), prompt_ids=(1,), token_ids=ids, finish=finish)

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Drawing:
    """A pool from which TRL has drawn."""

    steps: Sequence[Sequence[Place]]
    played: Sequence[Any] = ()

    def due(self, batch: int) -> bool:
        return False

    def draw(self, batch: int, count: int) -> Sequence[Place]:
        return self.steps[batch]


def learn_here(base: Path, folder: Path, seen: Seen) -> tuple[dict[str, torch.Tensor], list[list[Row]]]:
    """The same replies through memkit's own sampler, algorithm and trainer."""
    settings, saying = chosen(engine="memkit"), Saying(base)
    acting = Acting(saying, settings.roles, Stopwatch(), others("world", WORLD))
    env = Env(make_embedder("hash"))
    size = settings.group
    steps = [[seen.places[drawn[at][0]] for at in range(0, len(drawn), size)] for drawn in seen.drawn]
    pool: Any = Drawing(steps)
    sampler = Decisions(env, pool, scoring(settings.reward, env, acting, WORLD), settings, 0)
    policy, rows = Policy(acting, "policy", 1.0, roles=settings.roles), list[list[Row]]()
    for batch, drawn in enumerate(seen.drawn):
        saying.expect(seen.places, drawn)
        rows.append(list(sampler.sample(batch, policy, frozenset(settings.roles)).rows))
    loaded = checkpoint.load(base, dtype="float32", device="cpu")
    trained = lora.attach(loaded.model, model.SPEC, seed=0)
    stage = OwnEngine(settings, settings.stages[0], model.SPEC, Machine(), 0, folder, RunFolder(folder, {}), None, 0)
    prompts = _prompts(seen, base)
    stage._trainer(trained, FixedSteps([[_at(row, prompts) for row in step] for step in rows]), []).train()
    return {name: tensor.detach() for name, tensor in lora.trainable(trained).items()}, rows


def _prompts(seen: Seen, base: Path) -> dict[str, tuple[int, ...]]:
    from memkit.backbones.hf.prompting import Prompter

    prompter = Prompter(checkpoint.load(base, dtype="float32", device="cpu").tokenizer)
    return {one.key: prompter.ids(one.call.prompt.messages) for one in seen.places if one.call is not None}


def _at(row: Row, prompts: dict[str, tuple[int, ...]]) -> Row:
    return Row(prompts[row.group], row.completion_ids, None, row.advantage, row.weight, row.group, row.role)


def compare(base: Path, folder: Path) -> tuple[float, float, float]:
    """How far advantages and adapter are from memkit's own, and how far the adapter has come."""
    torch.set_num_threads(1)
    seen = watch(base, folder / "there")
    ours, rows = learn_here(base, folder / "here", seen)
    theirs = load_file(folder / "there" / "stage-1" / "checkpoints" / "checkpoint-2" / "adapter_model.safetensors")
    named = {name.replace(".default", ""): tensor for name, tensor in ours.items()}
    assert named.keys() == theirs.keys()
    gap = max((named[name] - theirs[name]).abs().max().item() for name in named)
    far = 0.0
    for drawn, given, step in zip(seen.drawn, seen.advantages, rows, strict=True):
        scale = spread([one if abs(one) > 1e-5 else 0.0 for one in given], drawn)
        factor = next(a / b for a, b in zip(scale, given, strict=True) if a and abs(b) > 1e-5)
        found = sorted(
            (seen.places[at].key, ids, value / factor)
            for (at, ids), value in zip(drawn, given, strict=True)
            if abs(value) > 1e-5
        )
        wanted = sorted((row.group, row.completion_ids, row.advantage) for row in step)
        assert [one[:2] for one in found] == [one[:2] for one in wanted]
        far = max(far, *(abs(a[2] - b[2]) for a, b in zip(found, wanted, strict=True)))  # type: ignore[operator]
    return far, gap, max(tensor.abs().max().item() for name, tensor in named.items() if "lora_B" in name)


@pytest.mark.parametrize("name", ["qwen2", pytest.param("llama3", marks=pytest.mark.slow), "gemma3"])
def test_the_same_samples_teach_the_same(name: str, tmp_path: Path) -> None:
    far, gap, moved = compare(speaking(name, tmp_path / "base"), tmp_path)
    assert far <= 1e-5
    assert gap <= 1e-4 < 1e-3 < moved


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"algorithm": "ppo"}, "algorithm: grpo"),
        ({"roles": ["extractor", "manager"]}, "one role"),
        ({"reward": {"horizon": "played"}}, "immediate"),
        ({"trl": {"learning_rate": 1e-5}}, "online.lr"),
        ({"engine": "memkit", "trl": {"use_vllm": True}}, "is for engine: trl"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_with_the_configuration(told: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        chosen(**told)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"trl": {"use_vlllm": True}}, "use_vlllm cannot be set"),
        ({"trl": {"scale_rewards": "group"}}, "hangs on it"),
        ({"trl": {"per_device_train_batch_size": 7}}, "do not divide"),
    ],
)
def test_what_trl_would_not_do_is_refused_before_anything_is_loaded(
    told: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfig, match=why):
        run(tmp_path / "no model", tmp_path, **told)


@pytest.mark.slow
def test_two_processes_share_the_groups_of_one_command(tmp_path: Path) -> None:
    config = test_processes.reinforcement()
    config["model"]["base"] = str(speaking("llama3", tmp_path / "base"))
    config["online"] |= {"engine": "trl", "group": 6, "states": 4}
    adapter = test_processes.adapter_of("grpo", config, tmp_path, 2)
    assert max(tensor.abs().max().item() for name, tensor in adapter.items() if "lora_B" in name) > 1e-4


def test_what_teaches_nothing_does_not_water_a_step_down() -> None:
    """TRL divides by all eight tokens; four of them teach."""
    drawn = [(0, (1, 2)), (0, (3, 4)), (1, (5, 6, 7)), (1, (8,))]
    assert spread([1.0, -1.0, 0.0, None], drawn) == [2.0, -2.0, 0.0, None]
