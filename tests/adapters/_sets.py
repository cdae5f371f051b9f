"""An `AdapterSet` over a fake host, as a process that serves would have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memkit.adapters import AdapterHost, AdapterSet, Serving
from memkit.adapters.plan import MODEL_ROLES
from tests.adapters._make import PROMPT

SERVING = Serving(prompt_hashes=lambda: {"manager": PROMPT}, embedder="hash/1:384", store_schema=1)


def serving(root: Path, host: AdapterHost | None, **options: Any) -> AdapterSet:
    made = (host, MODEL_ROLES if host is not None else frozenset[str]())
    return AdapterSet(root, host=lambda: made, **({"serving": SERVING, "poll_s": 0.05} | options))
