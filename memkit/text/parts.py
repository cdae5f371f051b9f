"""The content of a message as chat APIs have it: text, or parts that say something or attach something.

A picture, a recording or a file is remembered by reference: its address or id, or the digest and size of what came as
bytes. The bytes stay with the app, which has them already; nothing is fetched."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from memkit.errors import InvalidText, LimitExceeded
from memkit.models import JSON

MOST = 16
"""Attachments of a message."""
_KINDS = {
    "image_url": "image",
    "image": "image",
    "input_image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "video": "video",
    "video_url": "video",
    "document": "document",
    "file": "file",
    "input_file": "file",
}


def text_in(content: Any, where: str) -> str | None:
    """What a content field says, captions included; of attachments without any other words, their names. None where
    there is nothing of the kind."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray):
        raise InvalidText(f"{where} has content of type {type(content).__name__}", fix="pass text or content parts")
    texts: list[str] = []
    names: list[str] = []
    for part in cast("Sequence[Any]", content):
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, Mapping) or not ("type" in part or "text" in part):
            raise InvalidText(f"{where} holds a content part of type {type(part).__name__}", fix="pass content parts")
        fields = cast("Mapping[str, Any]", part)
        if isinstance(fields.get("text"), str):
            texts.append(fields["text"])
        elif fields.get("type") in _KINDS:
            texts += [one for name in ("caption", "alt") if (one := _word(fields, name))]
            names += [one for one in (_word({**_inner(fields), **fields}, "title", "filename", "name"),) if one]
    return "\n".join(texts or names) if texts or names else None


def attached_to(content: Any, where: str) -> tuple[JSON, ...]:
    """References to what a message attaches: {"type", and what is known of "url", "file_id", "sha256", "bytes",
    "media_type", "name"}."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        return ()
    parts = (cast("Mapping[str, Any]", part) for part in cast("Sequence[Any]", content) if isinstance(part, Mapping))
    found = [one for part in parts if part.get("type") in _KINDS and (one := _reference(part))]
    if len(found) > MOST:
        raise LimitExceeded(f"{where} has {len(found)} attachments; the limit is {MOST}", fix="send several messages")
    return tuple(found)


def _reference(part: Mapping[str, Any]) -> JSON | None:
    inner = _inner(part)
    address = _word(inner, "url", "image_url", "file_url", "file_uri")
    data, media_type = _word(inner, "data", "file_data", "base64"), _word(inner, "media_type", "mime_type", "format")
    if address.startswith("data:"):
        head, _, data = address.partition(",")
        address, media_type = "", head[5:].partition(";")[0] or media_type
    known: JSON = {"url": address, "file_id": _word(inner, "file_id")}
    if data:
        known |= _digest(data, is_text=inner.get("type") == "text")
    if not any(known.values()):
        return None
    known |= {"media_type": media_type, "name": _word({**inner, **part}, "title", "filename", "name")}
    return {"type": _KINDS[part["type"]]} | {name: value for name, value in known.items() if value}


def _inner(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenAI nests what it attaches under the part's own type, Anthropic under its source, others not at all."""
    for name in (part.get("type"), "source"):
        inner = part.get(name) if isinstance(name, str) else None
        if isinstance(inner, str):
            return {"url": inner}
        if isinstance(inner, Mapping):
            return cast("Mapping[str, Any]", inner)
    return part


def _word(fields: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _digest(data: str, *, is_text: bool) -> JSON:
    """Of the bytes, or of the text of what is no base64: it is a name, and nothing is made of it."""
    raw = data.encode("utf-8", "surrogatepass")
    if not is_text:
        with contextlib.suppress(binascii.Error, ValueError):
            raw = base64.b64decode(data.partition("base64,")[2] or data)
    return {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
