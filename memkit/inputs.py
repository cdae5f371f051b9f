"""What callers hand in, checked once at the door. Pure; every refusal says what to do instead."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeGuard, TypeVar, cast

from memkit.errors import InvalidConfig, InvalidInput, InvalidScope, InvalidText, InvalidTime, LimitExceeded, WrongName
from memkit.models import JSON, KEEP_TURNS, SPACE, Origin
from memkit.text.parts import attached_to, text_in

P = ParamSpec("P")
R = TypeVar("R")

MAX_ID_BYTES = 512
_MAX_DEPTH = 100
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""Of one slash, too: that is all a `Path` leaves. A drive has one letter."""
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[^?#\s/]+)*/?")


@dataclass(frozen=True, slots=True)
class Message:
    """A message as chat APIs have it. Dicts with the same keys are accepted wherever this is."""

    role: str
    content: str
    name: str | None = None
    at: datetime | str | None = None
    """When it was said; else the time of the call holds."""


@dataclass(frozen=True, slots=True)
class CheckedMessage:
    """A checked message."""

    role: str
    text: str
    speaker: str
    origin: Origin
    at: datetime | None = None
    attached: tuple[JSON, ...] = ()
    """References to pictures and files."""


ORIGINS: dict[str, Origin] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "document",
    "developer": "document",
}

Messages = "str | Message | Mapping[str, Any] | Sequence[str | Message | Mapping[str, Any]]"


class Admitted(str):
    """The owner id of a space, made by the gate alone (`memkit.runtime.rights`) for one call that it lets through."""

    __slots__ = ()


def scope_id(value: Any, name: str) -> str:
    """A literal id: any non-empty string of at most 512 bytes without NUL or surrogates. Never trimmed or folded. What
    owns the memories of a space is named by nobody but the gate."""
    if isinstance(value, Admitted):
        return str(value)
    if not isinstance(value, str):
        raise InvalidScope(
            f"{name} must be a string, not {type(value).__name__}",
            why="ids are literal strings and the scope of every read and write",
            fix=f"pass {name}=str(...)",
        )
    if value == "":
        raise InvalidScope(f"{name} is empty", why="an empty scope would match nobody", fix=f"pass a non-empty {name}")
    if "\x00" in value or has_surrogates(value):
        raise InvalidScope(
            f"{name} holds a NUL byte or a lone surrogate",
            why="such ids cannot be stored and compared exactly",
            fix="encode or hash the id first",
        )
    if value.startswith(SPACE):
        raise InvalidScope(
            f"{name} begins with the sign that marks spaces (U+001D)",
            why="a space is reached as somebody who has a grant there",
            fix="use memory.principal(user_id).space(name)",
        )
    if len(value.encode()) > MAX_ID_BYTES:
        raise InvalidScope(
            f"{name} has {len(value.encode())} bytes; the limit is {MAX_ID_BYTES}", fix="use a hash of the long id"
        )
    return value


def optional_id(value: Any, name: str) -> str:
    """ "" stands for None."""
    return "" if value is None else scope_id(value, name)


def has_surrogates(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text) if not text.isascii() else False


def text_of(value: Any, name: str, max_bytes: int) -> str:
    if not isinstance(value, str):
        raise InvalidText(f"{name} must be text, not {type(value).__name__}", fix="pass a str")
    if not value.strip():
        raise InvalidText(f"{name} is empty", why="there is nothing to remember or to look for", fix="pass some text")
    if has_surrogates(value):
        raise InvalidText(
            f"{name} holds a lone surrogate",
            why="it is half of a character and cannot be written as UTF-8",
            fix="repair the text where it was decoded, e.g. text.encode('utf-8', 'replace').decode()",
        )
    size = len(value.encode())
    if size > max_bytes:
        raise LimitExceeded(
            f"{name} has {size} bytes; the limit is {max_bytes}",
            fix="split it into several messages, or raise Config.max_message_bytes",
        )
    return value


def is_url(value: object) -> TypeGuard[str]:
    """Whether this names a database, and no folder."""
    return isinstance(value, str) and value.startswith(("postgresql://", "postgres://"))


def store_of(value: Any) -> str | Path:
    """Where a store is: the URL of a database, which no path could hold, or a folder."""
    return value if is_url(value) else path_of(value, "path")


def path_of(value: Any, name: str) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\x00" in str(value):
        raise InvalidInput(f"{name} is no path", why=f"it is {value!r}"[:200], fix="pass a str or a pathlib.Path")
    return Path(value)


def lance_of(value: Any) -> Path | str:
    """Where LanceDB is: a folder of this machine, wherever the app goes later, or `s3://…`, text without an end of its
    own. `Path` would make a folder of a URL: `./s3:/bucket`."""
    if isinstance(value, str) and _BUCKET.fullmatch(value):
        return value.rstrip("/")
    if scheme := _URL.match(str(value)):
        raise InvalidConfig(
            f"lance= is a URL ({scheme[0]}…) that memkit does not know",
            why="LanceDB lies in a local folder, or in what speaks the protocol of S3",
            fix="pass a folder, e.g. /var/cache/memkit, or text of the form s3://bucket/prefix",
        )
    return path_of(value, "lance").absolute()


def aware(value: Any, name: str) -> datetime:
    """An aware datetime, or ISO-8601 text with an offset."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidTime(
                f"{name} is no ISO-8601 time", fix="pass e.g. '2026-05-01T12:00:00+02:00' or an aware datetime"
            ) from None
    if not isinstance(value, datetime):
        raise InvalidTime(f"{name} must be a datetime, not {type(value).__name__}", fix="pass an aware datetime")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidTime(
            f"{name} has no time zone",
            why="a naive time means different moments on different machines",
            fix="pass datetime(..., tzinfo=...), datetime.now(timezone.utc) or text that ends in an offset",
        )
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise InvalidTime(
            f"{name} lies outside of the years 1 to 9999 in UTC", fix="pass a time between them"
        ) from None
    return value


def json_object(value: Any, name: str, max_bytes: int) -> dict[str, Any]:
    """Metadata: a JSON object, copied, so that later changes by the caller do not reach the store."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in cast(Mapping[Any, Any], value)):
        raise InvalidInput(f"{name} must be a mapping with string keys", fix="pass a dict of JSON values")
    try:
        raw = json.dumps(dict(cast(Mapping[str, Any], value)), ensure_ascii=False, allow_nan=False)
        size = len(raw.encode())
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidInput(f"{name} is not JSON", why=str(error), fix="use strings, numbers, lists and dicts") from None
    if size > max_bytes:
        raise LimitExceeded(f"{name} has {size} bytes of JSON; the limit is {max_bytes}", fix="store a reference")
    if _nested(value):
        raise LimitExceeded(f"{name} is nested over {_MAX_DEPTH} levels deep", fix="store a reference")
    return cast(dict[str, Any], json.loads(raw))


def _nested(value: Any) -> bool:
    """Deeper than is sure to be written and read again."""
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        inner = [
            one.values() if isinstance(one, Mapping) else one
            for one in level
            if isinstance(one, Mapping | list | tuple)
        ]
        level = [one for values in inner for one in values]
        if not level:
            return False
    return True


def whole_number(value: Any, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(
            f"{name} must be a whole number, not {type(value).__name__}", fix=f"pass {name}={low}…{high}"
        )
    if not low <= value <= high:
        raise LimitExceeded(f"{name} is {value}; it must lie between {low} and {high}", fix="choose within the limits")
    return value


def messages(raw: Any, *, max_bytes: int, max_messages: int) -> list[CheckedMessage]:
    """Chat history as people have it: text, content parts, `name`, tool messages. Messages that say nothing
    (`content: None` with tool calls, pictures without a caption or a name) are left out; a call that says nothing at
    all is refused."""
    if isinstance(raw, str):
        return [CheckedMessage("user", text_of(raw, "the message", max_bytes), "", "user")]
    single = isinstance(raw, Mapping) or not isinstance(raw, Sequence)
    items: list[Any] = [raw] if single else list(cast(Sequence[Any], raw))
    if not items:
        raise InvalidText("there are no messages", why="the list is empty", fix="pass at least one message")
    if len(items) > max_messages:
        raise LimitExceeded(
            f"{len(items)} messages in one call; the limit is {max_messages}", fix="add them in several calls"
        )
    names = ["the message"] if len(items) == 1 else [f"message {index}" for index in range(len(items))]
    said = [
        one for name, item in zip(names, items, strict=True) if (one := _message(item, name, max_bytes)) is not None
    ]
    if not said:
        raise InvalidText(
            "no message says anything",
            why="all of them are tool calls, or pictures without words",
            fix="pass the text turns too, or a caption with a picture",
        )
    return said


def steps(raw: Any) -> list[Any]:
    """The steps of a run as messages: what calls a tool is said in words, and what a tool gave back is a tool's,
    wherever a chat API puts it."""
    if isinstance(raw, str) or not isinstance(raw, Sequence) or not raw:
        raise InvalidInput("steps must be a list of messages", fix="pass the run's messages as the chat API has them")
    return [one for item in cast("Sequence[Any]", raw) for one in _step(item)]


def _step(item: Any) -> list[Any]:
    found = [getattr(item, key, None) for key in ("role", "content", "tool_calls")]
    if isinstance(item, Mapping):
        found = [cast("Mapping[str, Any]", item).get(key) for key in ("role", "content", "tool_calls")]
    role, content, calls = found
    if role == "tool" and not content:
        return []  # a tool that gave nothing back
    parts = cast("Sequence[Any]", content) if isinstance(content, Sequence) and not isinstance(content, str) else ()
    given = [one for one in parts if isinstance(one, Mapping) and "type" in one]
    used = [one for one in given if one["type"] == "tool_use"]
    returned = [one for one in given if one["type"] == "tool_result"]
    if not calls and not used and not returned:
        return [item]
    left = [one for one in parts if one not in used and one not in returned] if parts else content
    called = [_called(one) for one in (*(calls or ()), *used)]
    texts = [text for text in (text_in(left, "a step"), *called) if text]
    said = [{"role": role, "content": "\n".join(texts)}] if texts else []
    results = [text_in(one.get("content"), "a tool's result") for one in returned]
    return [*({"role": "tool", "content": one} for one in results if one), *said]


def _called(call: Any) -> str:
    """`name(arguments)` of a tool call, as OpenAI or Anthropic have it."""

    def part(of: Any, name: str) -> Any:
        return cast("Mapping[str, Any]", of).get(name) if isinstance(of, Mapping) else getattr(of, name, None)

    function = part(call, "function") or call
    arguments = next((one for name in ("arguments", "input", "args") if (one := part(function, name)) is not None), "")
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{part(function, 'name') or 'a tool'}({told})"


def _message(item: Any, where: str, max_bytes: int) -> CheckedMessage | None:
    if isinstance(item, str):
        return CheckedMessage("user", text_of(item, where, max_bytes), "", "user")
    if isinstance(item, Mapping):
        fields = cast(Mapping[str, Any], item)
    elif hasattr(item, "role") and hasattr(item, "content"):
        fields = {key: getattr(item, key, None) for key in ("role", "content", "name", "at", "tool_calls")}
    else:
        raise InvalidText(
            f"{where} is {type(item).__name__}", fix="pass a str, memkit.Message or {'role': ..., 'content': ...}"
        )
    role = fields.get("role")
    if not isinstance(role, str) or role.lower() not in ORIGINS:
        raise InvalidText(
            f"{where} has role {role!r}", why=f"roles are {', '.join(sorted(ORIGINS))}", fix="set one of these roles"
        )
    text = text_in(fields.get("content"), where)
    if text is None or (text == "" and fields.get("tool_calls")):
        if "content" not in fields:
            raise InvalidText(f"{where} has no content", fix="pass {'role': ..., 'content': ...}")
        if text is None and not fields.get("tool_calls") and fields.get("content") is None:
            raise InvalidText(f"{where} has content None and no tool calls", fix="leave the message out")
        return None
    name = fields.get("name")
    speaker = scope_id(name, f"name of {where}") if name else ""
    at = None if fields.get("at") is None else aware(fields["at"], f"at of {where}")
    said, attached = text_of(text, where, max_bytes), attached_to(fields.get("content"), where)
    return CheckedMessage(role.lower(), said, speaker, ORIGINS[role.lower()], at, attached)


_OUR_NAMES = {
    "limit": "k", "top_k": "k", "n": "k", "n_results": "k", "user": "user_id", "uid": "user_id", "agent": "agent_id",
    "session": "session_id", "thread_id": "session_id", "run_id": "session_id", "conversation_id": "session_id",
    "timestamp": "at", "time": "at", "when": "at", "date": "at", "meta": "metadata",
    "filter": "filters", "where": "filters",
    "query": "the first argument", "q": "the first argument", "question": "the first argument",
    "messages": "the first argument", "memory_id": "the first argument", "data": "text", "content": "text",
    "version": "expected_revision", "revision": "expected_revision", "score": "reward", "rating": "reward",
    "max_chars": "max_tokens", "token_budget": "max_tokens", "asof": "as_of", "key": "idempotency_key",
    "async_mode": "wait", "block": "wait", "embedding": "embedder", "embeddings": "embedder", "llm": "model",
}  # fmt: skip

VERBS_BY_OTHER_NAMES = {
    "get_all": "list", "all": "list", "remember": "add", "store": "add", "save": "add", "insert": "add", "put": "add",
    "retain": "add", "recall": "search", "retrieve": "search", "query": "search", "find": "search", "ask": "answer",
    "chat": "answer", "forget": "delete", "remove": "delete", "reset": "erase", "clear": "delete_all", "purge": "erase",
    "rollback": "undo", "revert": "undo", "rate": "feedback", "thumbs_up": "feedback", "dump": "export",
    "load": "import_", "sync": "flush", "shutdown": "close",
}  # fmt: skip


def keep_turns_of(value: Any) -> str:
    if value not in KEEP_TURNS:
        raise InvalidInput(
            f"keep_turns={value!r} is unknown",
            why="what was said stays searchable (all), until a fact says it (uncovered), or not at all: then it is kept"
            " for training alone (logged), or not even for that (none)",
            fix="pass 'all', 'uncovered', 'logged' or 'none'",
        )
    return value


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """A public verb: an argument that it does not know gets an error that names ours."""
    names = set(inspect.signature(function).parameters) - {"self"}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in names:
                raise wrong_argument(function.__name__, name, names)
        return function(*args, **kwargs)

    return checked


def wrong_argument(verb_name: str, name: str, names: set[str]) -> WrongName:
    ours = _OUR_NAMES.get(name, "")
    known = ours if ours in names or ours.startswith("the ") else ""
    listed = ", ".join(sorted(names))
    return WrongName(
        f"{verb_name}() has no argument {name!r}",
        why=f"it takes {listed}",
        fix=f"use {known}" if known else "use one of these names",
    )


def wrong_verb(name: str, owner: str) -> AttributeError:
    ours = VERBS_BY_OTHER_NAMES.get(name)
    if ours is None:
        return AttributeError(f"{owner!r} object has no attribute {name!r}")
    return WrongName(f"there is no {name}()", why="memkit calls it by another name", fix=f"use {ours}()")
