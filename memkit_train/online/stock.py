"""The second engine: TRL's own GRPOTrainer on the same states, scored by the same environment.

    stock.train(base, talks, output, settings, episodes=…)

A data-set row is one state (the rendered prompt, and the number of its place); TRL's group is then exactly a state
group, and the reward function replays each completion from the state's bank. No method of TRL is overridden, so it
brings what TRL has: vLLM generation, DeepSpeed and FSDP through accelerate, its losses and its logging.

What it gives up against decisions.py: the states are played once, by the parent, because a data set is fixed; TRL
decodes without the grammar, so what cannot be parsed is possible, and earns nothing; one decision per scene; and the
number of completions per step is fixed. The tokenizer must give the runtime's prompt ids for the prompt's text: one
that adds a beginning-of-text token by itself is refused.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from memkit.backbones.hf import checkpoint
from memkit.backbones.hf.prompting import Prompter
from memkit.embedders import make_embedder
from memkit.engine.call import ModelCall
from memkit.engine.served_with import ServedWith
from memkit.errors import InvalidConfig
from memkit.seams.backbone import GenReply
from memkit_train import lora
from memkit_train.errors import NoRows, WrongVocabulary
from memkit_train.online.acting import Acting, Clock
from memkit_train.online.learner import learner
from memkit_train.online.pool import Place, places
from memkit_train.online.scoring import Scoring, others, scoring
from memkit_train.online.settings import OnlineSettings
from memkit_train.online.talks import Talk
from memkit_train.replay.env import Env, Policy
from memkit_train.replay.forks import Told
from memkit_train.rewards.base import Probed
from memkit_train.seeding import reproducible
from memkit_train.worlds import Episode

ROLE = "manager"


@dataclass(frozen=True, slots=True)
class Stocked:
    adapter: Path
    digest: str
    log: list[dict[str, float]]
    """TRL's own, step by step."""


@dataclass(slots=True)
class Replayer:
    """TRL's reward function: each completion applied to its state's bank, and the questions asked."""

    env: Env
    scoring: Scoring
    policy: Policy
    chosen: Sequence[Place]
    asked: Sequence[tuple[Probed, ...]]
    decode: Any
    __name__: str = "replayed"

    def __call__(self, completion_ids: Sequence[Sequence[int]], place: Sequence[int], **other: Any) -> list[float]:
        replies = [GenReply(self.decode(ids), token_ids=tuple(ids)) for ids in completion_ids]
        starts = [
            (self.chosen[at].state, replace(self.policy, backbone=Told(self.policy.backbone, reply, frozenset({ROLE}))))
            for at, reply in zip(place, replies, strict=True)
        ]
        trails = self.env.run(starts)
        pairs = [(trail, self.asked[at]) for trail, at in zip(trails, place, strict=True)]
        return [one.total for one in self.scoring.score(self.env, self.policy, pairs)]


def train(
    base: Path | str, talks: Sequence[Talk], output: Path, settings: OnlineSettings, *, parent: Path | None = None,
    episodes: Sequence[Episode] = (), spec: lora.LoraSpec | None = None, seed: int = 0, max_new_tokens: int = 96,
    **more: Any,
) -> Stocked:  # fmt: skip
    """`more` goes to GRPOConfig as it is (use_vllm, deepspeed, …)."""
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    if settings.reward.horizon != "immediate":
        raise InvalidConfig(
            "TRL's engine scores decisions at once",
            why="to play on, the weights of the moment would have to decide", fix="set reward.horizon to immediate",
        )  # fmt: skip
    folder = checkpoint.find(base)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    with reproducible(seed), learner(base, parent, spec or lora.LoraSpec(), seed=seed) as one:
        acting = Acting(one.engine, {ROLE}, Clock(), others(settings.others, episodes))
        env = Env(make_embedder("hash"), ServedWith(reasks=0))
        policy = Policy(acting, one.name, roles=(ROLE,))
        rows, chosen = _states(env, policy, talks, settings, Prompter(tokenizer), seed)
        rng = random.Random(f"{seed}/questions")
        asked = [place.ask(settings.questions, rng) for place in chosen]
        reward = Replayer(env, scoring(settings.reward, env, acting, episodes), policy, chosen, asked, lambda ids: (
            tokenizer.decode(ids, skip_special_tokens=True)
        ))  # fmt: skip
        cuda = torch.cuda.is_available()
        arguments: dict[str, Any] = {
            "output_dir": str(output / "checkpoints"), "max_steps": sum(stage.steps for stage in settings.stages),
            "per_device_train_batch_size": settings.states * settings.group, "num_generations": settings.group,
            "learning_rate": settings.lr, "lr_scheduler_type": settings.schedule, "temperature": 1.0, "beta": 0.0,
            "max_completion_length": max_new_tokens, "logging_steps": 1, "save_strategy": "no", "report_to": "none",
            "seed": seed, "bf16": cuda, "use_cpu": not cuda, "gradient_checkpointing": False, "disable_tqdm": True,
        }  # fmt: skip
        data = Dataset.from_list([{"prompt": text, "place": at} for at, text in enumerate(rows)])
        trainer = GRPOTrainer(
            model=one.model, reward_funcs=reward, args=GRPOConfig(**{**arguments, **more}), train_dataset=data,
            processing_class=tokenizer,
        )  # fmt: skip
        trainer.train()
        adapter = output / "adapter"
        return Stocked(adapter, lora.save(one.model, adapter), list(trainer.state.log_history))


def _states(
    env: Env, policy: Policy, talks: Sequence[Talk], settings: OnlineSettings, prompter: Prompter, seed: int
) -> tuple[list[str], list[Place]]:
    """Prompts and places of the scenes in which the manager has one fact to decide on."""
    played = random.Random(f"{seed}/talks").sample(list(talks), min(settings.talks, len(talks)))
    trails = env.run([(env.start(talk.script), policy) for talk in played], upto=None)
    texts: list[str] = []
    chosen: list[Place] = []
    for talk, trail in zip(played, trails, strict=True):
        for place in places(talk, trail, (ROLE,)):
            calls: list[ModelCall] = [call for call in trail.steps[place.state.at].calls if call.role == ROLE]
            if len(calls) == 1 and (place.turning or place.standing):
                messages = calls[0].prompt.messages
                texts.append(prompter.text(messages))
                chosen.append(place)
                if tuple(prompter.tokenizer(texts[-1])["input_ids"]) != prompter.ids(messages):
                    raise WrongVocabulary(
                        "TRL would read another prompt than the runtime does",
                        why="this tokenizer adds tokens of its own to a text", fix="train with memkit-train grpo",
                    )  # fmt: skip
    if not chosen:
        raise NoRows("no state to decide from", why="no question rests on what was said", fix="use other conversations")
    return texts, chosen
