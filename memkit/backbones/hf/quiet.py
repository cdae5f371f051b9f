"""No progress bars of transformers while a checkpoint is read or written here, and no setting of the user changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging

_lock = threading.Lock()
_quiet: list[int] = []
"""Threads that are inside `without_bars`, once for each time they entered."""
_users: list[Any] = []
"""The hook that was set before ours, while ours is."""


@contextmanager
def without_bars() -> Generator[None]:
    """Bars that this thread would draw are not drawn; other threads draw theirs."""
    thread = threading.get_ident()
    with _lock:
        if not _quiet:
            _users.append(logging.set_tqdm_hook(_hook))
        _quiet.append(thread)
    try:
        yield
    finally:
        with _lock:
            _quiet.remove(thread)
            if not _quiet:
                logging.set_tqdm_hook(_users.pop())


def _hook(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if threading.get_ident() in _quiet:
        return factory(*args, **{**kwargs, "disable": True})
    users = _users[-1] if _users else None
    return users(factory, args, kwargs) if users is not None else factory(*args, **kwargs)
