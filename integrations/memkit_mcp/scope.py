"""Whose memories a call may touch, and the store that holds them, opened with the first call that needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

from memkit import Memory
from memkit.errors import InvalidScope
from memkit.net.tenants import Tenant
from memkit.principal import SpaceMemory
from memkit.user import UserMemory
from memkit_plug.bound import refuse_others

caller: ContextVar[Tenant | None] = ContextVar("memkit_mcp_caller", default=None)
"""Set per HTTP request from its token."""
asked_space: ContextVar[str | None] = ContextVar("memkit_mcp_space", default=None)
"""Set per HTTP request from its header: the client's configuration, and never a tool call, says where it is made."""


class Scope:
    """`fixed` is the tenant of a stdio server, `space` where it is made; with None, each request must bring its own.
    Clients give a server about a second to answer `initialize`, so the store waits for the first tool call."""

    def __init__(self, open_memory: Callable[[], Memory], fixed: Tenant | None, space: str | None = None) -> None:
        self._open, self._fixed, self._space = open_memory, fixed, space
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

    @property
    def space(self) -> str | None:
        return asked_space.get() if self._fixed is None else self._space

    @property
    def readable(self) -> UserMemory | SpaceMemory:
        """The verbs of this call, as whoever makes it."""
        tenant, space = self.tenant, self.space
        if space is None:
            return self.memory.user(tenant.user_id, agent_id=tenant.agent_id)
        if tenant.agent_id is not None:
            raise InvalidScope("the call reaches beyond the token's agent", fix="use a token of the user")
        return self.memory.principal(tenant.user_id).space(space)

    @property
    def writable(self) -> UserMemory | SpaceMemory:
        tenant = self.tenant
        if tenant.read_only:
            raise InvalidScope(
                "this token may only read", why="its entry says read_only", fix="use a token that may write"
            )
        return self.readable

    def refuse_others(
        self, *, memory_id: str | None = None, op_id: str | None = None, trace_id: str | None = None
    ) -> None:
        """A token of one agent names what is in that agent's bank alone."""
        refuse_others(self.memory, self.tenant, memory_id=memory_id, op_id=op_id, trace_id=trace_id)

    def close(self) -> None:
        with self._lock:
            if self._memory is not None:
                self._memory.close()
                self._memory = None
