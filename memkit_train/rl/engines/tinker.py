"""A service that speaks Tinker's API holds the model, samples and steps: hosted, or on GPUs of one's own.

    TINKER_API_KEY=tml-… memkit-train grpo manager.yaml --set online.engine=tinker

Here a frozen copy of the base plays the states, says what each sampled reply is worth, and judges the adapters that
come back, each `stop.every` steps. The service is sent prompts, replies and advantages as tokens and numbers.

The same samples give the same step as in memkit's own engine: its advantages, the mean over the tokens that teach, its
Adam. What differs is what differs for engine trl, and:

- One rank, over attention and MLP. What the service adds by itself (alpha) must be what the configuration says, and is
  looked at before anything is sampled.
- Training goes on only from adapters that the service has trained itself, while it keeps their state.
- With `iterations` above 1 the loss is the service's PPO, without the second bound on very unlikely replies.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import get_scheduler

from memkit.adapters.manifest import CONFIG
from memkit.backbones.hf import checkpoint
from memkit.backbones.wire import noise_seed
from memkit.errors import AdapterRejected, HostFull, IncompatibleBase, InvalidConfig, ModelError, ModelRefused
from memkit.models import JSON
from memkit_train.errors import Diverged, WrongVocabulary
from memkit_train.lab.worlds import Episode
from memkit_train.learn.lora import LoraSpec
from memkit_train.learn.processes import count_processes
from memkit_train.learn.rates import rate_for
from memkit_train.replay.env import Env
from memkit_train.rl.algorithms.grpo import OBJECTIVE
from memkit_train.rl.decisions import seed_of
from memkit_train.rl.engines.frozen import Frozen, Scorer, hold_frozen
from memkit_train.rl.engines.stage import StageRun, Status
from memkit_train.rl.engines.tinker_service import AskedPrompt, SampledReply, TrainingService, open_service
from memkit_train.rl.pool import Place
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk
from memkit_train.rows import Row

NATS = 0.05
CLIP = {"clip_low_threshold": 1 - OBJECTIVE.clip_low, "clip_high_threshold": 1 + OBJECTIVE.clip_high}


@dataclass(slots=True)
class TinkerEngine(StageRun):
    def go(
        self,
        base: Path | str,
        parent: Path | None,
        env: Env,
        talks: Sequence[Talk],
        heldout: Sequence[Talk],
        episodes: Sequence[Episode],
    ) -> JSON:
        named = self._check(base)
        checkpoint.find(base)
        with open_service(self.settings.tinker, named, parent, self.spec, seed=self.seed) as service:
            start = self._begin(service)
            with hold_frozen(self, base, start, env, heldout, episodes) as frozen:
                scorer = frozen.scorer(frozen.draw(talks))
                status: Status = "trained"
                why = f"{self.stage.steps} steps"
                step = 0
                try:
                    for step in self._steps(service, frozen, scorer):
                        if self._due(step):
                            service.save(f"memkit-{step}", self._at(step))
                            if frozen.look(step, self._at(step)):
                                break
                except Diverged as error:
                    status, why = "collapsed", str(error)
                except (ModelError, AdapterRejected, HostFull) as error:
                    frozen.judge.settle()
                    rest = f"{error.fix}; this stage begins anew, the best of it so far is in {frozen.judge.folder}"
                    raise type(error)(error.what, why=error.why, fix=rest, **error.details) from error
                return self.conclude(frozen.judge, status, why, steps=step, generated=scorer.generated)

    def _check(self, base: Path | str) -> str:
        """What the service calls the base."""
        named = self.settings.tinker.base_model or str(base)
        if self.settings.tinker.base_model is None and Path(base).exists():
            raise InvalidConfig(
                "the Tinker service does not know a folder of this machine",
                why=f"model.base is {base}",
                fix="say what the service calls it, as online.tinker.base_model",
            )
        if self.spec.target_modules != "all-linear" or self.spec.dropout:
            raise InvalidConfig(
                "a Tinker service trains all linear layers, without dropout",
                why=f"asked are {self.spec.target_modules} with dropout {self.spec.dropout:g}",
                fix="leave both as they are, or set online.engine=memkit",
            )
        if count_processes() > 1:
            raise InvalidConfig(
                "engine tinker runs in one process",
                why=f"this is one of {count_processes()}; the service has GPUs of its own",
                fix="start the command without torchrun",
            )
        return named

    def _begin(self, service: TrainingService) -> Path:
        """What the service starts from. Only when it is here, and of the right shape, does what the folder held go: it
        may be the best so far."""
        begun, start = self.folder.with_name(f"{self.folder.name}-begun"), self._at(0)
        service.save("memkit-0", begun)
        check_shape(begun, self.spec)
        shutil.rmtree(self.folder, ignore_errors=True)
        start.parent.mkdir(parents=True)
        begun.rename(start)
        return start

    def _steps(self, service: TrainingService, frozen: Frozen, scorer: Scorer) -> Iterator[int]:
        """Takes them; after each, its number."""
        settings, rows = self.settings, list[Row]()
        rates = list_rates(settings, frozen.loaded.model.num_parameters(), self.stage.steps)
        for step, rate in enumerate(rates):
            batch, again = divmod(step, settings.iterations)
            if not again:
                rows = self._sample(service, frozen, scorer, batch)
            told = {"learning_rate": rate} if again else {"learning_rate": rate, **scorer.told}
            if rows:  # where nothing teaches, nothing changes
                loss = service.learn(rows, rate, CLIP if settings.iterations > 1 else None)
                if loss is not None:
                    told["loss"] = loss
                    if not math.isfinite(loss):
                        raise Diverged(
                            f"the loss became {loss} in step {step}",
                            why="the learning rate is too high",
                            fix="lower online.lr",
                        )
            self.tell(step + 1, told)
            yield step + 1

    def _sample(self, service: TrainingService, frozen: Frozen, scorer: Scorer, batch: int) -> list[Row]:
        settings, loaded = self.settings, frozen.loaded
        numbers = range(batch * settings.states, (batch + 1) * settings.states)
        places = [scorer.places[at] for at in numbers]
        prompts = [ask_of(place, scorer, seed_of(self.seed, batch, 0)) for place in places]
        service.publish()
        found = service.sample(prompts, settings.group, sorted(loaded.stop_ids))
        replies = [reply for group in found for reply in group]
        check_replies(replies, loaded.vocab_size, loaded.stop_ids)
        asked = [prompt for prompt in prompts for _ in range(settings.group)]
        drawn = [at for at in numbers for _ in range(settings.group)]
        values = scorer.advantages([(at, reply.ids) for at, reply in zip(drawn, replies, strict=True)])
        rows = [
            Row(prompt.prompt_ids, reply.ids, reply.logprobs, value or 0.0, group=scorer.places[at].key)
            for prompt, reply, value, at in zip(asked, replies, values, drawn, strict=True)
        ]
        if batch == 0:
            prove(frozen, rows[:: settings.group])
        return [row for row in rows if row.advantage]

    def _due(self, step: int) -> bool:
        return step % self.settings.stop.every == 0 or step == self.stage.steps

    def _at(self, step: int) -> Path:
        return self.folder / "checkpoints" / f"checkpoint-{step}"


def list_rates(settings: OnlineSettings, parameters: int, steps: int) -> list[float]:
    """Of each step: the service knows no schedule."""
    usual = rate_for(parameters, "reinforcement")
    steered = torch.optim.SGD([torch.zeros(1, requires_grad=True)], usual.lr if settings.lr is None else settings.lr)
    schedule = get_scheduler(settings.schedule, steered, round(usual.warmup * steps), steps)
    found: list[float] = []
    for _ in range(steps):
        found.append(float(schedule.get_last_lr()[0]))
        steered.step()
        schedule.step()
    return found


def ask_of(place: Place, scorer: Scorer, seed: int) -> AskedPrompt:
    assert place.call is not None
    prompt = place.call.prompt
    return AskedPrompt(scorer.prompter.ids(prompt.messages), prompt.max_tokens, noise_seed(seed, place.key))


def check_shape(adapter: Path, spec: LoraSpec) -> None:
    config = json.loads((adapter / CONFIG).read_text())
    there, here = (config.get("r"), config.get("lora_alpha")), (spec.r, spec.alpha)
    if there != here:
        raise InvalidConfig(
            "the Tinker service makes another LoRA than the configuration asks for",
            why=f"rank {there[0]} and alpha {there[1]}, not {here[0]} and {here[1]}",
            fix=f"set method.lora_r={there[0]} and method.lora_alpha={there[1]}",
        )


def check_replies(replies: Sequence[SampledReply], vocabulary: int, stop_ids: frozenset[int]) -> None:
    most = max(max(reply.ids) for reply in replies)
    if most >= vocabulary:
        raise WrongVocabulary(
            "the Tinker service has another vocabulary than model.base",
            why=f"it speaks of token {most}, this model has {vocabulary}",
            fix="name the same model in model.base and online.tinker.base_model",
        )
    if any(reply.ended and reply.ids[-1] not in stop_ids for reply in replies):
        raise ModelRefused(
            "the Tinker service leaves out the token that ends a reply",
            why="so that nobody would learn to end one",
            fix="use a service that returns it",
        )


def prove(frozen: Frozen, rows: Sequence[Row]) -> None:
    """Both say the same of the first replies: the service runs model.base, with the adapter that it saved."""
    here = frozen.score(rows)
    gaps = [
        abs(a - b)
        for row, scored in zip(rows, here, strict=True)
        for a, b in zip(row.behaviour_logprobs or (), scored, strict=True)
    ]
    if (gap := sum(gaps) / len(gaps)) > NATS:
        raise IncompatibleBase(
            "the Tinker service does not run the model of model.base",
            why=f"log-probs of the same replies differ by {gap:.2g} on average, {NATS:g} is rounding",
            fix="name the same model in model.base and online.tinker.base_model",
        )
