"""Any OpenAI-compatible `/embeddings` endpoint: batched, within a deadline, checked before a vector is believed.

Addresses, keys, retries and caps are those of `memkit.net`, as for chat. A failure is always an `EmbedderError`; what
kind it was stands in `details["cause"]`.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Sequence
from typing import Any, cast

import httpx
import numpy as np
from numpy.typing import NDArray

from memkit.embedders.check import unit_rows
from memkit.errors import BadReply, EmbedderError, InvalidConfig, ModelError, ModelRefused
from memkit.net.client import Budget, JsonClient, read_capped
from memkit.net.endpoint import resolve_endpoint
from memkit.net.loop import network
from memkit.net.secret import Secret
from memkit.seams.clock import Clock, SystemClock

NATIVE_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
MAX_REPLY_BYTES = 64_000_000
_MAX_CALLS = 4
_PARALLEL = 4


class OpenAIEmbedder:
    """Embedder (identity `openai:NAME:DIM`)."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        dim: int | None = None,
        batch: int = 64,
        deadline_s: float = 60.0,
        allow_insecure: bool = False,
        trust_env: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        """
        dim: how long vectors must be. Where a model can shorten them it is asked to; where it is left out and the
            model is not a known one, one text is embedded to find out, on first need.
        deadline_s: for each batch of `batch` texts, retries included.
        """
        if batch < 1 or deadline_s <= 0 or (dim is not None and dim < 1):
            raise InvalidConfig(
                "batch, deadline_s and dim are positive", why=f"got {batch}, {deadline_s}, {dim}", fix="leave them out"
            )
        url, key = resolve_endpoint(base_url, api_key, allow_insecure=allow_insecure)
        self._url = str(url)
        native = NATIVE_DIMS.get(model)
        self._model, self._dim, self._batch, self._deadline_s = model, dim or native, batch, deadline_s
        self._shorten = native is not None and dim not in (None, native)
        self._lock = threading.Lock()
        self._client = JsonClient(
            url,
            key=key,
            max_parallel=_PARALLEL,
            trust_env=trust_env,
            transport=transport,
            rng=rng or random.Random(),
            clock=clock or SystemClock(),
        )

    @property
    def identity(self) -> str:
        return f"openai:{self._model}:{self.dim}"

    @property
    def dim(self) -> int:
        with self._lock:
            if self._dim is None:
                self._dim = self._all(["dimension"], None).shape[1]
            return self._dim

    @property
    def endpoint(self) -> str:
        """Where texts go."""
        return self._url

    @property
    def cheap(self) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._all(texts, self.dim) if texts else np.zeros((0, self.dim), dtype=np.float32)

    def close(self) -> None:
        self._client.close()

    def _all(self, texts: Sequence[str], dim: int | None) -> NDArray[np.float32]:
        batches = [list(texts[i : i + self._batch]) for i in range(0, len(texts), self._batch)]
        try:
            return np.concatenate(network.run(self._gather(batches, dim)))
        except ModelError as error:
            raise EmbedderError(
                f"the embedder openai:{self._model} failed: {error.what}",
                why=error.why,
                fix=error.fix,
                cause=type(error).__name__,
                **error.details,
            ) from error

    async def _gather(self, batches: Sequence[list[str]], dim: int | None) -> list[NDArray[np.float32]]:
        """At most `_PARALLEL` batches under way; the first failure ends the rest."""
        slots = asyncio.Semaphore(_PARALLEL)

        async def one(batch: list[str]) -> NDArray[np.float32]:
            async with slots:
                return await self._one(batch, dim)

        tasks = [asyncio.ensure_future(one(batch)) for batch in batches]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _one(self, batch: list[str], dim: int | None) -> NDArray[np.float32]:
        body: dict[str, Any] = {"model": self._model, "input": batch, "encoding_format": "float"}
        if self._shorten:
            body["dimensions"] = self._dim

        async def read(response: httpx.Response) -> NDArray[np.float32]:
            raw = await read_capped(response, MAX_REPLY_BYTES)
            if response.status_code != 200:
                raise _refused(response.status_code)
            return unit_rows(_vectors(raw, len(batch)), len(batch), dim, f"openai:{self._model}")

        return await self._client.post("/embeddings", body, Budget(self._deadline_s, _MAX_CALLS), read)


def _vectors(raw: bytes, count: int) -> list[Any]:
    """The vectors in the order of the texts: entries carry an index and need not come in order."""
    try:
        entries = cast("list[dict[str, Any]]", json.loads(raw)["data"])
        by_index = {int(entry.get("index", n)): entry["embedding"] for n, entry in enumerate(entries)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadReply("the endpoint's reply holds no embeddings", why=type(error).__name__) from error
    if sorted(by_index) != list(range(count)):
        raise BadReply(f"{len(by_index)} vectors came for {count} texts", why="the endpoint owes one per text")
    return [by_index[n] for n in range(count)]


def _refused(status: int) -> ModelRefused:
    fixes = {401: "check api_key or OPENAI_API_KEY", 404: "check the model's name, and that base_url ends in /v1"}
    why = "redirects are not followed: they would carry the texts elsewhere" if 300 <= status < 400 else ""
    return ModelRefused(
        f"the endpoint refused the request with status {status}",
        why=why,
        fix=fixes.get(status, "check base_url and the model's name"),
        status=status,
    )
