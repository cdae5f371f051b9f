"""Chat messages to token ids, with the model's own template, and what identifies tokenizer and template.

Used by the runtime and by the trainer: the same messages give the same tokens, on any day. Some templates (Llama 3.2,
SmolLM3, Granite) print today's date; what is learned from a log tomorrow must be what was read today, so they are given
one date for ever. Memories and turns carry dates of their own.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from jinja2.exceptions import TemplateError

from memkit.errors import InvalidConfig
from memkit.roles.base import ChatMessage

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:\n{% endif %}"
)
"""For base checkpoints, which come without a chat template."""
TEMPLATE_OPTIONS: dict[str, Any] = {"enable_thinking": False}
"""Replies are short lines in a fixed format; templates that know the switch open no reasoning block."""
PINNED_DATE = date(2024, 7, 26)
"""What Llama's templates print where they cannot ask for the day."""
_REPLY = "Mnemosyne"
"""A reply that no template has in it."""
_DIRECTIVES = ("%-d", "%Y", "%y", "%m", "%d", "%b", "%B", "%a", "%A", "%j", "%H", "%I", "%M", "%S", "%p")


class Prompter:
    """Thread-safe: fast tokenizers must not be used by two threads at once."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._lock = threading.Lock()
        self._template: str = _template_of(tokenizer)
        added = tokenizer.added_tokens_decoder.values()
        controls = {token.content for token in added if token.special or token.content.startswith("<")}
        self._controls = sorted((control for control in controls if len(control) > 2), key=len, reverse=True)

    def ids(self, messages: Sequence[ChatMessage], *, on: date = PINNED_DATE) -> tuple[int, ...]:
        """`on`: the day that a template which prints one shall print."""
        with self._lock:
            return tuple(self.tokenizer(self.text(messages, on=on), add_special_tokens=False)["input_ids"])

    def text(self, messages: Sequence[ChatMessage], *, on: date = PINNED_DATE) -> str:
        chat = self._chat(messages)
        try:
            return self._apply(chat, on)
        except TemplateError:
            return self._apply(_without_system(chat), on)  # some templates know no system role

    def conversation(self, messages: Sequence[ChatMessage]) -> list[dict[str, str]]:
        """For others who render: with `template` and `TEMPLATE_OPTIONS` it becomes what `ids` says."""
        chat = self._chat(messages)
        try:
            self._apply(chat, PINNED_DATE)
        except TemplateError:
            return _without_system(chat)
        return chat

    @property
    def template(self) -> str:
        return _dated(self._template, PINNED_DATE)

    def end_id(self, stop_ids: frozenset[int]) -> int:
        """The token that ends a reply: what the template writes after one, where generation stops at it; else what the
        tokenizer calls its end. Gemma and Phi-3 end a turn with another token than a text."""
        chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": _REPLY}]
        with self._lock, suppress(TemplateError):
            _, _, after = self._apply(chat, PINNED_DATE, reply=False).rpartition(_REPLY)
            first = self.tokenizer(after, add_special_tokens=False)["input_ids"][:1]
            if stop_ids.issuperset(first) and first:
                return first[0]
        return self.tokenizer.eos_token_id

    def template_digest(self) -> str:
        return _digest(self.template + json.dumps(TEMPLATE_OPTIONS, sort_keys=True))

    def tokenizer_digest(self, stop_ids: frozenset[int]) -> str:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            content: Any = sorted(self.tokenizer.get_vocab().items())
        else:
            content = json.loads(backend.to_str())
            content.pop("truncation", None)
            content.pop("padding", None)
        return _digest(json.dumps([content, sorted(stop_ids)], sort_keys=True, ensure_ascii=False))

    def _chat(self, messages: Sequence[ChatMessage]) -> list[dict[str, str]]:
        return [{"role": message.role, "content": self._harmless(message.content)} for message in messages]

    def _apply(self, chat: list[dict[str, str]], on: date, *, reply: bool = True) -> str:
        return self.tokenizer.apply_chat_template(
            chat,
            chat_template=_dated(self._template, on),
            tokenize=False,
            add_generation_prompt=reply,
            **TEMPLATE_OPTIONS,
        )

    def _harmless(self, content: str) -> str:
        """What users wrote is data: a control token spelled in it must not become one."""
        for control in self._controls:
            if control in content:
                content = content.replace(control, f"{control[0]} {control[1:]}")
        return content


def _template_of(tokenizer: Any) -> str:
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):
        template = template.get("default")
    if template is not None and not isinstance(template, str):
        raise InvalidConfig("the tokenizer's chat template is not text", fix="save one template under `chat_template`")
    return template or PLAIN_TEMPLATE


def _dated(template: str, on: date) -> str:
    """The template with a clock that stands still. One that never asks keeps its digest."""
    if "strftime_now" not in template:
        return template
    told = "".join(f" | replace('{one}', '{on.strftime(one)}')" for one in _DIRECTIVES)
    return f"{{%- macro strftime_now(format) -%}}{{{{ format{told} }}}}{{%- endmacro -%}}{template}"


def _without_system(chat: list[dict[str, str]]) -> list[dict[str, str]]:
    system = "\n\n".join(message["content"] for message in chat if message["role"] == "system")
    rest = [message for message in chat if message["role"] != "system"]
    if system and rest:
        rest[0] = {"role": rest[0]["role"], "content": f"{system}\n\n{rest[0]['content']}"}
    return rest


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", errors="surrogatepass")).hexdigest()
