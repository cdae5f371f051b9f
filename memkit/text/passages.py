"""Long texts in parts: sentences of any script, and windows of some sentences each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from memkit.text.words import terms

WINDOW = 900
"""Letters of a window: what an embedder still reads as a whole."""

_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？｡।॥؟۔]+[」』”]?|\n+")
"""Where a sentence ends. A mark within a word ("3.5", "a.b") ends nothing."""


def sentences(text: str) -> list[str]:
    """The text in sentences, blanks around them left out; no letter is lost."""
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        found.append(text[start : end.end()].strip())
        start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def windows(text: str, size: int = WINDOW) -> list[str]:
    """Whole sentences, as many as fit `size` letters each; a sentence that is longer is cut between words. A short
    text is its own only window, as it is."""
    if len(text) <= size:
        return [text] if text.strip() else []
    found: list[str] = []
    room = 0
    for piece in (piece for sentence in sentences(text) for piece in _pieces(sentence, size)):
        if found and len(piece) < room:
            found[-1] = f"{found[-1]} {piece}"
            room -= len(piece) + 1
        else:
            found.append(piece)
            room = size - len(piece)
    return found


def excerpt(text: str, wanted: Collection[str], size: int) -> str:
    """As much of a text as fits `size` letters: the sentences that have most of the `wanted` terms, in their order."""
    if len(text) <= size:
        return text
    parts = sentences(text)
    order = sorted(range(len(parts)), key=lambda at: -len(set(terms(parts[at])).intersection(wanted)))
    kept: list[int] = []
    for at in order:
        if sum(len(parts[one]) + 3 for one in (*kept, at)) <= size:
            kept.append(at)
        elif not kept:
            return next(_pieces(parts[at], size)) + " …"
        else:
            break
    gaps = ("" if at == 0 else " " if at - 1 in kept else " … " if kept[0] != at else "… " for at in sorted(kept))
    return "".join(gap + parts[at] for gap, at in zip(gaps, sorted(kept), strict=True)).strip()


def _pieces(sentence: str, size: int) -> Iterator[str]:
    start = 0
    while len(sentence) - start > size:
        blank = sentence.rfind(" ", start + size // 2, start + size)
        end = blank if blank > 0 else start + size
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()
