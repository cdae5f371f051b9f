"""The built-in embedder: no model, no download, some 20 microseconds per text.

A text is the sum of its words' vectors; a word is a few signed positions for its stem plus smaller ones for its
character n-grams, so that "painting", "paint" and a misspelt "paintng" lie close. Positions come from BLAKE2, not
from Python's salted `hash`, so every process on every machine makes the same vectors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from memkit.memo import remember
from memkit.text.stems import english_stem
from memkit.text.words import STOP_WORDS, cut_marks, word_of, words

_STEM_SHARE = 1.0
_STEM_POSITIONS = 4
_GRAM_SHARE = 0.7
"""Length of all of a word's n-gram positions together, beside its stem's."""
_STOP_WEIGHT = 0.05
_GRAM_SIZES = (3, 4)

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+(?:['’][^\W\d_{_UNSPACED}]+)*")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_MARKS = re.compile("[\u0300-\u036f]+")

_Sparse = tuple[NDArray[np.int64], NDArray[np.float64]]


class HashEmbedder:
    """Embedder (identity `hash/1:384`). Lexical: it finds words and their relatives, not meanings."""

    def __init__(self, dim: int = 384) -> None:
        self._dim = dim

    @property
    def identity(self) -> str:
        return f"hash/1:{self._dim}"

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def cheap(self) -> bool:
        return True

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        out = np.empty((len(texts), self._dim), dtype=np.float32)
        for row, text in enumerate(texts):
            out[row] = _text_vector(text, self._dim)
        return out


@remember(4_096)
def _text_vector(text: str, dim: int) -> NDArray[np.float32]:
    """The same text is embedded when it is looked up, when it is stored, and whenever either is replayed."""
    found = [_word_vector(word, dim) for word in _words(text)] or [_word_vector(text, dim)]
    positions = np.concatenate([positions for positions, _ in found])
    values = np.concatenate([values for _, values in found])
    vector = np.bincount(positions, weights=values, minlength=dim)
    length = float(np.sqrt(vector @ vector))
    if length == 0.0:  # words that cancel out exactly; keep the row of unit length
        vector[0] = length = 1.0
    return (vector / length).astype(np.float32)


def _words(text: str) -> list[str]:
    """As they were split when this embedder was made: how memkit splits them has changed since, a stored vector must
    not."""
    if text.isascii():
        return words(text)
    folded = unicodedata.normalize("NFKC", cut_marks(text)).casefold().replace("’", "'")
    folded = _MARKS.sub("", unicodedata.normalize("NFD", folded))
    out: list[str] = []
    for piece in _WORD.findall(unicodedata.normalize("NFC", folded)):
        if piece.isascii() or len(piece) == 1 or not _IS_UNSPACED.match(piece):
            out.append(word_of(piece))
        else:
            out.extend(piece[i : i + 2] for i in range(len(piece) - 1))
    return out


@remember(32_768)
def _word_vector(word: str, dim: int) -> _Sparse:
    """Positions and values of one word. Long words are rarer and tell more, so they weigh more."""
    root = english_stem(word)
    weight = _STOP_WEIGHT if word in STOP_WORDS else min(0.5 + 0.1 * len(root), 1.3)
    marked = f"<{word}>"
    grams = sorted({marked[i : i + n] for n in _GRAM_SIZES for i in range(len(marked) - n + 1)})
    draws = _draws("w" + root, _STEM_POSITIONS)
    for gram in grams:
        draws += _draws("g" + gram, 1)
    values = np.full(len(draws), weight * _GRAM_SHARE / max(len(grams), 1) ** 0.5)
    values[:_STEM_POSITIONS] = weight * _STEM_SHARE / _STEM_POSITIONS**0.5
    signs = np.array([1.0 if draw & 1 else -1.0 for draw in draws])
    return np.array([(draw >> 1) % dim for draw in draws], dtype=np.int64), values * signs


def _draws(feature: str, count: int) -> list[int]:
    raw = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8 * count).digest()
    return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]
