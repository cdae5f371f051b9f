"""What every token of a tokenizer spells: its bytes, and its text when the bytes are whole characters.

Byte-level and byte-fallback vocabularies cut characters apart ("é" may be two tokens). Such *ragged* tokens are kept
as bytes, so that a mask can allow the first half of a character exactly when the second half can follow.
"""

from __future__ import annotations

import codecs
import functools
import json
from dataclasses import dataclass
from typing import Any

from memkit.roles.grammar import is_text_char

LONGEST_PIECE = 32
"""Tokens of more characters (runs of blanks, mostly) are never used in a constrained reply."""
CONTINUING_BYTES = 8
"""The same for tokens that begin inside a character."""


@dataclass(frozen=True, slots=True)
class Utf8Split:
    """Bytes read as UTF-8: whole characters, then the beginning of one more."""

    text: str
    tail: bytes


def split_utf8(data: bytes) -> Utf8Split | None:
    """None when no text continues these bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data)
    except UnicodeDecodeError:
        return None
    tail = decoder.getstate()[0]
    return Utf8Split(text, tail) if _first_printable(tail) or not tail else None


def missing_bytes(tail: bytes) -> int:
    """How many bytes complete the character that begins with `tail`."""
    if not tail:
        return 0
    width = 2 if tail[0] < 0xE0 else 3 if tail[0] < 0xF0 else 4
    return width - len(tail)


@functools.lru_cache(maxsize=4096)
def _first_printable(tail: bytes) -> str:
    """Some character of free text whose encoding begins with `tail`; empty when there is none."""
    if not tail:
        return ""
    width = len(tail) + missing_bytes(tail)
    free_bits = 6 * (width - len(tail))
    low = tail[0] & (0x7F >> width)
    for byte in tail[1:]:
        low = (low << 6) | (byte & 0x3F)
    low <<= free_bits
    floor = {2: 0x80, 3: 0x800, 4: 0x10000}[width]
    for code in range(max(low, floor), min(low + (1 << free_bits), 0x110000)):
        if not 0xD800 <= code <= 0xDFFF and is_text_char(chr(code)):
            return chr(code)
    return ""


class Vocabulary:
    """`spelled[id]` is None for control tokens, added tokens and padding of the embedding matrix."""

    def __init__(self, spelled: list[bytes | None], stop_ids: frozenset[int]) -> None:
        self.spelled = spelled
        self.size = len(spelled)
        self.stop_ids = stop_ids
        self.texts: dict[int, str] = {}
        """Tokens of whole characters."""
        self.opening: list[tuple[int, Utf8Split]] = []
        """Tokens that end inside a character."""
        self.continuing: list[int] = []
        """Tokens that begin inside a character."""
        self.single: set[str] = set()
        """Characters that have a token of their own."""
        for token, data in enumerate(spelled):
            if data is None or token in stop_ids:
                continue
            if 0x80 <= data[0] < 0xC0:
                if len(data) <= CONTINUING_BYTES:
                    self.continuing.append(token)
                continue
            split = split_utf8(data)
            if split is None or len(split.text) > LONGEST_PIECE:
                continue
            if split.tail:
                self.opening.append((token, split))
            else:
                self.texts[token] = split.text
                if len(split.text) == 1:
                    self.single.add(split.text)
        lone = {spelled[token] for token in self.continuing}
        if not all(bytes([byte]) in lone for byte in range(0x80, 0xC0)):
            self.opening, self.continuing = [], []  # a begun character could not always be finished

    def text_of(self, token_ids: list[int]) -> str:
        data = b"".join(self.spelled[token] or b"" for token in token_ids)
        return data.decode("utf-8", errors="replace")


def read_vocabulary(tokenizer: Any, size: int, stop_ids: frozenset[int]) -> Vocabulary:
    """`size` is the width of the logits, which may exceed the tokenizer's own."""
    added = set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)
    pieces: dict[str, int] = tokenizer.get_vocab()
    spell = _speller(tokenizer)
    spelled: list[bytes | None] = [None] * size
    for piece, token in pieces.items():
        if token < size and token not in added:
            spelled[token] = spell(piece, token) or None
    return Vocabulary(spelled, stop_ids)


def _speller(tokenizer: Any) -> Any:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.loads(backend.to_str()).get("decoder") if backend is not None else None
    kinds = _decoder_kinds(decoder)
    if "ByteLevel" in kinds:
        table = _byte_level_table()

        def byte_level(piece: str, token: int) -> bytes | None:
            if any(char not in table for char in piece):
                return None
            return bytes(table[char] for char in piece)

        return byte_level
    if "ByteFallback" in kinds or "Metaspace" in kinds:

        def metaspace(piece: str, token: int) -> bytes:
            if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
                return bytes([int(piece[3:5], 16)])
            return piece.replace("▁", " ").encode("utf-8", errors="ignore")

        return metaspace
    anchor = tokenizer.encode("a", add_special_tokens=False)[-1:]
    before = tokenizer.decode(anchor, clean_up_tokenization_spaces=False)

    def by_decoding(piece: str, token: int) -> bytes | None:
        after: str = tokenizer.decode([*anchor, token], clean_up_tokenization_spaces=False)
        spelled = after[len(before) :]
        return None if "\ufffd" in spelled else spelled.encode()

    return by_decoding


def _decoder_kinds(decoder: dict[str, Any] | None) -> set[str]:
    if not decoder:
        return set()
    kinds = {str(decoder.get("type"))}
    for part in decoder.get("decoders", ()):
        kinds |= _decoder_kinds(part)
    return kinds


def _byte_level_table() -> dict[str, int]:
    """Byte-level BPE writes each byte as a visible character: itself where it has one, the next free code otherwise."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in visible}
    hidden = (byte for byte in range(256) if byte not in set(visible))
    table.update({chr(256 + index): byte for index, byte in enumerate(hidden)})
    return table
