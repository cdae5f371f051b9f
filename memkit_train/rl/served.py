"""The model under training, and a vLLM server that decodes with it: rollouts on other GPUs than the training step.

    with served_learner(base, parent, spec, "http://127.0.0.1:8000", folder, seed=0) as one:
        name = one.publish()          after every optimiser step: the server holds the weights of this moment
        replies = one.engine.generate([GenRequest(prompt, adapter=name)])

Each publication is written below `folder` and loaded under its digest; the one before is unloaded. Nothing is sampled
between a step and its publication, so rows are never older than `online.iterations`. Prompts go out as the tokens that
the runtime itself makes of them, and what comes back must say what was sampled, token by token, and how likely it was.
The server knows nothing of the grammar: what cannot be read is refused, and earns nothing.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from memkit.adapters.hosts.base import AdapterArtifact
from memkit.adapters.hosts.vllm import RANKS, VLLMHost
from memkit.backbones.hf import checkpoint
from memkit.backbones.hf.checkpoint import Checkpoint
from memkit.backbones.hf.prompting import Prompter
from memkit.backbones.hosted import HostedBackbone
from memkit.backbones.wire import Dialect, Draft, bad, noise_seed
from memkit.errors import IncompatibleBase, InvalidConfig
from memkit.net.endpoint import OPENAI
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit_train.errors import WrongVocabulary
from memkit_train.learn import lora

NATS = 0.05
_SENTENCE = "Ana moved to Bergen in May, and her sister still lives in Oslo with two cats and a dog."


class TokenBackbone(HostedBackbone):
    """/v1/completions as vLLM has it: token ids in, token ids and raw log-probs out."""

    access = OPENAI
    provider: ClassVar[str] = "vllm"
    example: ClassVar[str] = "my-model"
    root: ClassVar[str] = ""

    def __init__(self, served: str, url: str, loaded: Checkpoint, *, max_parallel: int) -> None:
        super().__init__(served, base_url=f"{url}/v1", style="compact", max_parallel=max_parallel)
        self._prompter, self._loaded = Prompter(loaded.tokenizer), loaded

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._checked(one) if isinstance(one, GenReply) else one for one in super().generate(requests)]

    def _path(self, model: str) -> str:
        return "/completions"

    def _body(self, request: GenRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        prompt, sampling = request.prompt, request.sampling
        return {
            "model": model,
            "prompt": list(self._prompter.ids(prompt.messages)),
            "max_tokens": prompt.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": noise_seed(sampling.seed, request.key),
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": sorted(self._loaded.stop_ids),
        }

    def _narrow(self, dialect: Dialect, sent: Mapping[str, Any], refusal: str, *, last: bool) -> Dialect | None:
        return None  # nothing of this can be left out

    def _take(self, draft: Draft, data: Any) -> None:
        """In the words of a chat completion."""
        try:
            (choice,) = data["choices"]
            likely = choice["logprobs"]["token_logprobs"]
            chat = {**choice, "message": {"content": choice["text"]}, "logprobs": {"content": []}}
            chat["logprobs"]["content"] = [{"logprob": value, "token": ""} for value in likely]
        except (TypeError, KeyError, ValueError) as error:
            raise bad("the server's reply is no completion with log-probs", "not_completion") from error
        draft.take({**data, "choices": [chat]})

    def _checked(self, reply: GenReply) -> GenReply:
        prompt, ids, likely = reply.prompt_ids or (), reply.token_ids or (), reply.logprobs or ()
        if not ids or not prompt or len(ids) != len(likely):
            raise InvalidConfig(
                "the server of online.rollouts does not say what it sampled",
                why=f"{len(prompt)} prompt tokens, {len(ids)} sampled ones and {len(likely)} log-probs came back",
                fix="serve with vLLM 0.10.2 or later: it returns token ids with their log-probs",
            )
        if max(*prompt, *ids) >= self._loaded.vocab_size:
            raise WrongVocabulary(
                "the server of online.rollouts has another vocabulary than the model under training",
                why=f"it speaks of token {max(*prompt, *ids)}, this model has {self._loaded.vocab_size}",
                fix="serve the checkpoint of model.base",
            )
        return reply


@dataclass(slots=True)
class ServedLearner:
    engine: TokenBackbone
    model: Any
    """What RowTrainer trains."""
    _host: VLLMHost
    _folder: Path
    _spec: lora.LoraSpec
    _held: str | None = None

    def publish(self) -> str:
        """Serve the weights as they are now. Call it whenever they have changed."""
        written = self._folder / "next"
        shutil.rmtree(written, ignore_errors=True)
        name = lora.save(self.model, written)
        if name == self._held:
            return name
        place = self._folder / name
        shutil.rmtree(place, ignore_errors=True)
        written.rename(place)
        size = sum(one.numel() * one.element_size() for one in lora.trainable(self.model).values())
        self._host.load(AdapterArtifact(name, place, self._spec.r, float(self._spec.alpha), (), size))
        self.withdraw()
        self._held = name
        return name

    def withdraw(self) -> None:
        if self._held is not None:
            self._host.unload(self._held)
            shutil.rmtree(self._folder / self._held, ignore_errors=True)
            self._held = None


@contextlib.contextmanager
def served_learner(
    base: Path | str,
    parent: Path | None,
    spec: lora.LoraSpec,
    url: str,
    folder: Path,
    *,
    seed: int = 0,
    dtype: str = "auto",
    device: str = "auto",
    batch: int = 256,
    gradient_checkpointing: bool = False,
) -> Generator[ServedLearner]:
    """`url`: of a vLLM server that serves `base` and sees `folder`. `batch`: replies that are asked for at once."""
    loaded = checkpoint.load(checkpoint.find(base), dtype=dtype, device=device)
    model = lora.attach(loaded.model, spec, parent=parent, seed=seed)
    if gradient_checkpointing:
        model.enable_input_require_grads()
    rank = model.peft_config[lora.NAME].r
    fitting = next((one for one in RANKS if one >= rank), RANKS[-1])
    with VLLMHost(url, base=str(base), max_rank=fitting) as host:
        (root,) = host.urls
        with TokenBackbone(host.serves_as(), root, loaded, max_parallel=batch) as engine:
            made = ServedLearner(engine, model, host, folder, spec)
            name = made.publish()
            try:
                _prove(host, name, made.model, loaded)
                yield made
            finally:
                made.withdraw()


def _prove(host: VLLMHost, name: str, model: Any, loaded: Checkpoint) -> None:
    """Both say the same of a sentence: the server holds these weights, and applies the adapter."""
    ids = loaded.tokenizer(_SENTENCE, add_special_tokens=False)["input_ids"]
    ((*there,),) = host.score(name, [(ids[:1], ids[1:])])
    with torch.inference_mode():
        given = torch.tensor([ids], device=model.device)
        every = model(input_ids=given, use_cache=False).logits[0, :-1].float().log_softmax(-1)
    here = every.gather(-1, given[0, 1:, None])[:, 0].tolist()
    gap = sum(abs(a - b) for a, b in zip(here, there, strict=True)) / len(here)
    if gap > NATS:
        raise IncompatibleBase(
            "the server of online.rollouts does not run the model under training",
            why=f"log-probs of the same words differ by {gap:.2g} on average, {NATS:g} is rounding",
            fix="serve the checkpoint of model.base, unquantised, with --enable-lora",
        )
