"""What a tenant that is bound to one agent may name. The verbs that take an id know its user only."""

from __future__ import annotations

from memkit import Memory
from memkit.errors import NotFound
from memkit.inputs import scope_id
from memkit.net.tenants import Tenant


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
