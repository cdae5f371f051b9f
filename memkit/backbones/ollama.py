"""Ollama's own API: `/api/chat`.

Not its OpenAI-compatible one: only here can the window be set. A prompt longer than the window loses its beginning
without a word, and the server's window is small, so each request asks for as much as it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from memkit.backbones.hosted import HostedBackbone
from memkit.backbones.wire import Dialect, Draft, bad, count, noise_seed
from memkit.net.endpoint import Access
from memkit.seams.backbone import GenRequest

_WINDOWS = (4_096, 8_192, 16_384, 32_768, 65_536, 131_072)


class OllamaBackbone(HostedBackbone):
    access = Access("http://127.0.0.1:11434")
    provider = "ollama"
    example = "qwen3:8b"
    root = " (`ollama list`, `ollama pull NAME`), and that base_url ends before /api"

    _window = _WINDOWS[0]
    """The largest that was needed so far: with each change the server loads the model anew."""

    def _path(self, model: str) -> str:
        return "/api/chat"

    def _body(self, request: GenRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        prompt, sampling = request.prompt, request.sampling
        self._window = max(self._window, _window([message.content for message in prompt.messages], prompt.max_tokens))
        options: dict[str, Any] = {
            "temperature": sampling.temperature,
            "num_predict": prompt.max_tokens,
            "num_ctx": self._window,
        }
        if sampling.temperature > 0:
            options |= {"seed": noise_seed(sampling.seed, request.key), "top_p": sampling.top_p}
        out: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            "stream": False,
            "truncate": False,
            "options": options,
        }
        if dialect.thinks:
            out["think"] = False
        if dialect.logprobs:
            out["logprobs"] = True
        if prompt.schema is not None and dialect.structured != "none":
            out["format"] = prompt.schema if dialect.structured == "json_schema" else "json"
        return out

    def _narrow(self, dialect: Dialect, sent: Mapping[str, Any], refusal: str, *, last: bool) -> Dialect | None:
        text = refusal.casefold()
        if "context length" in text or "exceeds" in text:
            return None
        if "think" in sent and "think" in text:
            return replace(dialect, thinks=False)
        if "logprobs" in sent and "logprob" in text:
            return replace(dialect, logprobs=False)
        if "format" in sent and ("format" in text or "schema" in text or "grammar" in text):
            return replace(dialect, structured="json_object" if dialect.structured == "json_schema" else "none")
        return None

    def _take(self, draft: Draft, data: Any) -> None:
        """Told as a chat completion, which it is but for its names."""
        if not isinstance(data, Mapping) or not isinstance(cast(Mapping[str, Any], data).get("message"), Mapping):
            raise bad("the endpoint's reply is no message", "no_choices")
        top = cast(Mapping[str, Any], data)
        choice = {"message": top["message"], "finish_reason": top.get("done_reason") or "stop"}
        if isinstance(top.get("logprobs"), list):
            choice["logprobs"] = {"content": top["logprobs"]}
        draft.take({"model": top.get("model"), "choices": [choice]})
        draft.prompt_tokens, draft.completion_tokens = count(top.get("prompt_eval_count")), count(top.get("eval_count"))


def _window(texts: list[str], reply: int) -> int:
    """A token is at least a byte and rarely less than two, so half the bytes are room enough."""
    need = sum(len(text.encode("utf-8", "replace")) for text in texts) // 2 + reply + 256
    return next((size for size in _WINDOWS if size >= need), _WINDOWS[-1])
