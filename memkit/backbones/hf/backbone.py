"""The in-process backbone: any local checkpoint (or hub id) of a decoder-only model, with LoRA adapters per request.

    with HFBackbone("Qwen/Qwen2.5-0.5B-Instruct") as model:
        model.load_adapter("sha256-ab12", "adapters/ab12")
        replies = model.generate([GenRequest(prompt, adapter="sha256-ab12")])

Greedy and sampled replies are the same alone and in a batch for float32 weights. In half precision they are the same
for the same batch only: matrix kernels round differently for every batch size.
"""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from memkit.backbones.hf import adapters, checkpoint
from memkit.backbones.hf.lanes import Lane, Tree
from memkit.backbones.hf.masks import Masks
from memkit.backbones.hf.prompting import Prompter
from memkit.backbones.hf.vocabulary import read_vocabulary
from memkit.backbones.hf.worker import Job, Worker, Written
from memkit.errors import HostFull, InvalidConfig, MemkitError, ModelError, ModelRefused, ModelUnavailable
from memkit.roles.base import Prompt
from memkit.seams.backbone import GenReply, GenRequest, Replies, Usage

_GRACE_S = 5.0
"""A caller waits this much longer than its deadline before it gives up on the worker itself."""
_SCORE_ROWS = 8


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A logged reply, to be scored again. `token_ids` include the end token when it was sampled."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    adapter: str | None = None


class HFBackbone:
    """Every reply says in `extra` which `vocabulary` its token ids are of (digest of vocabulary, merges and end tokens)
    and which `template` laid out the prompt, so that a trainer with another one can refuse them.

    `model` may be a loaded `Checkpoint`, for callers that train over its tensors (see `serve`).
    `constrain=False` leaves grammars unenforced (to measure how well a model follows them by itself).
    `validity_sample`: the share of constrained replies that report in `extra["unconstrained_valid"]` whether every
    token would have been allowed had it been chosen without the mask. `threads` caps the worker's CPU threads."""

    style = "compact"

    def __init__(
        self,
        model: str | Path | checkpoint.Checkpoint,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        threads: int | None = None,
        max_batch: int = 32,
        max_adapters: int = 8,
        window_ms: float = 2.0,
        constrain: bool = True,
        validity_sample: float = 0.0,
    ) -> None:
        if max_batch < 1 or max_adapters < 0 or (threads is not None and threads < 1):
            raise InvalidConfig("max_batch and threads are at least 1, max_adapters at least 0")
        if not 0.0 <= validity_sample <= 1.0:
            raise InvalidConfig(f"validity_sample={validity_sample} is not a share", fix="use a number from 0 to 1")
        if isinstance(model, checkpoint.Checkpoint):
            loaded, model = model, model.folder
        else:
            loaded = checkpoint.load(checkpoint.find(model, revision=revision), dtype=dtype, device=device)
        self.name = str(model)
        self.max_parallel = max_batch
        self.max_adapters = max_adapters
        self._constrain, self._validity_sample = constrain, validity_sample
        self._context, self._stop_ids = loaded.context, loaded.stop_ids
        self.base_digest = checkpoint.weight_digest(loaded.folder)
        """sha256 over the configuration and the weight files."""
        self.identity = f"hf:{Path(self.name).name}@{self.base_digest[:12]}"
        self._prompter = Prompter(loaded.tokenizer)
        self._vocabulary = read_vocabulary(loaded.tokenizer, loaded.vocab_size, loaded.stop_ids)
        self._reads = {"vocabulary": self.tokenizer_digest, "template": self.template_digest}
        self._masks = Masks(self._vocabulary)
        self._base = adapters.twin(loaded.model)  # never run: what other trees are copied from
        tree = Tree(loaded.model)
        _check_served(tree, self.name)
        self._lanes: dict[str | None, Lane[Job]] = {None: Lane(None, tree)}
        self._folders: dict[str, Path] = {}
        self._loading = threading.Lock()
        self._worker = Worker(max_batch=max_batch, window_s=window_ms / 1000, threads=threads)
        self._finalizer = weakref.finalize(self, self._worker.close)

    # identity

    @cached_property
    def tokenizer_digest(self) -> str:
        return self._prompter.tokenizer_digest(self._stop_ids)

    @cached_property
    def template_digest(self) -> str:
        return self._prompter.template_digest()

    # generation

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """The prompt as this model reads it."""
        return self._prompter.ids(prompt.messages)

    def submit(self, request: GenRequest) -> Future[GenReply]:
        """Start one request. The future holds its reply or its own `ModelError`."""
        return self._submit([request])[0]

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        futures = self._submit(requests)
        try:
            return [_outcome(future, request) for future, request in zip(futures, requests, strict=True)]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def score(self, requests: Sequence[ScoreRequest]) -> list[tuple[float, ...]]:
        """Raw log p (temperature 1, no mask) of every token of each reply. Neighbours in length share a pass."""
        found: dict[int, tuple[float, ...]] = {index: () for index in range(len(requests))}
        by_lane: dict[str | None, list[int]] = {}
        for index, request in enumerate(requests):
            if request.token_ids:
                by_lane.setdefault(request.adapter, []).append(index)
        for adapter, members in by_lane.items():
            tree = self._lane(adapter).tree
            members.sort(key=lambda index: len(requests[index].prompt_ids) + len(requests[index].token_ids))
            for begin in range(0, len(members), _SCORE_ROWS):
                chunk = members[begin : begin + _SCORE_ROWS]
                pairs = [(requests[index].prompt_ids, requests[index].token_ids) for index in chunk]
                for pair in pairs:
                    self._check_length(len(pair[0]), len(pair[1]))
                found.update(
                    zip(chunk, self._worker.call(lambda tree=tree, pairs=pairs: tree.score(pairs)), strict=True)
                )
        return [found[index] for index in range(len(requests))]

    @property
    def reused_tokens(self) -> int:
        """How many prompt tokens needed no computing, because earlier prompts began with them."""
        return self._worker.reused

    def parameters(self) -> Iterator[Any]:
        """The base model's tensors, shared by every adapter that is not merged."""
        yield from self._base.parameters()

    @property
    def near_ties(self) -> int:
        """How many tokens were decided afresh, on their row alone, because rounding could have turned them."""
        return self._worker.recomputed

    # adapters

    def load_adapter(self, name: str, path: str | Path, *, merged: bool = False) -> None:
        """Make the adapter in `path` available as `name`. The caller's thread does the work; generation goes on.
        `merged` folds it into copies of the layers it touches: full speed, at the memory of those layers. Loading a
        name again replaces how it is served (merged or not) for requests to come, never its weights."""
        folder = Path(path)
        with self._loading:
            known = self._folders.get(name)
            if known is not None and known != folder.resolve():
                raise InvalidConfig(
                    f"adapter {name!r} is already loaded from {known}",
                    why="the bytes behind a name never change",
                    fix="load other weights under a name of their own",
                )
            if known is not None and self._lanes[name].merged == merged:
                return
            if known is None and len(self._folders) >= self.max_adapters:
                raise HostFull(
                    f"{len(self._folders)} adapters are loaded, the most that this backbone holds",
                    fix="unload one, or raise max_adapters",
                )
            lane: Lane[Job] = Lane(name, adapters.build(self._base, folder, merged=merged), merged=merged)
            self._lanes = {**self._lanes, name: lane}
            self._folders[name] = folder.resolve()

    def serve(self, name: str, model: Any) -> None:
        """Serve a module tree over tensors that somebody else trains, as they are now. After each change serve it under
        a new name and unload the old one, because what was computed with the old weights is kept by name; and change
        nothing while requests for it run. The tree itself must be run by nobody else (`adapters.twin` makes one)."""
        with self._loading:
            if name in self._lanes:
                raise InvalidConfig(f"{name!r} is already loaded", fix="give changed weights a name of their own")
            self._lanes = {**self._lanes, name: Lane(name, Tree(model.eval()))}

    def merge_adapter(self, name: str) -> None:
        """Serve a loaded adapter merged from now on; rows that run finish on the tree they began with."""
        self._lane(name)
        if name not in self._folders:
            raise InvalidConfig(f"{name!r} is being trained", fix="load its adapter from a folder to serve it merged")
        self.load_adapter(name, self._folders[name], merged=True)

    def unload_adapter(self, name: str) -> None:
        """Forget the adapter. Rows that run finish with it; new requests for it are refused. Unknown names are fine."""
        with self._loading:
            self._lanes = {known: lane for known, lane in self._lanes.items() if known is None or known != name}
            self._folders.pop(name, None)

    def resident(self) -> dict[str, bool]:
        """Loaded adapters, and whether each is served merged."""
        return {name: lane.merged for name, lane in self._lanes.items() if name is not None}

    def adapter_bytes(self, name: str) -> int:
        """Size of the tensors that an adapter holds beside the base."""
        shared = {id(tensor) for tensor in self._base.parameters()}
        own = (tensor for tensor in self._lane(name).tree.model.parameters() if id(tensor) not in shared)
        return sum(tensor.numel() * tensor.element_size() for tensor in own)

    @cached_property
    def linear_shapes(self) -> Mapping[str, tuple[int, int]]:
        """The layers that an adapter may target: module name → (out_features, in_features)."""
        linear = ((path, module) for path, module in self._base.named_modules() if isinstance(module, torch.nn.Linear))
        return {path: (module.out_features, module.in_features) for path, module in linear}

    # lifetime

    def close(self) -> None:
        """Stop the worker. Requests under way fail with `ModelUnavailable`."""
        self._finalizer()

    def __enter__(self) -> HFBackbone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # inside

    def _submit(self, requests: Sequence[GenRequest]) -> list[Future[GenReply]]:
        outer: list[Future[GenReply]] = []
        jobs: list[Job] = []
        for request in requests:
            future: Future[GenReply] = Future()
            outer.append(future)
            try:
                jobs.append(self._job(request, future))
            except MemkitError as error:
                future.set_exception(error)
        if jobs:
            self._worker.submit(jobs)
        return outer

    def _job(self, request: GenRequest, future: Future[GenReply]) -> Job:
        started = time.monotonic()
        prompt = request.prompt
        ids = self._prompter.ids(prompt.messages)
        self._check_length(len(ids), prompt.max_tokens)
        grammar = prompt.grammar if self._constrain else None
        job = Job(
            prompt_ids=ids,
            lane=self._lane(request.adapter),
            sampling=request.sampling,
            key=request.key,
            max_tokens=prompt.max_tokens,
            mask=None if grammar is None else self._masks.of(grammar, prompt.max_tokens),
            watch=_share_of(request.key) < self._validity_sample,
            deadline=started + request.deadline_s,
            deadline_s=request.deadline_s,
            stop_ids=self._stop_ids,
        )

        def finished(inner: Future[Written]) -> None:
            if inner.cancelled():
                return
            error = inner.exception()
            if not future.set_running_or_notify_cancel():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(self._reply(job, inner.result(), started))

        job.future.add_done_callback(finished)
        future.add_done_callback(lambda outer: job.future.cancel() if outer.cancelled() else None)
        return job

    def _reply(self, job: Job, written: Written, started: float) -> GenReply:
        text_ids = [token for token in written.token_ids if token not in self._stop_ids]
        extra: dict[str, Any] = {"merged": written.merged, **self._reads}
        if written.natural[1]:
            extra["unconstrained_valid"] = written.natural[0] == written.natural[1]
            extra["unconstrained_steps"] = written.natural
        return GenReply(
            text=self._vocabulary.text_of(text_ids),
            adapter=written.adapter,
            model=self.identity,
            prompt_ids=job.prompt_ids,
            token_ids=written.token_ids,
            logprobs=written.logprobs,
            sampled_logprobs=written.sampled_logprobs,
            finish=written.finish,
            usage=Usage(len(job.prompt_ids), len(written.token_ids)),
            latency_ms=(time.monotonic() - started) * 1000,
            extra=extra,
        )

    def _lane(self, adapter: str | None) -> Lane[Job]:
        lane = self._lanes.get(adapter)
        if lane is None:
            raise ModelRefused(
                f"adapter {adapter!r} is not loaded",
                why=f"loaded: {sorted(self.resident()) or 'none'}",
                fix="load_adapter() it first, and unload only when no request names it any more",
            )
        return lane

    def _check_length(self, prompt: int, reply: int) -> None:
        if prompt + reply > self._context:
            raise ModelRefused(
                "the prompt is too long for this model",
                why=f"{prompt} tokens and up to {reply} of the reply exceed its context of {self._context}",
                fix="shorten the turn or use a model with a longer context",
            )


def _outcome(future: Future[GenReply], request: GenRequest) -> GenReply | ModelError:
    try:
        return future.result(timeout=request.deadline_s + _GRACE_S)
    except ModelError as error:
        return error
    except TimeoutError:
        future.cancel()
        return ModelUnavailable(
            "the inference worker does not answer",
            why="one step of the model takes longer than the deadline",
            fix="use a smaller model, fewer threads per process, or a larger deadline_s",
        )


def _share_of(key: str) -> float:
    """A number in [0, 1) that depends on the key alone."""
    return int.from_bytes(hashlib.sha256(f"validity\x00{key}".encode()).digest()[:6], "big") / 2.0**48


def _check_served(tree: Tree, name: str) -> None:
    """Two padded rows with a cache must give what the model gives by itself; else its architecture is refused."""
    lane: Lane[int] = Lane(None, tree)
    prompts = [(5, 6, 7, 8, 9), (7, 5, 6)]
    with torch.inference_mode():
        lane.prefill([0, 1], prompts)
        stepped = lane.decode([6, 9])
        plain = [
            tree.model(torch.tensor([[*prompt, last]], device=tree.device)).logits[0, -1].float()
            for prompt, last in zip(prompts, (6, 9), strict=True)
        ]
    gap = max(
        float((row - alone).abs().max() / alone.abs().max().clamp(min=1))
        for row, alone in zip(stepped, plain, strict=True)
    )
    if not gap < (1e-3 if tree.dtype == torch.float32 else 0.1):
        raise InvalidConfig(
            f"{name} is not served in process",
            why=f"with a key-value cache in slots its logits change by {gap:.2g}",
            fix="serve this model with vLLM and use an openai: backbone",
        )
