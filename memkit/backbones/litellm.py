"""Every provider that LiteLLM knows: "litellm:groq/llama-3.3-70b", "litellm:bedrock/…", "litellm:mistral/…".

LiteLLM finds keys and addresses in its own environment variables and speaks to the provider itself. Retries, deadline
and errors are memkit's: LiteLLM's own are switched off, and so is the price list that it would fetch when imported.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

from memkit.backbones.wire import Dialect, Draft, fits_strict
from memkit.errors import InvalidConfig, MissingExtra, ModelError, ModelRefused, ModelTimeout
from memkit.errors import ModelUnavailable as Unavailable
from memkit.net.loop import network
from memkit.net.retry import backoff, is_passing
from memkit.net.secret import Secret
from memkit.net.urls import check_base_url
from memkit.roles.prompting import check_style
from memkit.seams.backbone import GenReply, GenRequest, Replies

_DIALECT = Dialect(logprobs=False)


class LiteLLMBackbone:
    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        style: str = "json",
        max_parallel: int = 8,
        allow_insecure: bool = False,
        extra_body: Mapping[str, Any] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """extra_body: further arguments of every `litellm.acompletion`."""
        if not model:
            raise InvalidConfig("the model has no name", fix='pass model="litellm:PROVIDER/NAME"')
        self._litellm = _load()
        self._model, self.style, self.max_parallel = model, check_style(style), max_parallel
        self.identity = f"litellm:{model}"
        self._url = None if base_url is None else str(check_base_url(base_url, allow_insecure=allow_insecure))
        self._check_provider()
        self._key = Secret.header_safe(api_key, "api_key") if isinstance(api_key, str) else api_key
        self._extra, self._rng = dict(extra_body or {}), rng or random.Random()

    def __repr__(self) -> str:
        return f"LiteLLMBackbone({self._model!r})"

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return network.run(self._each(requests))

    def close(self) -> None:
        """LiteLLM keeps its own connections."""

    def _check_provider(self) -> None:
        """A name that LiteLLM cannot place would fail with the first message otherwise."""
        try:
            self._litellm.get_llm_provider(self._model, api_base=self._url)
        except Exception:
            raise InvalidConfig(
                f"LiteLLM knows no provider of {self._model!r}",
                fix='pass model="litellm:PROVIDER/NAME", e.g. "litellm:groq/llama-3.3-70b-versatile"',
            ) from None

    async def _each(self, requests: Sequence[GenRequest]) -> Replies:
        slots = asyncio.Semaphore(self.max_parallel)

        async def one(request: GenRequest) -> GenReply | ModelError:
            async with slots:
                try:
                    return await self._one(request)
                except ModelError as error:
                    return error

        return list(await asyncio.gather(*map(one, requests)))

    async def _one(self, request: GenRequest) -> GenReply:
        started, calls = time.monotonic(), 0
        try:
            async with asyncio.timeout(request.deadline_s):
                while True:
                    calls += 1
                    found = await self._call(request, calls, started)
                    if isinstance(found, GenReply):
                        return found
                    if calls >= request.max_calls:
                        raise found
                    await asyncio.sleep(backoff(calls, self._rng))
        except TimeoutError:
            raise ModelTimeout(
                f"no complete reply within {request.deadline_s:g} s",
                why=f"{calls} call(s) were made through LiteLLM",
                fix="raise the deadline, or see why the provider is slow",
                calls=calls,
            ) from None

    async def _call(self, request: GenRequest, calls: int, started: float) -> GenReply | Unavailable:
        """The reply, or a failure that may have passed with the next call."""
        try:
            response = await self._litellm.acompletion(**self._arguments(request))
        except Exception as error:  # LiteLLM raises what its providers' clients raise, too
            told = _told(error, calls)
            if isinstance(told, Unavailable):
                return told
            raise told from None
        draft = Draft()
        draft.take(response.model_dump())
        latency_ms = (time.monotonic() - started) * 1000
        reply = draft.reply(request, draft.model, _DIALECT, calls=calls, latency_ms=latency_ms)
        hidden: Any = getattr(response, "_hidden_params", None)
        cost = cast(Mapping[str, Any], hidden).get("response_cost") if isinstance(hidden, Mapping) else None
        if isinstance(cost, int | float):
            reply = replace(reply, extra={"usd": cost})
        return reply

    def _arguments(self, request: GenRequest) -> dict[str, Any]:
        if request.adapter is not None:
            raise Unavailable(
                "LiteLLM serves no adapters", why="it was asked for one", fix="use an in-process or vLLM backbone"
            )
        prompt = request.prompt
        out: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            "max_tokens": prompt.max_tokens,
            "temperature": request.sampling.temperature,
            "timeout": request.deadline_s,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": True,
            "api_base": self._url,
            "api_key": None if self._key is None else self._key.reveal(),
        }
        if prompt.schema is not None:
            form = {"name": f"memkit_{prompt.role}", "schema": prompt.schema, "strict": fits_strict(prompt.schema)}
            out["response_format"] = {"type": "json_schema", "json_schema": form}
        return out | self._extra


def _told(error: Exception, calls: int) -> ModelError:
    """What went wrong, without its words: providers quote prompt and key there."""
    name, status = type(error).__name__, getattr(error, "status_code", None)
    if not isinstance(status, int) or is_passing(status):
        return Unavailable(
            f"LiteLLM raised {name}",
            why=f"{calls} call(s) were made",
            fix="see that the provider is up and the model's name is right, then retry()",
            calls=calls,
            **({"status": status} if isinstance(status, int) else {}),
        )
    return ModelRefused(
        f"the provider refused the request with status {status}",
        why=name,
        fix="check the key that LiteLLM reads for this provider" if status in (401, 403) else "check the model's name",
        status=status,
        calls=calls,
    )


@cache
def _load() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network for prices
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads the .env of wherever it stands
    try:
        import litellm
    except ModuleNotFoundError:
        raise MissingExtra(
            "litellm: models need LiteLLM", why="it is not installed", fix='pip install "memkit[litellm]"'
        ) from None
    module: Any = litellm
    module.telemetry = False
    module.suppress_debug_info = True
    return module
