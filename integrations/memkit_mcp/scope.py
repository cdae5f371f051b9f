"""Whose memories a call may touch, and the store that holds them, opened with the first call that needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

from memkit import Memory
from memkit.errors import InvalidScope
from memkit.net.tenants import Tenant

caller: ContextVar[Tenant | None] = ContextVar("memkit_mcp_caller", default=None)
"""Set per HTTP request from its token."""


class Scope:
    """`fixed` is the tenant of a stdio server; with None, each request must bring its own. Clients give a server
    about a second to answer `initialize`, so the store waits for the first tool call."""

    def __init__(self, open_memory: Callable[[], Memory], fixed: Tenant | None) -> None:
        self._open, self._fixed = open_memory, fixed
        self._memory: Memory | None = None
        self._lock = threading.Lock()

    @property
    def memory(self) -> Memory:
        with self._lock:
            if self._memory is None:
                self._memory = self._open()
            return self._memory

    @property
    def tenant(self) -> Tenant:
        tenant = self._fixed or caller.get()
        if tenant is None:
            raise InvalidScope(
                "this call belongs to nobody", why="it carries no token", fix="send Authorization: Bearer TOKEN"
            )
        return tenant

    def writable(self) -> Tenant:
        tenant = self.tenant
        if tenant.read_only:
            raise InvalidScope(
                "this token may only read", why="its entry says read_only", fix="use a token that may write"
            )
        return tenant

    def close(self) -> None:
        with self._lock:
            if self._memory is not None:
                self._memory.close()
                self._memory = None
