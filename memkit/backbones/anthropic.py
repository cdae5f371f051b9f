"""Anthropic's Messages API, version 2023-06-01.

Apart from chat completions: the system prompt is a field of its own, `max_tokens` is required, the key travels in
`x-api-key`, a reply is a list of blocks, and there are neither log-probs nor a seed. Replies are held to their schema
by `output_config`, by models that do not take it by a forced tool call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from memkit.backbones.hosted import HostedBackbone, say_declined
from memkit.backbones.wire import Dialect, Draft, bad, count, fits_strict
from memkit.net.endpoint import Access
from memkit.seams.backbone import GenRequest

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicBackbone(HostedBackbone):
    access = Access(
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        ("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    )
    provider = "anthropic"
    example = "claude-haiku-4-5"
    root = ", and that base_url ends before /v1"

    def _path(self, model: str) -> str:
        return "/v1/messages"

    def _body(self, request: GenRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        prompt, sampling = request.prompt, request.sampling
        spoken = [message for message in prompt.messages if message.role != "system"]
        system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
        out: dict[str, Any] = {
            "model": model,
            "max_tokens": prompt.max_tokens,
            "messages": [{"role": message.role, "content": message.content} for message in spoken],
        }
        if system:
            out["system"] = system
        if dialect.sampling:
            out["temperature"] = min(sampling.temperature, 1.0)
            if sampling.temperature > 0 and sampling.top_p < 1:
                del out["temperature"]  # newer models take only one of the two
                out["top_p"] = sampling.top_p
        if prompt.schema is None:
            return out
        if dialect.structured == "json_schema" and fits_strict(prompt.schema):
            return out | {"output_config": {"format": {"type": "json_schema", "schema": prompt.schema}}}
        if dialect.structured in ("json_schema", "tool"):
            name = f"memkit_{prompt.role}"
            tool = {"name": name, "description": "Give the reply in this form.", "input_schema": prompt.schema}
            return out | {"tools": [tool], "tool_choice": {"type": "tool", "name": name}}
        return out

    def _narrow(self, dialect: Dialect, sent: Mapping[str, Any], refusal: str, *, last: bool) -> Dialect | None:
        text = refusal.casefold()
        if {"temperature", "top_p"} & set(sent) and ("temperature" in text or "top_p" in text):
            return replace(dialect, sampling=False)
        if "output_config" in sent and any(word in text for word in ("output_config", "output_format", "schema")):
            return replace(dialect, structured="none" if last else "tool")
        if "tools" in sent and "tool" in text:
            return replace(dialect, structured="none")
        return None

    def _take(self, draft: Draft, data: Any) -> None:
        if not isinstance(data, Mapping) or not isinstance(cast(Mapping[str, Any], data).get("content"), list):
            raise bad("the endpoint's reply is no message", "no_choices")
        top = cast(Mapping[str, Any], data)
        for raw in cast(list[Any], top["content"]):
            block: Mapping[str, Any] = cast(Mapping[str, Any], raw) if isinstance(raw, Mapping) else {}
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                draft.text.append(block["text"])
            elif block.get("type") == "tool_use" and not draft.arguments:
                draft.arguments.append(json.dumps(block.get("input"), ensure_ascii=False))
        if draft.arguments:
            draft.text.clear()  # a model may say what it is about to call
        stop = top.get("stop_reason")
        draft.finish = _FINISH.get(stop, str(stop)) if isinstance(stop, str) else ""
        draft.model = str(top.get("model") or "")
        usage: Any = top.get("usage")
        if isinstance(usage, Mapping):
            told = cast(Mapping[str, Any], usage)
            read = [count(told.get(name)) for name in _INPUT]
            draft.prompt_tokens = None if read[0] is None else sum(one or 0 for one in read)
            draft.completion_tokens = count(told.get("output_tokens"))
        if draft.finish == "refusal" and not any(draft.text):
            raise say_declined("the model declined to reply", "stop_reason: refusal")
