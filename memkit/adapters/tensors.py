"""Read a safetensors file as hostile input, with numpy only: header first, under caps, tensors last.

The format: 8 bytes of header length, a JSON header (name → dtype, shape, data_offsets), then the bytes of all tensors
without gap or overlap. Whatever two readers could understand differently is refused.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from memkit.adapters._files import open_plain
from memkit.adapters.manifest import strict_json
from memkit.errors import AdapterRejected

MAX_HEADER = 8 << 20
MAX_TENSORS = 20_000
_WIDTH = {"F32": 4, "F16": 2, "BF16": 2}
_INTEGER: Mapping[str, Any] = {"F32": np.uint32, "F16": np.uint16, "BF16": np.uint16}
_EXPONENT = {"F32": 0x7F800000, "F16": 0x7C00, "BF16": 0x7F80}
"""All exponent bits set means infinite or NaN; testing bits needs no bfloat16 type and no copy."""
_NAME = re.compile(r"base_model\.model\.((?:[A-Za-z0-9_]+\.)*[A-Za-z0-9_]+)\.lora_(A|B)\.weight")
_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True)
class LoraPair:
    """The two matrices of one module: A (rank, in_features), B (out_features, rank)."""

    module: str
    rank: int
    in_features: int
    out_features: int


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_lora_tensors(path: Path) -> tuple[LoraPair, ...]:
    """The LoRA pairs in the file, after checking names, types, sizes, layout, pairing and every value."""
    return _pair(check_tensors(path))


def check_tensors(path: Path) -> list[_Tensor]:
    """The tensors of a file, after checking types, sizes, layout and every value."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(8)
        _refuse_other_formats(head)
        length = int.from_bytes(head, "little")
        if length > MAX_HEADER:
            raise refusal(
                f"a header of {length} bytes", f"adapters need far less than {MAX_HEADER}", "header_too_large"
            )
        if length > size - 8:
            raise refusal("the file ends within its header", "it was cut off", "truncated_header")
        tensors = _parse_header(file.read(length), size - 8 - length)
        data = np.memmap(file, dtype=np.uint8, mode="r", offset=8 + length)
        for tensor in tensors:
            _check_finite(tensor, data[tensor.begin : tensor.end])
    return tensors


def refusal(what: str, why: str, reason: str, **details: Any) -> AdapterRejected:
    return AdapterRejected(
        f"the adapter was refused: {what}",
        why=why,
        fix="publish it again from the trainer's output; the adapter that serves is untouched",
        reason=reason,
        **details,
    )


def _refuse_other_formats(head: bytes) -> None:
    if len(head) < 8:
        raise refusal("the weight file is empty", "a safetensors file starts with 8 bytes of length", "empty_weights")
    if head[0] == 0x80 and head[1] <= 5:
        raise refusal("the weight file is a pickle", "reading a pickle runs code; it was renamed", "pickle")
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        raise refusal(
            "the weight file is a zip archive", "that is how torch.save packs pickles; it was renamed", "zip_archive"
        )


def _parse_header(raw: bytes, room: int) -> list[_Tensor]:
    if not raw.startswith(b"{"):
        raise refusal("the header is not JSON", "a safetensors header starts with a brace", "header_invalid")
    try:
        header = strict_json(raw, where="the tensor header", reason="header_invalid")
    except AdapterRejected as error:
        reason = "duplicate_tensor" if error.details["reason"] == "duplicate_key" else "header_invalid"
        raise refusal("the tensor header cannot be read", error.why or error.what, reason) from None
    if not isinstance(header, dict):
        raise refusal("the header is not an object", "it lists no tensors", "header_invalid")
    entries = cast("dict[str, Any]", header)
    entries.pop("__metadata__", None)
    if not entries:
        raise refusal("it holds no tensors", "an adapter without weights changes nothing", "no_tensors")
    if len(entries) > MAX_TENSORS:
        raise refusal(f"{len(entries)} tensors", f"the cap is {MAX_TENSORS}", "too_many_tensors")
    tensors = sorted((_entry(name, entry) for name, entry in entries.items()), key=lambda one: (one.begin, one.end))
    _check_layout(tensors, room)
    return tensors


def _entry(name: str, entry: Any) -> _Tensor:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]} if len(entry) == 3:
            pass
        case _:
            raise refusal("a tensor has no type, shape and place", "its entry is malformed", "header_entry")
    numbers = cast("list[Any]", [*shape, begin, end])
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise refusal(
            "a tensor has an impossible shape or place", "numbers must be whole and positive", "header_number"
        )
    if dtype not in _WIDTH:
        raise refusal(f"a tensor of type {dtype[:16]}", f"adapters hold {', '.join(_WIDTH)}", "dtype")
    if math.prod(shape) * _WIDTH[dtype] != end - begin:
        raise refusal("a tensor's size is not its shape", "bytes and shape disagree", "tensor_size")
    return _Tensor(name, dtype, tuple(shape), begin, end)


def _check_layout(tensors: list[_Tensor], room: int) -> None:
    at = 0
    for tensor in tensors:
        if tensor.begin < at:
            raise refusal("two tensors share bytes", "the layout overlaps", "tensor_overlap")
        if tensor.begin > at:
            raise refusal("bytes belong to no tensor", "the layout has a gap", "tensor_gap")
        at = tensor.end
    if at > room:
        raise refusal("the file ends within a tensor", "it was cut off", "truncated")
    if at < room:
        raise refusal("bytes follow the last tensor", "something is appended to the file", "trailing_bytes")


def _pair(tensors: list[_Tensor]) -> tuple[LoraPair, ...]:
    found: dict[str, dict[str, _Tensor]] = {}
    for tensor in tensors:
        match = _NAME.fullmatch(tensor.name)
        if match is None:
            odd = ".." in tensor.name or "/" in tensor.name or "\\" in tensor.name
            raise refusal(
                "a tensor is not a LoRA matrix",
                f"its name is {tensor.name[:120]!r}",
                "tensor_name" if odd else "not_a_lora_tensor",
            )
        if len(tensor.shape) != 2 or 0 in tensor.shape:
            raise refusal(
                f"{tensor.name} has shape {tensor.shape}", "LoRA matrices are two-dimensional", "not_a_matrix"
            )
        found.setdefault(match[1], {})[match[2]] = tensor
    pairs: list[LoraPair] = []
    for module, sides in sorted(found.items()):
        if len(sides) < 2:
            raise refusal(f"{module} has only one of its two matrices", "A and B belong together", "unpaired_tensor")
        a, b = sides["A"].shape, sides["B"].shape
        if a[0] != b[1]:
            raise refusal(f"the matrices of {module} do not fit", f"A is {a}, B is {b}", "rank_mismatch")
        pairs.append(LoraPair(module, a[0], a[1], b[0]))
    return tuple(pairs)


def _check_finite(tensor: _Tensor, raw: Any) -> None:
    bits: Any = np.frombuffer(raw, dtype=_INTEGER[tensor.dtype])
    mask = _EXPONENT[tensor.dtype]
    for start in range(0, len(bits), _CHUNK):
        if bool(((bits[start : start + _CHUNK] & mask) == mask).any()):
            raise refusal(f"{tensor.name} holds NaN or infinite values", "it would silence the model", "not_finite")
