"""The chat-completions dialect, as pure functions: what is sent, what a refusal teaches, what a reply says.

Servers differ in what they accept. `Dialect` is what this endpoint is believed to take; a refusal that names a
parameter narrows it (`narrowed`), and the narrower one is remembered for the backbone's later requests.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from memkit.errors import BadReply
from memkit.seams.backbone import GenReply, GenRequest, Usage

Structured = Literal["json_schema", "tool", "json_object", "none"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What to ask this endpoint for."""

    structured: Structured = "json_schema"
    logprobs: bool = True
    sampling: bool = True
    """False: temperature, top_p and seed are left to the endpoint (reasoning models refuse them)."""
    limit_name: str = "max_tokens"
    stream_usage: bool = True
    thinks: bool = True
    """False: this model has no thoughts to set a limit to."""


def body(request: GenRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
    prompt, sampling = request.prompt, request.sampling
    out: dict[str, Any] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
        dialect.limit_name: prompt.max_tokens,
    }
    if dialect.sampling:
        out["temperature"] = sampling.temperature
        if sampling.temperature > 0:
            out["seed"] = noise_seed(sampling.seed, request.key)
            if sampling.top_p < 1:
                out["top_p"] = sampling.top_p
    if dialect.logprobs:
        out["logprobs"] = True
    if prompt.schema is not None:
        out |= _structure(prompt.role, prompt.schema, dialect.structured)
    if stream:
        out["stream"] = True
        if dialect.stream_usage:
            out["stream_options"] = {"include_usage": True}
    return out


def _structure(role: str, schema: Mapping[str, Any], level: Structured) -> dict[str, Any]:
    name = f"memkit_{role}"
    if level == "json_schema":
        form = {"name": name, "schema": schema, "strict": fits_strict(schema)}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if level == "tool":
        tool = {"type": "function", "function": {"name": name, "parameters": schema}}
        return {"tools": [tool], "tool_choice": {"type": "function", "function": {"name": name}}}
    return {"response_format": {"type": "json_object"}} if level == "json_object" else {}


def fits_strict(schema: Any) -> bool:
    """Strict mode wants every object closed and every property required; other schemas are refused there."""
    if isinstance(schema, Mapping):
        node = cast(Mapping[str, Any], schema)
        if isinstance(node.get("properties"), Mapping) and (
            node.get("additionalProperties") is not False or set(node.get("required", ())) != set(node["properties"])
        ):
            return False
        return all(fits_strict(value) for value in node.values())
    if isinstance(schema, list):
        return all(fits_strict(item) for item in cast(list[Any], schema))
    return True


def noise_seed(seed: int, key: str) -> int:
    """One integer for (seed, decision): endpoints that honour `seed` repeat a sampled reply."""
    return int.from_bytes(hashlib.sha256(f"{seed}\x1f{key}".encode()).digest()[:4], "big") >> 1


def narrow(dialect: Dialect, sent: Mapping[str, Any], refusal: str, *, last: bool = False) -> Dialect | None:
    """The dialect after a 400 or 422 whose body is `refusal`; None where leaving things out cannot help. A refusal
    that names nothing, or that leaves one `last` call, costs all optional parameters at once."""
    text = refusal.casefold()
    if "context_length" in text or "context length" in text or "invalid_api_key" in text:
        return None
    if "max_completion_tokens" in text and "max_tokens" in sent:
        # only reasoning models say so, and they refuse sampling parameters and log-probs too, one call each
        return replace(dialect, limit_name="max_completion_tokens", sampling=False, logprobs=False)
    if "temperature" in sent and any(word in text for word in ("temperature", "top_p", "'seed'", '"seed"')):
        return replace(dialect, sampling=False)
    optional = {"logprobs", "response_format", "tools", "stream_options"} & set(sent)
    if last and optional:
        return replace(dialect, structured="none", logprobs=False, stream_usage=False)
    if "stream_options" in optional and "stream_options" in text:
        return replace(dialect, stream_usage=False)
    if "logprobs" in optional and "logprob" in text:
        return replace(dialect, logprobs=False)
    if ("response_format" in sent or "tools" in sent) and any(
        word in text
        for word in ("response_format", "json_schema", "json_object", "schema", "guided", "structured", "tool")
    ):
        return replace(dialect, structured="json_object" if dialect.structured == "json_schema" else "none")
    return replace(dialect, structured="none", logprobs=False, stream_usage=False) if optional else None


_SLUG = re.compile(r"[A-Za-z0-9_.\-\[\]]{1,64}")


def refusal_slugs(data: Any) -> dict[str, str]:
    """`type`, `code` and `param` of an error body. Its message is left out: servers quote the prompt there."""
    error: Any = data.get("error", data) if isinstance(data, Mapping) else None
    if not isinstance(error, Mapping):
        return {}
    found = {name: cast(Mapping[str, Any], error).get(name) for name in ("type", "code", "param")}
    return {name: str(value) for name, value in found.items() if value and _SLUG.fullmatch(str(value))}


def load_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise bad("the endpoint's reply is not JSON", "not_json") from None


def bad(what: str, kind: str) -> BadReply:
    return BadReply(
        what, why="the model's answer is not in it", fix="check that base_url ends in the API's root", **{"class": kind}
    )


@dataclass(slots=True)
class Draft:
    """A reply while it is read, whole or chunk by chunk."""

    text: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])
    refusal: list[str] = field(default_factory=list[str])
    tokens: list[str] = field(default_factory=list[str])
    logprobs: list[float] = field(default_factory=list[float])
    logprobs_bad: bool = False
    prompt_ids: tuple[int, ...] | None = None
    token_ids: list[int] = field(default_factory=list[int])
    model: str = ""
    finish: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    def take(self, data: Any) -> str:
        """One JSON object: a whole completion or a streamed chunk. Returns the text that it adds."""
        if not isinstance(data, Mapping):
            raise bad("the endpoint's reply is no JSON object", "not_object")
        top = cast(Mapping[str, Any], data)
        self.model = top["model"] if isinstance(top.get("model"), str) else self.model
        usage = top.get("usage")
        if isinstance(usage, Mapping):
            self.prompt_tokens = count(cast(Mapping[str, Any], usage).get("prompt_tokens"))
            self.completion_tokens = count(cast(Mapping[str, Any], usage).get("completion_tokens"))
        self.prompt_ids = _ids(top.get("prompt_token_ids")) or self.prompt_ids
        if isinstance(top.get("error"), Mapping):
            raise bad("the endpoint reported an error inside its reply", "error_inside")
        choices = top.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            return ""
        choice = cast(Mapping[str, Any], choices[0])
        self.prompt_ids = _ids(choice.get("prompt_token_ids")) or self.prompt_ids
        self.token_ids += _ids(choice.get("token_ids")) or ()
        self.finish = choice["finish_reason"] if isinstance(choice.get("finish_reason"), str) else self.finish
        self._take_logprobs(choice.get("logprobs"))
        message = choice.get("delta", choice.get("message"))
        return self._take_message(cast(Mapping[str, Any], message)) if isinstance(message, Mapping) else ""

    def _take_message(self, message: Mapping[str, Any]) -> str:
        added = _content(message.get("content"))
        self.text.append(added)
        self.refusal.append(_content(message.get("refusal")))
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for call in cast(list[Any], calls)[:1]:
                function: Any = call.get("function") if isinstance(call, Mapping) else None
                if isinstance(function, Mapping):
                    self.arguments.append(_content(cast(Mapping[str, Any], function).get("arguments")))
        return added

    def _take_logprobs(self, raw: Any) -> None:
        content: Any = cast(Mapping[str, Any], raw).get("content") if isinstance(raw, Mapping) else None
        if not isinstance(content, list):
            return
        for item in cast(list[Any], content):
            entry: Mapping[str, Any] = cast(Mapping[str, Any], item) if isinstance(item, Mapping) else {}
            value, token = entry.get("logprob"), entry.get("token")
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not math.isfinite(value)
                or value > 1e-6
            ):
                self.logprobs_bad = True
                return
            self.logprobs.append(min(float(value), 0.0))
            self.tokens.append(token if isinstance(token, str) else "")

    def reply(self, request: GenRequest, asked: str, dialect: Dialect, *, calls: int, latency_ms: float) -> GenReply:
        """`asked`: the model name that was requested."""
        text, finish = "".join(self.text) or "".join(self.arguments), self.finish
        if not text and any(self.refusal):
            text, finish = "".join(self.refusal), "refusal"
        if not text and not finish:
            raise bad("the endpoint's reply has no choices", "no_choices")
        logprobs = tuple(self.logprobs) if self.logprobs and not self.logprobs_bad else None
        missing = {"sampled_logprobs": "a hosted endpoint reports log-probs of the plain model only"}
        if logprobs is None:
            if self.logprobs_bad:
                missing["logprobs"] = "the endpoint's log-probs are no numbers ≤ 0"
            else:
                missing["logprobs"] = (
                    "the endpoint gave none" if dialect.logprobs else "this endpoint does not offer them"
                )
        if self.prompt_ids is None:
            missing["prompt_ids"] = "a hosted endpoint does not return token ids of the prompt"
        if not self.token_ids:
            missing["token_ids"] = "a hosted endpoint does not return token ids"
        adapter = request.adapter
        if adapter is not None and self.model not in ("", asked):
            adapter, missing["adapter"] = None, f"asked for {asked}, the endpoint says it used another model"
        return GenReply(
            text=text,
            adapter=adapter,
            model=self.model or asked,
            prompt_ids=self.prompt_ids,
            token_ids=tuple(self.token_ids) or None,
            logprobs=logprobs,
            finish=finish or "stop",
            usage=Usage(self.prompt_tokens, self.completion_tokens, calls),
            latency_ms=latency_ms,
            missing=missing,
            extra={"tokens": self.tokens} if logprobs is not None and not self.token_ids else {},
        )


class EventStream:
    """Server-sent events from raw bytes, cut anywhere: `feed` returns the data of the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events: list[bytes] = []
        for raw in lines:
            line = raw.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events


def _content(raw: Any) -> str:
    """Text of a content field: a string, or parts with text in them."""
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, Sequence):
        return ""
    parts = [
        cast(Mapping[str, Any], part).get("text") for part in cast(Sequence[Any], raw) if isinstance(part, Mapping)
    ]
    return "".join(part for part in parts if isinstance(part, str))


def count(raw: Any) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0 else None


def _ids(raw: Any) -> tuple[int, ...] | None:
    """Token ids, from servers that return them on request (`extra_body={"return_token_ids": True}`)."""
    if not isinstance(raw, list):
        return None
    items = cast(list[Any], raw)
    return tuple(items) if items and all(type(item) is int and item >= 0 for item in items) else None
