"""Whose memories a plug works on, and as whom: a user's, those of a space, or all that somebody may read.

A plug takes a memory with a user_id, or what `memory.principal(...)` made, which says both. Of a space, every call is
checked when it is made, under the verb that the plug calls; so a right that ends, ends in a plug that is there already.
And here is what a tenant of one agent may name: the verbs that take an id know its user only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memkit import AsyncMemory, Memory
from memkit.errors import InvalidInput, InvalidScope, NotFound
from memkit.inputs import optional_id, scope_id
from memkit.models import SPACE
from memkit.net.tenants import Tenant
from memkit.principal import InThreads, Principal, SpaceMemory
from memkit.runtime.open_bank import OpenBank
from memkit.user import UserMemory

AnyMemory = Memory | AsyncMemory | Principal | SpaceMemory | InThreads
"""What a plug takes. The awaitable ones are for hosts that await; whoever does runs the blocking verbs in a thread."""


@dataclass(frozen=True, slots=True)
class Bound:
    user_id: str
    """As whom the calls are made."""
    reads: UserMemory | SpaceMemory | Principal
    writes: UserMemory | SpaceMemory
    bank: Callable[[], OpenBank]
    """Below `writes`."""
    place: str = ""
    """The agent or the space, where one is named; one user's two places are never the same."""

    @property
    def has_rights(self) -> bool:
        """Whether rights say what it may do, which may end while it is in use."""
        return not isinstance(self.reads, UserMemory)


def bind(memory: Any, user_id: str | None = None, agent_id: str | None = None) -> Bound:
    """What is no memory, and a scope that is missing or there twice, is refused where a plug is made."""
    found = memory.sync if isinstance(memory, AsyncMemory | InThreads) else memory
    if isinstance(found, Memory):
        if user_id is None:
            raise InvalidScope(
                "it is not said whose memories these are",
                why="a Memory holds those of all users",
                fix="pass user_id=, or memory.principal(user_id) in place of the memory",
            )
        who, agent = scope_id(user_id, "user_id"), optional_id(agent_id, "agent_id") or None
        view = found.user(who, agent_id=agent)
        return Bound(who, view, view, view.bank, agent or "")
    if not isinstance(found, Principal | SpaceMemory):
        raise InvalidInput(
            f"{memory!r:.60} is no memory",
            why="a plug works on a memory that the app opens and closes",
            fix='pass memkit.Memory("./memory"), an AsyncMemory, or what memory.principal(...) made',
        )
    if user_id is not None or agent_id is not None:
        raise InvalidScope(
            f"{found!r} says already as whom it is called, and where",
            why="a plug that is made as somebody speaks for nobody else",
            fix="leave user_id and agent_id out",
        )
    if isinstance(found, SpaceMemory):
        return Bound(found.user_id, found, found, found.bank, SPACE + found.name)
    return Bound(found.user_id, found, found.own, found.own.bank)


def bind_in_run(memory: Any, user_id: Any, agent_id: str | None, run: Any) -> Bound:
    """For hosts that serve many users with one plug: `memory` or `user_id` may be a function of the run."""
    found: Any = memory(run) if callable(memory) else memory
    named: Any = user_id(run) if callable(user_id) else user_id
    return bind(found, named, agent_id)


def refuse_unbound(memory: Any, user_id: Any, agent_id: str | None) -> None:
    """What can be told to be wrong before there is a run."""
    if not callable(memory):
        bind(memory, "whoever" if callable(user_id) else user_id, agent_id)
    elif user_id is not None or agent_id is not None:
        raise InvalidScope(
            "a function of the run says already whose memory it is",
            fix="leave user_id and agent_id out, and return memory.principal(...) or its space",
        )


def open_bank(memory: Any, user_id: str | None = None, agent_id: str | None = None) -> OpenBank:
    """For what is kept in one place, as items and files are."""
    bound = bind(memory, user_id, agent_id)
    if isinstance(bound.reads, Principal):
        raise InvalidScope(
            f"{bound.reads!r} reads several banks, and this plug keeps its own in one",
            fix="pass memory.principal(user_id).space(name), or the memory with user_id=",
        )
    return bound.bank()


def refuse_others(
    memory: Memory, who: Tenant, *, memory_id: str | None = None, op_id: str | None = None, trace_id: str | None = None
) -> None:
    """NotFound for what is not in the bank of the tenant's agent: the same words as for what is nowhere."""
    if who.agent_id is None:
        return
    bank = memory.bank(user_id=who.user_id, agent_id=who.agent_id)
    if memory_id is not None and bank.get(scope_id(memory_id, "id")) is None:
        raise _not_found(f"no live memory {memory_id}")
    if op_id is not None and not bank.ops(op_id=scope_id(op_id, "op_id")):
        raise _not_found(f"no op {op_id}")
    if trace_id is not None and not bank.knows(scope_id(trace_id, "trace_id")):
        raise _not_found(f"no trace {trace_id}")


def _not_found(what: str) -> NotFound:
    return NotFound(
        f"{what} for this agent",
        why="it is gone, or belongs to somebody else",
        fix="search and list show what is there",
    )
