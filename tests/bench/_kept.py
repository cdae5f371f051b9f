"""Runs of a long benchmark, kept as they end: one that was stopped goes on where it was.

    MEMKIT_BENCH_RUNS=folder python -m tests.bench rl-long --full

A run is found again by what it was told and by the code and checkpoints that it ran with, so a figure never outlives
the code that made it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memkit.models import digest

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("MEMKIT_BENCH_RUNS", REPOSITORY / "build" / "bench"))
_MADE_OF = ("*.py", "*.safetensors", "tokenizer.json")

Found = dict[str, Any]


def kept(told: Mapping[str, Any], make: Callable[[], Found]) -> Found:
    """What `make` gives, from the last time if it was told the same."""
    name = " ".join(f"{key}={value}" for key, value in told.items() if isinstance(value, str | int))
    file = FOLDER / f"{digest([dict(told), _code()])[:24]}.json"
    if file.is_file():
        print(f"kept: {name}", file=sys.stderr, flush=True)
        return json.loads(file.read_text(encoding="utf-8"))["found"]
    found = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = file.with_suffix(".part")
    whole.write_text(json.dumps({"told": dict(told), "found": found}, indent=1), encoding="utf-8")
    whole.replace(file)
    print(f"done: {name}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


def _code() -> str:
    """One digest of all that a run is made of."""
    summed = hashlib.sha256()
    for package in ("memkit", "memkit_train"):
        for pattern in _MADE_OF:
            for path in sorted((REPOSITORY / package).rglob(pattern)):
                summed.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes())
    return summed.hexdigest()
