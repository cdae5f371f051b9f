"""Google's Gemini API: `models.generateContent` of v1beta.

Apart from chat completions: the assistant is called `model`, the system prompt is a field of its own, the key travels
in `x-goog-api-key`, and what a model thinks counts against the limit of its reply, so it gets room for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from memkit.backbones.hosted import HostedBackbone, say_declined
from memkit.backbones.wire import Dialect, Draft, bad, count, noise_seed
from memkit.errors import BadReply
from memkit.net.endpoint import Access
from memkit.seams.backbone import GenRequest

_THINKING = 1_024
"""Tokens a model may think before it replies. Some refuse to think less than 512; the reply's own limit stays."""
_FINISH = {"STOP": "stop", "MAX_TOKENS": "length"}
_BROKEN = frozenset({"MALFORMED_FUNCTION_CALL", "OTHER", "FINISH_REASON_UNSPECIFIED", "MALFORMED_RESPONSE"})


class GeminiBackbone(HostedBackbone):
    access = Access(
        "https://generativelanguage.googleapis.com",
        key_names=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        key_header="x-goog-api-key",
    )
    provider = "gemini"
    example = "gemini-2.5-flash"
    root = ", and that base_url ends before /v1beta"

    def _path(self, model: str) -> str:
        return f"/v1beta/{quote(model if '/' in model else f'models/{model}')}:generateContent"

    def _body(self, request: GenRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        prompt, sampling = request.prompt, request.sampling
        limit = prompt.max_tokens + (_THINKING if dialect.thinks else 0)
        config: dict[str, Any] = {"maxOutputTokens": limit, "temperature": sampling.temperature}
        if dialect.thinks:
            config["thinkingConfig"] = {"thinkingBudget": _THINKING}
        if sampling.temperature > 0:
            config |= {"seed": noise_seed(sampling.seed, request.key), "topP": sampling.top_p}
        if dialect.logprobs:
            config["responseLogprobs"] = True
        if prompt.schema is not None and dialect.structured != "none":
            config["responseMimeType"] = "application/json"
            if dialect.structured == "json_schema":
                config["responseJsonSchema"] = prompt.schema
        turns = [
            {"role": "model" if message.role == "assistant" else "user", "parts": [{"text": message.content}]}
            for message in prompt.messages
            if message.role != "system"
        ]
        system = [{"text": message.content} for message in prompt.messages if message.role == "system"]
        out: dict[str, Any] = {"contents": turns, "generationConfig": config}
        return out | ({"systemInstruction": {"parts": system}} if system else {})

    def _narrow(self, dialect: Dialect, sent: Mapping[str, Any], refusal: str, *, last: bool) -> Dialect | None:
        text, config = refusal.casefold(), cast("Mapping[str, Any]", sent["generationConfig"])
        if "api_key_invalid" in text or "token count" in text:
            return None
        if last and {"responseLogprobs", "thinkingConfig", "responseMimeType"} & set(config):
            return replace(dialect, structured="none", logprobs=False, thinks=False)
        if "responseLogprobs" in config and "logprob" in text:
            return replace(dialect, logprobs=False)
        if "thinkingConfig" in config and "think" in text:
            return replace(dialect, thinks=False)
        if "responseMimeType" in config and ("schema" in text or "mime" in text or "json" in text):
            return replace(dialect, structured="json_object" if dialect.structured == "json_schema" else "none")
        return None

    def _take(self, draft: Draft, data: Any) -> None:
        if not isinstance(data, Mapping):
            raise bad("the endpoint's reply is no JSON object", "not_object")
        top = cast(Mapping[str, Any], data)
        usage = _mapping(top.get("usageMetadata"))
        draft.prompt_tokens = count(usage.get("promptTokenCount"))
        said, thought = count(usage.get("candidatesTokenCount")), count(usage.get("thoughtsTokenCount"))
        draft.completion_tokens = None if said is None and thought is None else (said or 0) + (thought or 0)
        candidates = top.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            blocked = _mapping(top.get("promptFeedback")).get("blockReason")
            if isinstance(blocked, str):
                raise say_declined("the provider blocked the prompt", f"blockReason: {blocked[:40]}")
            raise bad("the endpoint's reply has no candidates", "no_choices")
        candidate = _mapping(cast(list[Any], candidates)[0])
        parts = _mapping(candidate.get("content")).get("parts")
        for raw in cast(list[Any], parts) if isinstance(parts, list) else []:
            part = _mapping(raw)
            if isinstance(part.get("text"), str) and not part.get("thought"):
                draft.text.append(part["text"])
        reason = str(candidate.get("finishReason") or "")
        draft.finish = _FINISH.get(reason, "refusal")
        if not any(draft.text):
            if reason == "MAX_TOKENS":
                raise BadReply(
                    "the model used up its tokens before it replied",
                    why=f"{thought or 0} of them went into thinking",
                    fix='set extra_body={"generationConfig": {"maxOutputTokens": …, "thinkingConfig": …}}',
                    **{"class": "cut"},
                )
            if reason not in ("STOP", *_BROKEN, ""):
                raise say_declined("the provider stopped the reply", f"finishReason: {reason[:40]}")
            raise bad("the endpoint's reply has no text", "no_choices")
        self._take_logprobs(draft, candidate)

    def _take_logprobs(self, draft: Draft, candidate: Mapping[str, Any]) -> None:
        chosen = _mapping(candidate.get("logprobsResult")).get("chosenCandidates")
        for raw in cast(list[Any], chosen) if isinstance(chosen, list) else []:
            entry = _mapping(raw)
            value = entry.get("logProbability")
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value > 0:
                draft.logprobs_bad = True
                return
            draft.logprobs.append(float(value))
            draft.tokens.append(str(entry.get("token") or ""))


def _mapping(raw: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], raw) if isinstance(raw, Mapping) else {}
