"""Three providers on loopback, each as strict as the real one: what its API does not know is refused as it refuses it.
To be planned into a `StubServer`: `server.always(anthropic(reply=…))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.stub_server import Fault, Handler, logprob_of, tokens

KEY = "secret-key-0123456789"


class Refused(Exception):
    pass


def _closed(node: dict[str, Any], known: set[str], where: str) -> None:
    for name in node:
        if name not in known:
            raise Refused(f"{where}.{name}: Extra inputs are not permitted")


def _served(handler: Handler, check: Callable[[dict[str, Any]], None], error: Callable[[str], Any], reply: Any) -> None:
    body = handler.stub.seen[-1].body
    try:
        check(body)
    except Refused as refused:
        return handler.send_json(400, error(str(refused)))
    return handler.send_json(200, reply(body) if callable(reply) else reply)


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def anthropic_message(text: str | None, *, stop: str = "end_turn", tool: Any = None) -> dict[str, Any]:
    content: list[dict[str, Any]] = [] if text is None else [{"type": "text", "text": text}]
    if tool is not None:
        content.append({"type": "tool_use", "id": "toolu_1", "name": "memkit_manager", "input": tool})
    usage = {"input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 30, "output_tokens": 5}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x-20260101",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def anthropic(reply: Any, *, old: bool = False) -> Fault:
    """old: a model from before `output_config`."""

    def check(body: dict[str, Any]) -> None:
        known = {"model", "max_tokens", "messages", "system", "temperature", "top_p", "tools", "tool_choice"}
        if old and "output_config" in body:
            raise Refused("output_config.format: this model does not support structured outputs")
        _closed(body, known | {"output_config", "metadata"}, "body")
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            raise Refused("max_tokens: Field required")
        for message in body["messages"]:
            if message["role"] not in ("user", "assistant"):
                raise Refused("messages: Unexpected role; the Messages API accepts a top-level `system` parameter")
            if not message["content"]:
                raise Refused("messages: text content blocks must be non-empty")
        if body["messages"][0]["role"] != "user":
            raise Refused("messages: first message must use the user role")
        if {"temperature", "top_p"} <= set(body):
            raise Refused("`temperature` and `top_p` cannot both be specified for this model")
        if "tool_choice" in body and body["tool_choice"]["name"] not in [tool["name"] for tool in body["tools"]]:
            raise Refused("tool_choice: tool not found")
        if "output_config" in body and set(body["output_config"]["format"]) != {"type", "schema"}:
            raise Refused("output_config.format: bad form")

    def served(handler: Handler) -> None:
        seen = handler.stub.seen[-1]
        if seen.path != "/v1/messages":
            return handler.send_json(404, anthropic_error("not_found_error", "Not Found"))
        if seen.headers.get("x-api-key") != KEY or "authorization" in seen.headers:
            return handler.send_json(401, anthropic_error("authentication_error", "invalid x-api-key"))
        if seen.headers.get("anthropic-version") != "2023-06-01":
            return handler.send_json(400, anthropic_error("invalid_request_error", "anthropic-version: required"))
        return _served(handler, check, lambda text: anthropic_error("invalid_request_error", text), reply)

    return served


def gemini_error(code: int, status: str, message: str, reason: str = "") -> dict[str, Any]:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}] if reason else []
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


def gemini_reply(text: str, *, finish: str = "STOP", logprobs: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": text}] if text else []},
        "finishReason": finish,
        "index": 0,
    }
    if logprobs:
        chosen = [{"token": token, "tokenId": 1, "logProbability": logprob_of(token)} for token in tokens(text)]
        candidate["logprobsResult"] = {"chosenCandidates": chosen}
    usage = {"promptTokenCount": 40, "candidatesTokenCount": 6, "thoughtsTokenCount": 20, "totalTokenCount": 66}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x"}


def gemini(reply: Any, *, thinks: bool = True, logprobs: bool = True) -> Fault:
    def check(body: dict[str, Any]) -> None:
        _closed(body, {"contents", "systemInstruction", "generationConfig", "safetySettings"}, "body")
        config = body["generationConfig"]
        known = {"maxOutputTokens", "temperature", "topP", "seed", "responseMimeType", "responseJsonSchema"}
        _closed(config, known | {"responseLogprobs", "thinkingConfig"}, "generation_config")
        if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
            raise Refused("response_json_schema requires response_mime_type application/json")
        if config.get("responseLogprobs") and not logprobs:
            raise Refused("Logprobs is not enabled for models/gemini-x")
        if "thinkingConfig" in config and not thinks:
            raise Refused("Thinking is not enabled for models/gemini-x")
        for content in body["contents"]:
            if content["role"] not in ("user", "model"):
                raise Refused("Please use a valid role: user, model.")
            if not all(part["text"] for part in content["parts"]):
                raise Refused("contents.parts must not be empty.")

    def served(handler: Handler) -> None:
        seen = handler.stub.seen[-1]
        if seen.path != "/v1beta/models/gemini-x:generateContent":
            return handler.send_json(404, gemini_error(404, "NOT_FOUND", f"{seen.path} is not found"))
        if seen.headers.get("x-goog-api-key") != KEY:
            text = "API key not valid. Please pass a valid API key."
            return handler.send_json(400, gemini_error(400, "INVALID_ARGUMENT", text, "API_KEY_INVALID"))
        return _served(handler, check, lambda text: gemini_error(400, "INVALID_ARGUMENT", text), reply)

    return served


def ollama_reply(text: str, *, done: str = "stop", logprobs: bool = False) -> dict[str, Any]:
    out: dict[str, Any] = {
        "model": "qwen3:8b",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": done,
        "prompt_eval_count": 33,
        "eval_count": 7,
    }
    if logprobs:
        out["logprobs"] = [{"token": token, "logprob": logprob_of(token), "bytes": None} for token in tokens(text)]
    return out


def ollama(reply: Any) -> Fault:
    def check(body: dict[str, Any]) -> None:
        known = {"model", "messages", "stream", "truncate", "think", "format", "options", "logprobs", "keep_alive"}
        _closed(body, known, "body")
        _closed(body["options"], {"temperature", "num_predict", "num_ctx", "seed", "top_p"}, "options")
        if sum(len(message["content"]) for message in body["messages"]) // 4 > body["options"]["num_ctx"]:
            raise Refused("the prompt exceeds the available context length")

    def served(handler: Handler) -> None:
        seen = handler.stub.seen[-1]
        if seen.path != "/api/chat" or seen.body["stream"] is not False:
            return handler.send_json(404, {"error": "404 page not found"})
        if seen.body["model"] != "qwen3:8b":
            return handler.send_json(404, {"error": f"model '{seen.body['model']}' not found"})
        return _served(handler, check, lambda text: {"error": text}, reply)

    return served
