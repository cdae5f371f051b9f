"""Pictures, recordings and files: found by the words beside them, returned by reference, never kept."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit import Memory
from memkit.errors import InvalidText, LimitExceeded
from memkit.text.parts import MOST, attached_to, text_in

PICTURE = b"\x89PNG\r\n" + bytes(range(256)) * 40
DATA = base64.b64encode(PICTURE).decode()
DIGEST = {"sha256": hashlib.sha256(PICTURE).hexdigest(), "bytes": len(PICTURE)}
TEXT = {"type": "text", "text": "This is my dog Rex at the lake."}


@pytest.mark.parametrize(
    ("part", "reference"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}, {"url": "https://x.org/a.png"}),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
            DIGEST | {"media_type": "image/png"},
        ),
        ({"type": "input_image", "image_url": "https://x.org/a.png"}, {"url": "https://x.org/a.png"}),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
            DIGEST | {"media_type": "image/png"},
        ),
        ({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}, DIGEST | {"media_type": "wav"}),
        (
            {"type": "file", "file": {"file_id": "f-1", "filename": "a.pdf"}},
            {"file_id": "f-1", "name": "a.pdf"},
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://x.org/l"}, "title": "Lease"},
            {"url": "https://x.org/l", "name": "Lease"},
        ),
    ],
    ids=["openai", "bytes", "responses", "anthropic", "audio", "file", "document"],
)
def test_what_is_attached_comes_back_by_reference_with_the_words_beside_it(
    part: dict[str, Any], reference: dict[str, Any], tmp_path: Path
) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add({"role": "user", "content": [TEXT, part]}, user_id="ana")
        (hit, *_) = memory.search("Where is the dog?", user_id="ana")
        (found,) = hit.memory.metadata["attachments"]
        assert {name: value for name, value in found.items() if name != "type"} == reference
        memory.erase(user_id="ana")
    left = b"".join(path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file())
    assert DATA.encode() not in left
    assert PICTURE not in left


def test_a_caption_is_said_and_a_name_where_nothing_else_is(tmp_path: Path) -> None:
    bike = {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}
    with Memory(tmp_path / "s") as memory:
        memory.add({"role": "user", "content": [bike | {"caption": "my red bike"}]}, user_id="ana")
        memory.add(
            {"role": "user", "content": [{"type": "file", "file": {"file_id": "f", "filename": "lease.pdf"}}]},
            user_id="ana",
        )
        assert {hit.text for hit in memory.search("red bike, lease", user_id="ana")} == {"my red bike", "lease.pdf"}
        with pytest.raises(InvalidText, match="no message says anything"):
            memory.add({"role": "user", "content": [bike]}, user_id="ana")
        with pytest.raises(LimitExceeded, match=f"limit is {MOST}"):
            memory.add({"role": "user", "content": [TEXT, *[bike] * (MOST + 1)]}, user_id="ana")


_KEYS = ["text", "image_url", "file", "source", "data", "url", "caption", "title", "filename", "file_id", "media_type"]
_TYPES = ["image_url", "image", "input_audio", "file", "document", "text", "tool_use"]
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=12,
)
_parts = st.dictionaries(st.sampled_from(_KEYS), _values).flatmap(
    lambda more: st.sampled_from(_TYPES).map(lambda of: more | {"type": of})
)


@given(st.lists(_parts, max_size=4))
def test_no_content_part_raises(content: list[Any]) -> None:
    assert isinstance(text_in(content, "it"), str | None)
    assert len(attached_to(content, "it")) <= len(content)
