"""vLLM over HTTP: runtime LoRA loading on one server or on every replica of a fleet.

The server needs VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, --enable-lora, --max-lora-rank and --max-loras. Adapters are loaded
under their digests and never in place: vLLM caches prefixes by adapter *name*, so other bytes under a known name would
be answered from the old adapter's cache. Every replica is loaded and then asked what it serves, because a 200 from a
load balancer says nothing about the others.

Autoscaled fleets pull instead: point vLLM's filesystem resolver at the registry (see `resolver_settings`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import httpx

from memkit.adapters.hosts.base import AdapterArtifact, HostLimits, LoadedAdapter
from memkit.errors import (
    AdapterRejected,
    HostFull,
    IncompatibleBase,
    InvalidConfig,
    MemkitError,
    ModelUnavailable,
    ProbeFailed,
)

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM accepts for --max-lora-rank."""
_REPLICA_NATS = 0.05
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MODULES = frozenset(
    {"q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "gate_proj", "up_proj", "gate_up_proj", "down_proj"}
)
"""`qkv_proj` and `gate_up_proj`: as Phi-3 names them."""


class VLLMHost:
    """`urls`: the base URL of every replica (not of a load balancer before them), with or without `/v1`. `path_of`:
    where the server finds an artifact, when it does not share this file system. `max_rank`, `max_adapters`: what the
    server was started with (--max-lora-rank, --max-loras), as its API does not tell."""

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        base: str,
        max_rank: int = 16,
        max_adapters: int | None = None,
        target_modules: frozenset[str] | None = _MODULES,
        path_of: Callable[[AdapterArtifact], str] = lambda artifact: str(artifact.path.resolve()),
        api_key: str | None = None,
        timeout_s: float = 120.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if max_rank not in RANKS:
            raise InvalidConfig(
                f"max_rank={max_rank} is no --max-lora-rank of vLLM", fix=f"one of {', '.join(map(str, RANKS))}"
            )
        listed = [urls] if isinstance(urls, str) else list(urls)
        if not listed:
            raise InvalidConfig("VLLMHost needs at least one URL", fix="VLLMHost('http://127.0.0.1:8000', base=...)")
        self.urls = tuple(url.rstrip("/").removesuffix("/v1") for url in listed)
        self._base, self._path_of = base, path_of
        self._limits = HostLimits(
            max_rank=max_rank, max_adapters=max_adapters, shared=True, target_modules=target_modules, base_id=base
        )
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = httpx.Client(
            headers=headers, timeout=timeout_s, transport=transport, follow_redirects=False, trust_env=False
        )

    def capabilities(self) -> HostLimits:
        return self._limits

    def load(self, artifact: AdapterArtifact) -> LoadedAdapter:
        """On every replica, or on none."""
        path = self._path_of(artifact)
        done: list[str] = []
        try:
            for url in self.urls:
                if self._load_one(url, artifact.name, path):
                    done.append(url)
                self._check_served(url, artifact.name, path)
        except MemkitError:
            for url in done:
                self._drop_quietly(url, artifact.name)
            raise
        return LoadedAdapter(artifact.name, artifact.bytes, self.urls)

    def unload(self, name: str) -> None:
        for url in self.urls:
            status, body = self._post(url, "/v1/unload_lora_adapter", {"lora_name": name})
            if status != 200 and not (status == 404 and "cannot be found" in _message(body)):
                raise _unexpected(url, "unload the adapter", status, body)

    def resident(self) -> list[LoadedAdapter]:
        """What every replica serves. An adapter that only some have is not resident."""
        lists = [{name for name in self._served(url) if _DIGEST.fullmatch(name)} for url in self.urls]
        return [LoadedAdapter(name, places=self.urls) for name in sorted(set.intersection(*lists))]

    def serves_as(self) -> str:
        """What the first replica calls the model under its adapters."""
        cards = self._cards(self.urls[0])
        return next((str(card["id"]) for card in cards if not card.get("parent")), self._base)

    def score(self, name: str | None, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """From every replica: a probe must hold on all of them, so they must agree."""
        answers = [[self._score_one(url, name, prompt, tokens) for prompt, tokens in pairs] for url in self.urls]
        for url, rows in zip(self.urls, answers, strict=True):
            if not (gap := _gap(rows, answers[0])) <= _REPLICA_NATS:
                raise ProbeFailed(
                    f"{url} behaves unlike {self.urls[0]} under {name or 'the base model'}",
                    why=f"their log-probs differ by {gap:.3g} nats per token",
                    fix="check that both run the same base model, precision and adapters",
                    reason="replicas_disagree",
                )
        return answers[0]

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> VLLMHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- one replica -------------------------------------------------------------------------------------------

    def _load_one(self, url: str, name: str, path: str) -> bool:
        """True when this call loaded it, False when it was there already."""
        status, body = self._post(url, "/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
        message = _message(body)
        if status == 200:
            return True
        if status == 400 and "already been loaded" in message:
            return False
        if status == 404 and _type(body) != "NotFoundError":
            raise HostFull(
                f"{url} does not load adapters at run time",
                why="it has no route /v1/load_lora_adapter",
                fix="start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
                reason="runtime_loading_off",
            )
        if status == 404:
            raise AdapterRejected(
                f"{url} does not find the adapter's files",
                why=f"it looked at {path!r}",
                fix="share the registry's folder with the server, or pass path_of= with the path as the server sees it",
                reason="not_found_by_server",
            )
        if "max_lora_rank" in message or "is greater than" in message:
            raise HostFull(
                f"{url} cannot serve this rank",
                why=message[:300],
                fix="raise --max-lora-rank",
                reason="rank_unservable",
            )
        if "target module" in message or "not supported" in message:
            raise IncompatibleBase(
                f"{url} cannot apply the adapter",
                why=message[:300],
                fix="train for the model it serves",
                reason="modules",
            )
        raise _unexpected(url, "load the adapter", status, body)

    def _check_served(self, url: str, name: str, path: str) -> None:
        root = self._served(url).get(name)
        if root is None:
            raise HostFull(
                f"{url} accepted the adapter and does not list it",
                why="a load balancer, or data parallelism inside the server, sent the call to another replica",
                fix="name every replica's own URL, or use the resolver plugin (resolver_settings)",
                reason="not_listed",
            )
        if root != path:
            raise AdapterRejected(
                f"{url} serves other files under this digest",
                why=f"it loaded {root!r}, not {path!r}",
                fix="unload it there, then promote again",
                reason="other_files",
            )

    def _served(self, url: str) -> dict[str, str]:
        """Adapter name → the path that it was loaded from."""
        return {str(card["id"]): str(card.get("root")) for card in self._cards(url) if card.get("parent")}

    def _cards(self, url: str) -> list[dict[str, Any]]:
        status, body = self._call("GET", url, "/v1/models", None)
        if status != 200 or not isinstance(body, Mapping):
            raise _unexpected(url, "list its models", status, body)
        return cast("list[dict[str, Any]]", body.get("data", []))

    def _score_one(self, url: str, name: str | None, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """vLLM scores a prompt's own tokens: the completion is sent as the end of the prompt."""
        ids = [*prompt, *tokens]
        request = {
            "model": name or self._base,
            "prompt": ids,
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
        }
        status, body = self._post(url, "/v1/completions", request)
        try:
            rows = body["choices"][0]["prompt_logprobs"][-len(tokens) :]
            if status == 200:
                return [float(row[str(token)]["logprob"]) for row, token in zip(rows, tokens, strict=True)]
        except (KeyError, IndexError, TypeError, ValueError):
            pass
        raise _unexpected(url, "score the adapter", status, body)

    def _drop_quietly(self, url: str, name: str) -> None:
        try:
            self._post(url, "/v1/unload_lora_adapter", {"lora_name": name})
        except MemkitError:
            return

    def _post(self, url: str, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        return self._call("POST", url, path, body)

    def _call(self, method: str, url: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        try:
            response = self._http.request(method, url + path, json=body)
        except httpx.HTTPError as error:
            raise ModelUnavailable(
                f"{url} cannot be reached", why=type(error).__name__, fix="check that the vLLM server runs there"
            ) from error
        try:
            return response.status_code, response.json()
        except ValueError:
            return response.status_code, response.text[:500]


def resolver_settings(root: Path | str) -> dict[str, str]:
    """Environment of a vLLM server that pulls adapters by digest from the registry at `root` when a request first names
    one: no load call, so every replica of an autoscaled fleet serves what the router says. vLLM compares
    `base_model_name_or_path` in adapter_config.json with the model it was started with (see `resolvable`)."""
    return {
        "VLLM_PLUGINS": "lora_filesystem_resolver",
        "VLLM_LORA_RESOLVER_CACHE_DIR": str(Path(root).resolve()),
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    }


def resolvable(folder: Path | str, served_model: str) -> bool:
    """Whether the resolver of a server that was started with `served_model` accepts the adapter."""
    from memkit.adapters.manifest import CONFIG, strict_json

    config = strict_json((Path(folder) / CONFIG).read_bytes(), where=CONFIG)
    return config.get("peft_type") == "LORA" and config.get("base_model_name_or_path") == served_model


def _gap(rows: Sequence[Sequence[float]], first: Sequence[Sequence[float]]) -> float:
    gaps = [abs(x - y) for a, b in zip(rows, first, strict=True) for x, y in zip(a, b, strict=True)]
    return sum(gaps) / max(1, len(gaps))


def _message(body: Any) -> str:
    """vLLM's error body is {"error": {"message", "type", "param", "code"}}; older versions had no wrapper."""
    inner = _error(body)
    return str(inner.get("message") or inner.get("detail") or "") if inner else str(body)


def _type(body: Any) -> str:
    return str(_error(body).get("type", ""))


def _error(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        return {}
    whole = cast("Mapping[str, Any]", body)
    inner = whole.get("error")
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else whole


def _unexpected(url: str, what: str, status: int, body: Any) -> ModelUnavailable:
    return ModelUnavailable(
        f"{url} could not {what} (HTTP {status})",
        why=_message(body)[:300],
        fix="see the server's log; the adapter that serves is untouched",
        status=status,
    )
