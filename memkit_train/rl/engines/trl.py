"""TRL's own GRPOTrainer on the same states, scored by the same environment: for what TRL brings, which is vLLM to
sample with, and FSDP2 or DeepSpeed by accelerate.

    memkit-train grpo manager.yaml --set online.engine=trl
    accelerate launch -m memkit_train grpo manager.yaml --set online.engine=trl

A row of its data set is one state: the messages that are shown there, and the state's number. TRL samples a group of
replies and takes the step; a reward function applies each reply to its state's bank, and asks. No method of TRL is
overridden. The first process plays, scores and judges, with a frozen copy of the base; the others sample and learn.

The same samples give the same step as in memkit's own engine: advantages are made here (a floor under the deviation, no
praise for what was refused), and tokens that teach nothing do not water a step down. What differs:

- The states of a stage are played by what it began with, since a data set is fixed.
- Only scenes in which the role decides once become states.
- TRL samples without the grammar. What cannot be read earns nothing, and is not asked again.
- Small groups are compared with their mean, not their median: TRL takes the mean off whatever it is given.
- A stage that was killed begins anew, and no alarm sounds: held-out conversations alone stop a run.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback

from memkit.backbones.hf import checkpoint
from memkit.backbones.hf.checkpoint import Checkpoint
from memkit.backbones.hf.prompting import TEMPLATE_OPTIONS, Prompter
from memkit.errors import InvalidConfig
from memkit.models import JSON
from memkit_train.errors import Diverged, WrongTemplate
from memkit_train.files.run_folder import RunFolder
from memkit_train.lab.worlds import Episode
from memkit_train.learn import lora
from memkit_train.learn.processes import ask, count_processes, gather, rank, share
from memkit_train.learn.rates import rate_for
from memkit_train.learn.seeding import reproducible
from memkit_train.replay.env import Env
from memkit_train.rl.algorithms.grpo import OBJECTIVE
from memkit_train.rl.engines.frozen import Drawn, Frozen, Scorer, hold_frozen
from memkit_train.rl.engines.stage import StageRun, Status, Writer
from memkit_train.rl.pool import Place
from memkit_train.rl.talks import Talk

_OURS = frozenset(
    {
        "scale_rewards",
        "shuffle_dataset",
        "chat_template_kwargs",
        "gradient_accumulation_steps",
        "steps_per_generation",
        "generation_batch_size",
        "save_strategy",
        "reward_weights",
    }
)
"""What the step hangs on."""


@dataclass(frozen=True, slots=True)
class StatesAsked:
    """What the data set says of the states."""

    conversations: list[list[dict[str, str]]]
    longest: int
    """Tokens of a reply."""


@dataclass(slots=True)
class TRLEngine(StageRun):
    def go(
        self,
        base: Path | str,
        parent: Path | None,
        env: Env,
        talks: Sequence[Talk],
        heldout: Sequence[Talk],
        episodes: Sequence[Episode],
    ) -> JSON:
        _check_names(self.settings.trl)
        self._check_shares()
        shutil.rmtree(self.folder, ignore_errors=True)
        loaded = self._load(base)
        prompter = Prompter(loaded.tokenizer)
        model = lora.attach(loaded.model, self.spec, parent=parent, seed=self.seed)
        start = self.folder / "start"
        lora.save(model, start)
        with hold_frozen(self, base, start, env, heldout, episodes) as frozen:
            places = frozen.draw(talks)
            asked = _ask_of(places, prompter, loaded)
            scorer, judge = frozen.scorer(places), frozen.judge
            told = _Told(scorer)
            writer = Writer(self)
            looks = _Looks(frozen, self.folder / "checkpoints")
            ask(_train_along, replace(self, run=RunFolder(self.folder, {}), tick=None), str(base), parent, asked)
            trainer = self._trainer(model, loaded, prompter, asked, scorer, [looks, told, writer])
            status: Status = "trained"
            why = f"{self.stage.steps} steps"
            try:
                trainer.train()
            except Diverged as error:
                status, why = "collapsed", str(error)
            return self.conclude(judge, status, why, steps=trainer.state.global_step, generated=scorer.generated)

    def train_along(self, base: str, parent: Path | None, asked: StatesAsked) -> None:
        """In another process: its share of every group and every step."""
        with reproducible(self.seed):
            loaded = self._load(base)
            model = lora.attach(loaded.model, self.spec, parent=parent, seed=self.seed)
            self._trainer(model, loaded, Prompter(loaded.tokenizer), asked, None, [_Looks(), _Told()]).train()

    def _load(self, base: Path | str) -> Checkpoint:
        return checkpoint.load(checkpoint.find(base), dtype=self.machine.dtype, device=self.machine.device)

    def _trainer(
        self,
        model: Any,
        loaded: Checkpoint,
        prompter: Prompter,
        asked: StatesAsked,
        scorer: Scorer | None,
        callbacks: Sequence[TrainerCallback],
    ) -> Any:
        from datasets import Dataset
        from trl.trainer.grpo_trainer import GRPOTrainer

        tokenizer = loaded.tokenizer
        tokenizer.chat_template = prompter.template
        rows = [{"prompt": chat, "place": at} for at, chat in enumerate(asked.conversations)]
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=ReplayReward(scorer),
            args=self._arguments(model.num_parameters(), asked.longest),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=list(callbacks),
        )
        trainer.remove_callback(PrinterCallback)
        return trainer

    @property
    def _each(self) -> int:
        """Replies that a process learns from at a time."""
        return self.settings.trl.get("per_device_train_batch_size", self.settings.group)

    def _check_shares(self) -> None:
        chosen, together = self.settings, self._each * count_processes()
        if chosen.states * chosen.group % together:
            raise InvalidConfig(
                f"{chosen.states} states of {chosen.group} replies do not divide among the processes",
                why=f"{count_processes()} of them take {self._each} at a time, {together} together",
                fix="change online.states or online.trl.per_device_train_batch_size",
            )

    def _arguments(self, parameters: int, longest: int) -> Any:
        from trl.trainer.grpo_config import GRPOConfig

        chosen, machine, stage = self.settings, self.machine, self.stage
        cuda = torch.cuda.is_available() and machine.device != "cpu"
        usual = rate_for(parameters, "reinforcement")
        arguments: dict[str, Any] = {
            "output_dir": str(self.folder / "checkpoints"),
            "max_steps": stage.steps,
            "num_generations": chosen.group,
            "num_iterations": chosen.iterations,
            "per_device_train_batch_size": self._each,
            "gradient_accumulation_steps": chosen.states * chosen.group // (self._each * count_processes()),
            "max_completion_length": longest,
            "learning_rate": usual.lr if chosen.lr is None else chosen.lr,
            "lr_scheduler_type": chosen.schedule,
            "warmup_steps": round(usual.warmup * stage.steps),
            "loss_type": "dapo",
            "epsilon": OBJECTIVE.clip_low,
            "epsilon_high": OBJECTIVE.clip_high,
            "delta": OBJECTIVE.dual_clip,
            "beta": 0.0,
            "scale_rewards": "none",
            "shuffle_dataset": False,
            "chat_template_kwargs": dict(TEMPLATE_OPTIONS),
            "seed": self.seed,
            "bf16": cuda,
            "use_cpu": not cuda,
            "gradient_checkpointing": machine.gradient_checkpointing,
            "ddp_find_unused_parameters": False,
            "dataloader_pin_memory": False,
            "logging_steps": 1,
            "logging_nan_inf_filter": False,
            "save_strategy": "steps",
            "save_steps": chosen.stop.every,
            "save_total_limit": 1,
            "save_only_model": True,
            "report_to": machine.report_to,
            "disable_tqdm": True,
        }
        try:
            return GRPOConfig(**{**arguments, **chosen.trl})
        except (TypeError, ValueError) as error:
            raise InvalidConfig(
                "TRL refuses what online.trl says", why=str(error)[:300], fix="correct it; TRL documents GRPOConfig"
            ) from error


def _train_along(stage: TRLEngine, base: str, parent: Path | None, asked: StatesAsked) -> None:
    stage.train_along(base, parent, asked)


class ReplayReward:
    """TRL's reward function. It is called in every process at once; the first one knows the states."""

    __name__ = "replayed"

    def __init__(self, scorer: Scorer | None) -> None:
        self.scorer = scorer

    def __call__(
        self, completion_ids: Sequence[Sequence[int]], place: Sequence[int], **known: Any
    ) -> list[float | None]:
        mine: list[Drawn] = [(at, tuple(ids)) for at, ids in zip(place, completion_ids, strict=True)]
        every = gather(mine)
        values = share(None if self.scorer is None else spread(self.scorer.advantages(every), every))
        return values[rank() * len(mine) :][: len(mine)]


def spread(advantages: Sequence[float | None], drawn: Sequence[Drawn]) -> list[float | None]:
    """TRL averages over every token that was sampled; a step is averaged over those that teach."""
    teaching = sum(len(ids) for (_, ids), value in zip(drawn, advantages, strict=True) if value)
    scale = sum(len(ids) for _, ids in drawn) / max(1, teaching)
    return [None if value is None else scale * value for value in advantages]


class _Looks(TrainerCallback):
    """Each checkpoint is judged once it is written, by the first process; all of them stop together."""

    def __init__(self, frozen: Frozen | None = None, folder: Path = Path()) -> None:
        self._frozen, self._folder = frozen, folder

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if share(self._look(state.global_step)):
            control.should_training_stop = True

    def _look(self, step: int) -> bool | None:
        return None if self._frozen is None else self._frozen.look(step, self._folder / f"checkpoint-{step}")


class _Told(TrainerCallback):
    """TRL logs what it was given as a reward; here it says what was earned."""

    def __init__(self, scorer: Scorer | None = None) -> None:
        self._scorer = scorer

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        logs = {} if logs is None else logs
        if not math.isfinite(logs.get("loss", 0.0)):
            raise Diverged(
                f"the loss became {logs['loss']} in step {state.global_step}",
                why="the learning rate is too high",
                fix="lower online.lr",
            )
        if self._scorer is not None and "loss" in logs:
            for name in [name for name in logs if name.startswith(("reward", "frac_reward"))]:
                del logs[name]
            logs.update(self._scorer.told)


def _ask_of(places: Sequence[Place], prompter: Prompter, loaded: Checkpoint) -> StatesAsked:
    calls = [place.call for place in places if place.call is not None]
    conversations = [prompter.conversation(call.prompt.messages) for call in calls]
    tokenizer = loaded.tokenizer
    for call, chat in zip(calls, conversations, strict=True):
        given = tokenizer.apply_chat_template(
            chat, chat_template=prompter.template, add_generation_prompt=True, return_dict=True, **TEMPLATE_OPTIONS
        )
        if tuple(given["input_ids"]) != prompter.ids(call.prompt.messages):
            raise WrongTemplate(
                "TRL would read another prompt than the runtime does",
                why="this tokenizer makes other tokens of a conversation than of its text",
                fix="set online.engine=memkit",
            )
    return StatesAsked(conversations, max(call.prompt.max_tokens for call in calls))


def _check_names(given: dict[str, Any]) -> None:
    from trl.trainer.grpo_config import GRPOConfig

    known = {one.name for one in dataclasses.fields(GRPOConfig)}
    for name in given:
        if name in _OURS or name not in known:
            raise InvalidConfig(
                f"online.trl.{name} cannot be set",
                why="a step of memkit's own engine hangs on it" if name in _OURS else "GRPOConfig does not know it",
                fix="leave it out" if name in _OURS else "look its name up in TRL's documentation",
            )
