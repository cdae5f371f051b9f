"""A service that speaks Tinker's API, through its own SDK: it holds a LoRA, samples from it and steps.

    with open_service(TinkerSettings(), "Qwen/Qwen3-8B", None, LoraSpec(), seed=0) as service:
        service.save("start", folder)             an ordinary adapter folder
        service.publish()                         sample by the weights of this moment
        replies = service.sample(asked)
        service.learn(rows, 1e-5)                 the gradient of these rows, and one step of Adam

Address and key come from the environment alone: a key that the SDK's own login has stored is not used, and no key goes
to an address that a configuration names. Prompts and replies leave this machine; the SDK's own telemetry stays off
unless TINKER_TELEMETRY says otherwise. Whatever fails is a ModelError. Each wait has an end: the SDK's own have none,
or come after an hour.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import httpx
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from memkit.adapters.manifest import CONFIG, WEIGHTS
from memkit.errors import (
    AdapterRejected,
    HostFull,
    InvalidConfig,
    MissingExtra,
    ModelError,
    ModelRefused,
    ModelTimeout,
    ModelUnavailable,
)
from memkit.net.secret import Secret
from memkit.net.urls import check_base_url
from memkit_train.errors import WrongParent
from memkit_train.learn import lora
from memkit_train.rl.settings import TinkerSettings
from memkit_train.rows import Row

URL, KEY = "TINKER_BASE_URL", "TINKER_API_KEY"
STATE = "tinker_state"
"""In the head of an adapter's weights: what the service calls the state that they are."""
KEPT_S, FETCHED_S = 30 * 86_400, 86_400
"""How long the service keeps a state that training may go on from, and a copy to be downloaded."""
GONE = (
    f"the service keeps states for {KEPT_S // 86_400} days, for the key that trained them; "
    "set model.parent=base, or online.engine=memkit"
)
CONNECT_S, CLOSE_S = 60.0, 5.0
HEADS = frozenset({"lm_head", "unembed_tokens", "embed_tokens"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """A prompt, and how to sample its replies."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class SampledReply:
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: bool
    """By itself, not for want of tokens."""


@dataclass(slots=True)
class TrainingService:
    sdk: Any
    files: Any
    """The SDK's client of what is stored."""
    training: Any
    timeout: float
    _sampler: Any = None

    def publish(self) -> None:
        """Sample by the weights as they are now."""
        with _explaining("publishing weights"):
            self._sampler = self.training.save_weights_and_get_sampling_client().result(self.timeout)

    def sample(self, asked: Sequence[AskedPrompt], count: int, stop_ids: Sequence[int]) -> list[list[SampledReply]]:
        """`count` replies to each, at temperature 1."""
        sdk = self.sdk
        with _explaining("sampling"):
            waiting = [
                self._sampler.sample(
                    sdk.ModelInput.from_ints(list(one.prompt_ids)),
                    count,
                    sdk.SamplingParams(max_tokens=one.max_tokens, temperature=1.0, seed=one.seed, stop=list(stop_ids)),
                )
                for one in asked
            ]
            found = [one.result(self.timeout).sequences for one in waiting]
        return [[_read(one) for one in sequences] for sequences in found]

    def learn(self, rows: Sequence[Row], rate: float, clip: dict[str, float] | None = None) -> float | None:
        """The loss, averaged over the tokens of all rows; None: the service does not tell. `clip`: bounds of PPO's
        ratio; None: no bounds."""
        tokens = sum(len(row.completion_ids) for row in rows)
        loss = "importance_sampling" if clip is None else "ppo"
        with _explaining(f"a step of {loss}"):
            passed = self.training.forward_backward([_datum(self.sdk, row, tokens) for row in rows], loss, clip)
            adam = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "grad_clip_norm": 1.0}
            stepped = self.training.optim_step(self.sdk.AdamParams(learning_rate=rate, **adam))
            found = passed.result(self.timeout)
            stepped.result(self.timeout)
        told = found.metrics.get("loss:sum")
        return None if told is None else float(told)

    def save(self, name: str, folder: Path) -> None:
        """The weights of this moment as an adapter that memkit serves. The service keeps their state, and the adapter
        says where, so that training may go on from it."""
        with _explaining("saving weights"):
            state = self.training.save_state(name, ttl_seconds=KEPT_S).result(self.timeout).path
            copy = self.training.save_weights_external(name, ttl_seconds=FETCHED_S).result(self.timeout).path
            urls = self.files.get_external_weights_urls(copy).result(self.timeout).urls
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for wanted in (CONFIG, WEIGHTS):
            url = next((url for path, url in urls.items() if Path(path).name == wanted), None)
            if url is None:
                raise AdapterRejected(
                    f"the Tinker service saved no {wanted}",
                    why=f"it offers {', '.join(sorted(urls)) or 'nothing'}",
                    fix="use a service that saves LoRA weights in PEFT's format",
                )
            _download(url, folder / wanted)
        _normalise(folder, state)


@contextlib.contextmanager
def open_service(
    settings: TinkerSettings, base_model: str, parent: Path | None, spec: lora.LoraSpec, *, seed: int
) -> Generator[TrainingService]:
    """With a fresh LoRA, or with the one that `parent` is. What cannot be had is refused before anybody is asked."""
    sdk = _import_sdk()
    url, state = _check_environment(), None if parent is None else read_state(parent)
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    patience = min(settings.timeout, CONNECT_S)
    client = sdk.ServiceClient(base_url=url)
    ended = "errored"
    try:
        with _explaining("creating a LoRA") if state is None else _explaining(f"loading {state}", GONE):
            if state is None:
                making = _wait(
                    lambda: client.create_lora_training_client(base_model, spec.r, seed, train_unembed=False), patience
                )
            else:
                making = _wait(lambda: client.create_training_client_from_state(state), patience)
            training = making.result(settings.timeout)
            files = _wait(lambda: sdk.RestClient(base_url=url), patience)
        yield TrainingService(sdk, files, training, settings.timeout)
        ended = "success"
    finally:
        with contextlib.suppress(Exception):  # the work is done, or its failure is on its way up
            patience = min(settings.timeout, CLOSE_S)
            _wait(lambda: client.close(ended), patience).result(patience)


def read_state(adapter: Path) -> str:
    """Where the service keeps the state that this adapter is."""
    try:
        with safe_open(adapter / WEIGHTS, "pt") as weights:
            found = (weights.metadata() or {}).get(STATE)
    except (OSError, SafetensorError) as error:
        raise WrongParent(f"cannot read the adapter {adapter}", why=str(error), fix="name another parent") from error
    if found is None:
        raise WrongParent(
            f"engine tinker cannot continue from the adapter {adapter}",
            why="Tinker's API takes no weights from outside, and these were not trained by it",
            fix="set model.parent=base to begin with a fresh adapter, or online.engine to memkit or trl",
        )
    return found


def _import_sdk() -> Any:
    try:
        return import_module("tinker")
    except ImportError as error:
        raise MissingExtra(
            "online.engine=tinker needs Tinker's SDK", why=str(error), fix="pip install 'memkit[tinker]'"
        ) from error


def _check_environment() -> str | None:
    url, key = os.environ.get(URL), os.environ.get(KEY)
    if not key:
        raise InvalidConfig(
            "engine tinker needs a key of the service",
            why=f"{KEY} is not set, and no other place is looked at",
            fix=f"set {KEY} in the environment",
        )
    Secret.header_safe(key, KEY)
    if url:
        try:
            check_base_url(url)
        except InvalidConfig as error:
            raise InvalidConfig(
                f"{URL} cannot be used",
                why=error.why or error.what,
                fix="use https, or http on this machine, as through a tunnel",
            ) from None
    return url or None


def _wait(make: Callable[[], T], seconds: float) -> T:
    """The SDK opens its session with the first call, and there waits for minutes where nobody answers."""
    made: Future[T] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return made.result(seconds)


def _read(sequence: Any) -> SampledReply:
    ids, likely = tuple(map(int, sequence.tokens)), tuple(map(float, sequence.logprobs or ()))
    if not ids or len(ids) != len(likely):
        raise ModelRefused(
            "the Tinker service does not say what it sampled",
            why=f"{len(ids)} tokens and {len(likely)} log-probs came back",
            fix="use a service that returns the tokens of a reply with their log-probs",
        )
    return SampledReply(ids, likely, sequence.stop_reason == "stop")


def _datum(sdk: Any, row: Row, tokens: int) -> Any:
    """Losses of this API are sums: with `tokens` of all rows below, the sum is their mean."""
    assert row.behaviour_logprobs is not None
    assert isinstance(row.advantage, float)
    before, said = [0.0] * (len(row.prompt_ids) - 1), len(row.completion_ids)
    ids = [*row.prompt_ids, *row.completion_ids]
    return sdk.Datum(
        model_input=sdk.ModelInput.from_ints(ids[:-1]),
        loss_fn_inputs={
            "target_tokens": ids[1:],
            "logprobs": [*before, *row.behaviour_logprobs],
            "advantages": [*before, *[row.advantage / tokens] * said],
        },
    )


def _download(url: str, file: Path) -> None:
    """Its address is a key to it, and stays out of messages."""
    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=CONNECT_S) as answer, file.open("wb") as out:
            if answer.status_code != 200:
                raise ModelUnavailable(
                    f"{file.name} could not be downloaded",
                    why=f"its store answered {answer.status_code}",
                    fix="run the same command again",
                )
            for part in answer.iter_bytes():
                out.write(part)
    except httpx.HTTPError as error:
        raise ModelUnavailable(
            f"{file.name} could not be downloaded", why=type(error).__name__, fix="run the same command again"
        ) from None


def _normalise(folder: Path, state: str) -> None:
    """Names as PEFT saves them, and the layers named that the adapter has."""
    try:
        config, tensors = json.loads((folder / CONFIG).read_text()), load_file(folder / WEIGHTS)
    except (ValueError, SafetensorError) as error:
        raise AdapterRejected(
            "what the Tinker service saved cannot be read",
            why=str(error),
            fix="use a service that saves LoRA weights in PEFT's format",
        ) from error
    named = {f"base_model.model.{key.removeprefix('base_model.model.')}": one for key, one in tensors.items()}
    named = {key.replace(".default.weight", ".weight"): one for key, one in named.items()}
    layers = {key.split(".lora_")[0].rsplit(".", 1)[-1] for key in named}
    if layers & HEADS:
        raise HostFull(
            "the Tinker service trains more than the linear layers",
            why=f"its adapter changes {', '.join(sorted(layers & HEADS))}, which memkit serves as they are",
            fix="use a service that can leave them alone (train_unembed=False)",
        )
    save_file(named, folder / WEIGHTS, {"format": "pt", STATE: state})
    config |= {"peft_type": "LORA", "task_type": "CAUSAL_LM", "target_modules": sorted(layers)}
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True))


@contextlib.contextmanager
def _explaining(doing: str, remedy: str | None = None) -> Generator[None]:
    """`remedy`: what helps where the service refuses this."""
    try:
        yield
    except Exception as error:
        raise _explain(error, doing, remedy) from error


def _explain(error: Exception, doing: str, remedy: str | None) -> ModelError:
    chain = list(_causes(error))
    status = max(int(getattr(one, "status_code", 0) or 0) for one in chain)
    blamed = any(str(getattr(one, "category", "")) == "user" for one in chain)
    said = str(chain[-1]) or type(error).__name__
    if key := os.environ.get(KEY):
        said = said.replace(key, "***")
    said = said[:300]
    if isinstance(error, TimeoutError):
        return ModelTimeout(
            f"the Tinker service did not answer in time while {doing}",
            why="it is down, cannot be reached, or full",
            fix=f"check {URL} and the service; raise online.tinker.timeout where it queues for longer",
        )
    if status == 401 or (status == 403 and remedy is None) or type(error).__name__ == "TinkerError":
        return ModelRefused(
            f"the Tinker service lets nobody in for {doing}",
            why=said,
            fix=f"set {KEY} to a key of the service at {URL}",
        )
    if blamed or (400 <= status < 500 and status not in (408, 409, 429)):
        return ModelRefused(
            f"the Tinker service refuses {doing}",
            why=said,
            fix=remedy or "correct what it names; its model is online.tinker.base_model, its rank method.lora_r",
        )
    return ModelUnavailable(
        f"the Tinker service failed while {doing}",
        why=said,
        fix="look after the service, and run the same command again",
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
