"""Documents: found by their words with their place, told as documents, replaced by name, and no facts about anybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit import Memory
from memkit.errors import InvalidInput, InvalidText
from memkit.text.documents import read_html, read_markdown, read_plain
from memkit.text.passages import WINDOW

MARKDOWN = """---
title: nothing of this is said
---
Welcome.

# Handbook
## Refunds ##
Money is sent back in 14 days.

```sh
# no heading
```
Shipping
--------
Parcels leave on Tuesdays.
"""
HTML = """<html><head><title>t</title><style>p {color: red}</style></head><body><nav>Home</nav><h1>Handbook</h1>
<p>Welcome &amp; enjoy.</p><h2>Refunds</h2><ul><li>Money is sent<br>back in 14 days.</li></ul>
<script>x()</script></body>"""


def make_pdf(*pages: str) -> bytes:
    """As small as one can be."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        drawing = f"/MediaBox [0 0 600 800] /Contents {5 + 2 * number} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R {fonts} {drawing} >>")
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    out, places = b"%PDF-1.4\n", list[int]()
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{one}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


@pytest.mark.parametrize(
    ("name", "raw", "place"),
    [
        ("handbook.md", MARKDOWN.encode(), {"heading": "Handbook › Refunds"}),
        ("handbook.html", HTML.encode(), {"heading": "Handbook › Refunds"}),
        ("handbook.pdf", make_pdf("Welcome.", "Money is sent back in 14 days."), {"page": 2}),
        ("handbook.txt", "\ufeffMoney is sent back in 14 days.".encode(), {}),
    ],
)
def test_a_document_is_found_by_its_words_with_its_place(
    tmp_path: Path, name: str, raw: bytes, place: dict[str, object]
) -> None:
    (tmp_path / name).write_bytes(raw)
    with Memory(tmp_path / "s") as memory:
        memory.add("I like tea.", user_id="ana")
        memory.add_document(tmp_path / name, user_id="ana", metadata={"of": "shop"})
        hit = memory.search("When is money sent back?", user_id="ana")[0]
        assert "Money is sent back in 14 days." in " ".join(hit.text.split())
        assert hit.memory.metadata == {"document": name, "of": "shop", **place}
        assert (hit.memory.origin, hit.memory.kind) == ("document", "chunk")
        block = str(memory.context("When is money sent back?", user_id="ana"))
        assert f"{name} (document): " in block
        assert [one.text for one in memory.list(user_id="ana", kinds=["fact"])] == ["User likes tea."]
        memory.erase(user_id="ana")
        assert memory.search("money", user_id="ana") == []


def test_headings_stand_above_what_is_said_and_code_has_none() -> None:
    found = [(one.heading, one.text.removeprefix(one.heading).strip()) for one in read_markdown(MARKDOWN)]
    assert found == [
        ("", "Welcome."),
        ("Handbook › Refunds", "Money is sent back in 14 days.\n```sh\n# no heading\n```"),
        ("Handbook › Shipping", "Parcels leave on Tuesdays."),
    ]
    assert [one.text for one in read_html(HTML)] == [
        "Handbook\nWelcome & enjoy.",
        "Handbook › Refunds\nMoney is sent\nback in 14 days.",
    ]


def test_a_document_of_the_same_name_is_replaced_and_what_did_not_change_stays(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        ana = memory.user("ana")
        first = ana.add_document(MARKDOWN, name="handbook.md")
        assert ana.add_document(MARKDOWN, name="handbook.md").replayed
        ana.add_document("# Handbook\n## Refunds\nMoney is sent back in 30 days.", name="other.md")
        changed = ana.add_document(MARKDOWN.replace("14 days", "21 days"), name="handbook.md")
        assert [op.action for op in changed.ops] == ["delete", "add"]
        texts = [one.text for one in ana.list(kinds=("chunk",), filters={"metadata.document": "handbook.md"})]
        assert (len(texts), len(ana.list())) == (len(first.ops), 0)
        assert not any("14 days" in text for text in texts)
        assert not any("14 days" in hit.text for hit in ana.search("money back days", k=20))
        ana.undo(op_id=changed.ops[0].op_id)
        assert any("14 days" in hit.text for hit in ana.search("money back days", k=20))


@pytest.mark.parametrize(
    ("name", "raw", "error"),
    [
        ("a.docx", b"x", InvalidInput),
        ("gone.md", None, InvalidInput),
        ("folder", None, InvalidInput),
        ("latin.txt", "caf\u00e9".encode("latin-1"), InvalidText),
        ("empty.md", b"\n\n", InvalidText),
        ("broken.pdf", b"%PDF-1.4 no", InvalidText),
        ("scan.pdf", make_pdf(""), InvalidText),
    ],
)
def test_what_cannot_be_read_is_refused_in_words_and_nothing_is_kept(
    tmp_path: Path, name: str, raw: bytes | None, error: type[Exception]
) -> None:
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    if name == "folder":
        (tmp_path / name).mkdir()
    with Memory(tmp_path / "s") as memory:
        with pytest.raises(error):
            memory.add_document(tmp_path / name, user_id="ana")
        assert memory.list(user_id="ana") == []


def test_a_text_needs_a_name_and_is_not_taken_for_a_path(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        for text in ("Money is sent back.", "handbook.pdf"):
            with pytest.raises(InvalidInput):
                memory.add_document(text, user_id="ana")


@given(st.text(), st.sampled_from([read_plain, read_markdown, read_html]))
def test_any_text_is_read_in_passages_that_an_embedder_can_hold(text: str, reader: object) -> None:
    for one in reader(text * 30):  # type: ignore[operator]
        assert one.text.strip()
        assert len(one.text) <= WINDOW + 1
