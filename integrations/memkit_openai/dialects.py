"""What a request asks, where memories go in it, and what a reply says: chat completions, responses, Anthropic messages.

Pure functions over JSON. The block of memories is put in front of the user's last words: there it outranks nothing
(memories are data that anyone may have said), leaves the prompt's cached beginning as it is, and fits every chat
template. It goes into a copy of the request, so the app's history never holds it; where an app sends it back all the
same, its fence keeps the extractor from reading it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memkit.roles.recalled import strip_recalled

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request brings that memory cares about."""

    query: str
    new: tuple[JSON, ...]
    """The user's messages since the last reply: what there is to learn."""


class Heard(Protocol):
    """Collects the text of one reply; "" where it failed half-way."""

    def whole(self, body: Any) -> None: ...
    def event(self, event: Any) -> None: ...
    @property
    def text(self) -> str: ...
    @property
    def failed(self) -> bool: ...


class ChatDialect(Protocol):
    path: str

    def read_request(self, body: Mapping[str, Any]) -> ChatRequest | None: ...
    def inject(self, body: Mapping[str, Any], block: str) -> JSON: ...
    def heard(self) -> Heard: ...


@dataclass(slots=True)
class HeardChoices:
    """Text by choice. With n > 1 nobody knows which one the user was shown, so none counts as the answer."""

    choices: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    failed: bool = False

    def whole(self, body: Any) -> None:
        self._take(body, "message")

    def event(self, event: Any) -> None:
        self.failed = self.failed or _is_failure(event)
        self._take(event, "delta")

    def _take(self, body: Any, part: str) -> None:
        for choice in _list(_get(body, "choices")):
            index = _get(choice, "index")
            texts = self.choices.setdefault(index if isinstance(index, int) else 0, [])
            content = _get(_get(choice, part), "content")
            if isinstance(content, str):
                texts.append(content)

    @property
    def text(self) -> str:
        return "".join(self.choices[0]) if self.choices.keys() == {0} and not self.failed else ""


@dataclass(slots=True)
class HeardParts:
    """Text of content blocks: `delta_type` names the streamed event that carries a piece of it."""

    holder: str
    delta_type: str
    pieces: list[str] = field(default_factory=list[str])
    failed: bool = False

    def whole(self, body: Any) -> None:
        for item in _list(_get(body, self.holder)):
            for part in _list(_get(item, "content")) or [item]:
                if _get(part, "type") in ("text", "output_text") and isinstance(_get(part, "text"), str):
                    self.pieces.append(_get(part, "text"))

    def event(self, event: Any) -> None:
        self.failed = self.failed or _is_failure(event)
        if _get(event, "type") == self.delta_type:
            delta = _get(event, "delta")
            piece = delta if isinstance(delta, str) else _get(delta, "text")
            if isinstance(piece, str):
                self.pieces.append(piece)

    @property
    def text(self) -> str:
        return "" if self.failed else "".join(self.pieces)


class Chat:
    path = "/chat/completions"

    def read_request(self, body: Mapping[str, Any]) -> ChatRequest | None:
        return _asked(body.get("messages"))

    def inject(self, body: Mapping[str, Any], block: str) -> JSON:
        return {**body, "messages": _with_block(_list(body["messages"]), block, "text")}

    def heard(self) -> Heard:
        return HeardChoices()


class Messages(Chat):
    """Anthropic. Its user messages also carry tool results, which must stay in front."""

    path = "/messages"

    def heard(self) -> Heard:
        return HeardParts("content", "content_block_delta")


class Responses:
    """The block goes into `instructions`: unlike the input, these are not kept by `previous_response_id`."""

    path = "/responses"

    def read_request(self, body: Mapping[str, Any]) -> ChatRequest | None:
        given = body.get("input")
        return _asked([{"role": "user", "content": given}] if isinstance(given, str) else given)

    def inject(self, body: Mapping[str, Any], block: str) -> JSON:
        own = body.get("instructions")
        return {**body, "instructions": f"{own}\n\n{block}" if isinstance(own, str) and own else block}

    def heard(self) -> Heard:
        return HeardParts("output", "response.output_text.delta")


DIALECTS: tuple[ChatDialect, ...] = (Chat(), Responses(), Messages())


def dialect_of(path: str) -> ChatDialect | None:
    path = path.rstrip("/")
    return next((dialect for dialect in DIALECTS if path.endswith(dialect.path)), None)


def _asked(messages: Any) -> ChatRequest | None:
    """None where the user says nothing: a request that only carries tool results, or none that we understand."""
    asked = ""
    new: list[JSON] = []
    for message in _list(messages):
        role = _get(message, "role")
        if role in ("assistant", "model") or _is_the_models(_get(message, "type")):
            new = []
        elif role == "user" and (text := _text(content := _get(message, "content"))):
            name = _get(message, "name")
            asked = text
            attached = [part for part in _list(content) if isinstance(part, Mapping) and not _part_text(part)]
            told = [{"type": "text", "text": text}, *attached] if attached else text
            new.append({"role": "user", "content": told} | ({"name": name} if isinstance(name, str) and name else {}))
    return ChatRequest(asked, tuple(new)) if asked else None


def _is_failure(event: Any) -> bool:
    """A reply that fails in the middle of a stream says so in an event: its status was 200 long before."""
    return bool(_get(event, "error")) or _get(event, "type") in ("error", "response.failed")


def _is_the_models(item_type: Any) -> bool:
    """Items of the Responses API that only a reply holds: custom_tool_call, computer_call, shell_call …"""
    return isinstance(item_type, str) and (item_type == "reasoning" or item_type.endswith("_call"))


def _with_block(messages: Sequence[Any], block: str, part_type: str) -> list[Any]:
    out = list(messages)
    for index in range(len(out) - 1, -1, -1):
        message = out[index]
        content = _get(message, "content")
        if not isinstance(message, Mapping) or message.get("role") != "user" or not _text(content):
            continue
        if isinstance(content, str):
            content = f"{block}\n\n{content}"
        else:
            parts = _list(content)
            first = next(i for i, part in enumerate(parts) if _part_text(part))
            content = [*parts[:first], {"type": part_type, "text": block}, *parts[first:]]
        out[index] = {**message, "content": content}
        return out
    return out


def _text(content: Any) -> str:
    """The user's own words: no pictures, no tool results, no block of memories that an app has sent back."""
    texts = [content] if isinstance(content, str) else [_part_text(part) for part in _list(content)]
    return strip_recalled("\n".join(text for text in texts if text)).strip()


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = _get(part, "text")
    return text if isinstance(text, str) and _get(part, "type") in ("text", "input_text") else ""


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
