"""What backbones over HTTP share: any number of requests at once, retries within one deadline, and a dialect that is
narrowed by what the endpoint refuses. A provider says how it is reached (`Access`), what is sent, what replies mean.

One asynchronous implementation runs on the network thread; `generate` blocks on it, `agenerate` awaits it from any
event loop. Explicit configuration wins over the environment, of which only the variables that `Access` names are read;
a key found there is sent to the endpoint found there (or to the default one), never to one that code names.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import httpx

from memkit.backbones.wire import Dialect, Draft, Structured, load_json, narrow, refusal_slugs
from memkit.errors import InvalidConfig, ModelError, ModelRefused
from memkit.net.client import Budget, JsonClient, read_capped
from memkit.net.endpoint import Access, resolve_endpoint
from memkit.net.loop import network
from memkit.net.secret import Secret
from memkit.roles.prompting import check_style
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit.seams.clock import Clock, SystemClock

_FIXES = {
    400: "check base_url, the model's name and extra_body",
    401: "check the key: pass api_key=, or set {key}",
    402: "see to the account's billing at the provider",
    403: "check what this key may use",
    404: "check the model's name{root}",
    413: "send less in one call",
}


class HostedBackbone(ABC):
    access: ClassVar[Access]
    provider: ClassVar[str]
    example: ClassVar[str]
    """A model's name, for whoever forgot it."""
    root: ClassVar[str] = ""
    """What base_url ends in, for whoever gets a 404."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        style: str = "json",
        structured: Structured = "json_schema",
        logprobs: bool = True,
        max_parallel: int = 8,
        allow_insecure: bool = False,
        trust_env: bool = False,
        adapter_model_name: Callable[[str], str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        """
        structured: how replies are held to their schema; on a refusal, json_schema falls back to json_object and
            to prompting alone. `tool` asks for a forced tool call instead.
        allow_insecure: plain http beyond this machine, and names that lead to this machine.
        trust_env: proxies and certificate files that the environment names; a proxy then resolves names unjudged.
        adapter_model_name: adapter digest → the `model` that this server knows it by; by default the digest itself.
        extra_body: further fields of every request, e.g. {"return_token_ids": True} for vLLM; objects are joined.
        """
        if not model:
            spec = f"{self.provider}:"
            raise InvalidConfig("the model has no name", fix=f'pass model="{spec}NAME", e.g. "{spec}{self.example}"')
        self._url, key = resolve_endpoint(base_url, api_key, self.access, allow_insecure=allow_insecure)
        self._model, self.style, self.max_parallel = model, check_style(style), max_parallel
        self.identity = f"{self.provider}:{model}"
        self._model_of = adapter_model_name or (lambda adapter: adapter)
        self._extra = dict(extra_body or {})
        self._clock = clock or SystemClock()
        self._dialect = Dialect(structured=structured, logprobs=logprobs)
        self._client = JsonClient(
            self._url,
            key=key,
            key_header=self.access.key_header,
            headers=self.access.headers,
            max_parallel=max_parallel,
            trust_env=trust_env,
            transport=transport,
            rng=rng or random.Random(),
            clock=self._clock,
        )

    @property
    def endpoint(self) -> str:
        """Where prompts go."""
        return str(self._url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, base_url={self.endpoint!r})"

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return network.run(self._each(requests))

    async def agenerate(self, requests: Sequence[GenRequest]) -> Replies:
        return await network.run_async(self._each(requests))

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # what a provider says for itself

    @abstractmethod
    def _path(self, model: str) -> str:
        """Where it is asked, after the base URL."""

    @abstractmethod
    def _body(self, request: GenRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        """What it is asked."""

    def _take(self, draft: Draft, data: Any) -> None:
        """Read a whole reply into the draft."""
        draft.take(data)

    def _narrow(self, dialect: Dialect, sent: Mapping[str, Any], refusal: str, *, last: bool) -> Dialect | None:
        """The dialect after a 400 or 422 with this body; None where leaving things out cannot help."""
        return narrow(dialect, sent, refusal, last=last)

    # what all have in common

    async def _each(self, requests: Sequence[GenRequest]) -> list[GenReply | ModelError]:
        """A request's clock starts when its list has come to it: at most `max_parallel` are under way."""
        waiting = iter(enumerate(requests))
        outcomes: list[GenReply | ModelError | None] = [None] * len(requests)

        async def worker() -> None:
            for index, request in waiting:
                try:
                    outcomes[index] = await self._whole(request)
                except ModelError as error:
                    outcomes[index] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(requests), self.max_parallel)):
                group.create_task(worker())
        return [outcome for outcome in outcomes if outcome is not None]

    async def _whole(self, request: GenRequest) -> GenReply:
        async def read(response: httpx.Response, draft: Draft) -> None:
            self._take(draft, load_json(await read_capped(response)))

        return await self._converse(request, read, stream=False)

    async def _converse(
        self, request: GenRequest, read: Callable[[httpx.Response, Draft], Awaitable[None]], *, stream: bool
    ) -> GenReply:
        """One request to its reply; a refusal that names an optional parameter is answered by leaving it out."""
        budget = Budget(request.deadline_s, request.max_calls)
        started = self._clock.monotonic()
        model = self._model if request.adapter is None else self._model_of(request.adapter)
        dialect = known = self._dialect
        while True:
            sent = join_fields(self._body(request, model, dialect, stream=stream), self._extra)

            async def answered(response: httpx.Response, dialect: Dialect = dialect) -> GenReply | tuple[int, bytes]:
                if not 200 <= response.status_code < 300:
                    return response.status_code, await read_capped(response)
                draft = Draft()
                await read(response, draft)
                latency_ms = (self._clock.monotonic() - started) * 1000
                return draft.reply(request, model, dialect, calls=budget.calls, latency_ms=latency_ms)

            outcome = await self._client.post(self._path(model), sent, budget, answered)
            if isinstance(outcome, GenReply):
                if dialect is not known:
                    self._dialect = dialect
                return outcome
            status, raw = outcome
            if status not in (400, 422) or budget.spent:
                raise self._refused(status, raw, budget.calls)
            last = budget.calls + 1 == budget.max_calls
            narrower = self._narrow(dialect, sent, raw.decode("utf-8", "replace"), last=last)
            if narrower is None:
                raise self._refused(status, raw, budget.calls)
            dialect = narrower

    def _refused(self, status: int, raw: bytes, calls: int) -> ModelRefused:
        try:
            slugs = refusal_slugs(load_json(raw))
        except ModelError:
            slugs = {}
        # one provider answers 400 to a wrong key, and says so in words only
        told = 401 if status == 400 and b"API_KEY_INVALID" in raw else status
        why = ", ".join(f"{name}: {value}" for name, value in slugs.items())
        if 300 <= status < 400:
            why = "redirects are not followed: they would carry the prompt to another address"
        key = " or ".join(self.access.key_names) or "nothing: no key is needed on this machine"
        return ModelRefused(
            f"the endpoint refused the request with status {status}",
            why=why,
            fix=_FIXES.get(told, _FIXES[400]).format(key=key, root=self.root),
            status=status,
            calls=calls,
            **slugs,
        )


def join_fields(out: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """`extra` wins; objects within objects are joined, so that one option of many can be set."""
    both = dict(out)
    for name, value in extra.items():
        old = both.get(name)
        deep = isinstance(old, Mapping) and isinstance(value, Mapping)
        both[name] = join_fields(cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", value)) if deep else value
    return both


def say_declined(what: str, why: str) -> ModelRefused:
    """The provider's own rules stopped the reply: asking again with the same words does not help."""
    return ModelRefused(
        what, why=why, fix="see the turn with `memkit log`; retry it with another model", **{"class": "declined"}
    )
