"""memkit's replay environment for verifiers and prime-rl.

    settings.py    what is asked, of whom, and what counts
    sources.py     a generated world, a log or a file → states, and who speaks in the roles that are not trained
    spoken.py      conversations of a file, and since when what they say holds
    states.py      a state's prompt and questions; a reply → what it earns, by memkit's own engine
    taskset.py     these states as tasks of verifiers
    seat.py        who plays them: one request, one reply, in this process

`taskset` and `seat` apart, nothing imports verifiers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_env.seat import MemkitEnv, MemkitHarness
    from memkit_env.taskset import MemkitTaskset

__all__ = ["MemkitEnv", "MemkitHarness", "MemkitTaskset"]
_HOMES = {"MemkitEnv": "seat", "MemkitHarness": "seat", "MemkitTaskset": "taskset"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
