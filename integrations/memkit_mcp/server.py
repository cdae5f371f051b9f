"""The tools and the profile resource. Each tool is one verb of `Memory`, run in a thread by the SDK."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ParamSpec, TypeVar

from memkit import Memory, __version__
from memkit.errors import InvalidInput, MemkitError, MissingExtra, NoModel
from memkit.models import MemoryRecord, Op
from memkit.net.tenants import Tenant
from memkit_mcp.greeting import INSTRUCTIONS, NAME, can_show
from memkit_mcp.scope import Scope

try:
    from mcp.server.apps import Apps
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ResourceError, ToolError
    from mcp.types import ToolAnnotations
    from pydantic import Field

    from memkit_mcp.apps import offer_pages, show_beside
except ImportError as error:
    raise MissingExtra(
        "the MCP server needs the package mcp (2.x)", why=str(error), fix='pip install "memkit[mcp]"'
    ) from error

P = ParamSpec("P")
R = TypeVar("R")
JSON = dict[str, Any]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
RATES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

_ABOUT_THE_USER = re.compile(r"(?:(?<=^)|(?<=[.!?] ))the user\b", re.IGNORECASE)
"""Agents write so, whatever they are asked for; memories call the user "User", and in a space by name."""

PROFILE_URI = "memkit://profile"
PROFILE_SIZE = 200
"""Memories that the profile shows: the newest."""

MemoryId = Annotated[str, Field(description="Id of a memory, as search_memory and list_memories give it.")]
TraceId = Annotated[str, Field(description="The trace_id that add_memory, search_memory or answer returned.")]
Count = Annotated[int, Field(ge=1, le=200)]


def build_server(
    open_memory: Callable[[], Memory], tenant: Tenant | None = None, *, space: str | None = None
) -> tuple[MCPServer[Any], Scope]:
    """`tenant`: whose memories a stdio server serves; None where every request brings a token (see `http_app`).
    `space`: then the space's memories, as that user."""
    scope = Scope(open_memory, tenant, space)
    pages = offer_pages(scope) if can_show() else None
    server: MCPServer[Any] = MCPServer(
        NAME,
        title=NAME,
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        extensions=[pages] if pages else [],
    )
    _writing_tools(server, scope)
    _reading_tools(server, scope, pages)
    return server, scope


def _writing_tools(server: MCPServer[Any], scope: Scope) -> None:
    @server.tool(title="Remember", annotations=ADDS)
    @tell_errors
    def add_memory(
        text: Annotated[str, Field(description='What the user said, in the first person: "I moved to Oslo."')],
        session_id: Annotated[str | None, Field(description="The chat that it was said in.")] = None,
    ) -> JSON:
        """Remember what the user said. Returns at once; what becomes of it (a new memory, an update, nothing) is
        decided in the background, and undo takes it back."""
        name = "User" if scope.space is None else scope.tenant.user_id
        text = _ABOUT_THE_USER.sub(lambda _: name[:1].upper() + name[1:], text)
        added = scope.writable.add(text, session_id=session_id or None, wait=False)
        return {"trace_id": added.trace_id, "status": added.status}

    @server.tool(title="Correct a memory", annotations=CHANGES)
    @tell_errors
    def update_memory(id: MemoryId, text: str) -> JSON:
        """Replace the text of one memory. The earlier text stays in its history."""
        memory = scope.writable
        scope.refuse_others(memory_id=id)
        return show_record(memory.update(id, text))

    @server.tool(title="Forget a memory", annotations=CHANGES)
    @tell_errors
    def delete_memory(id: MemoryId) -> JSON:
        """End one memory. undo brings it back."""
        memory = scope.writable
        scope.refuse_others(memory_id=id)
        return show_change(memory.delete(id))

    @server.tool(title="Undo", annotations=CHANGES)
    @tell_errors
    def undo(
        op_id: Annotated[str | None, Field(description="The op_id of one change.")] = None,
        trace_id: Annotated[str | None, Field(description="Everything that one add_memory led to.")] = None,
    ) -> JSON:
        """Take one change back, or all that an add_memory led to. Name exactly one of them."""
        memory, op_id, trace_id = scope.writable, op_id or None, trace_id or None
        if (op_id is None) == (trace_id is None):
            raise InvalidInput("undo needs either op_id or trace_id", fix="pass one of them and leave the other out")
        scope.refuse_others(op_id=op_id, trace_id=trace_id)
        ops = memory.undo(op_id=op_id, turn_id=trace_id)
        return {"undone": [show_change(op) for op in ops]}

    @server.tool(title="Rate", annotations=RATES)
    @tell_errors
    def feedback(
        trace_id: TraceId,
        label: Annotated[str | None, Field(description="up or down.")] = None,
        reward: Annotated[float | None, Field(ge=0, le=1, description="0 useless, 1 just right.")] = None,
        expected: Annotated[str | None, Field(description="What the answer should have been.")] = None,
        comment: str | None = None,
    ) -> JSON:
        """Say whether what was remembered or found helped. The memory is trained on this."""
        memory = scope.writable
        scope.refuse_others(trace_id=trace_id)
        noted = memory.feedback(trace_id, label=label, reward=reward, expected=expected, comment=comment)
        return {"feedback_id": noted}


def _reading_tools(server: MCPServer[Any], scope: Scope, pages: Apps | None) -> None:
    @server.tool(title="Search memory", annotations=READS)
    @tell_errors
    def search_memory(query: str, k: Count = 10, session_id: str | None = None) -> JSON:
        """Find what is known about the user that bears on the query, best first."""
        hits = scope.readable.search(query, k=k, session_id=session_id or None)
        return {
            "trace_id": hits.trace_id,
            "memories": [show_record(hit.memory) | {"score": round(hit.score, 4)} for hit in hits],
        }

    @server.tool(title="List memories", annotations=READS, **show_beside("memories", pages))
    @tell_errors
    def list_memories(limit: Count = 50, cursor: str | None = None) -> JSON:
        """All that is known about the user, page by page."""
        page = scope.readable.list(limit=limit, cursor=cursor)
        return {"memories": [show_record(record) for record in page], "cursor": page.cursor}

    @server.tool(title="Answer from memory", annotations=READS)
    @tell_errors
    def answer(question: str) -> JSON:
        """Answer a question from memory, with the memories that the answer rests on. Without a model of its own the
        server returns the memories to answer from."""
        memory = scope.readable
        try:
            reply = memory.answer(question)
        except NoModel:
            block = memory.context(question)
            return {"answer": None, "context": str(block), "trace_id": block.trace_id}
        return {
            "answer": reply.text,
            "abstained": reply.abstained,
            "cited": [show_record(record) for record in reply.cited],
            "trace_id": reply.trace_id,
        }

    @server.resource(
        PROFILE_URI,
        name="profile",
        title="What is known about the user",
        mime_type="application/json",
        description="What always matters, then the newest memories, as data.",
    )
    def profile() -> JSON:
        try:
            memory = scope.readable
            always = memory.profile()
            newest: list[MemoryRecord] = []
            cursor: str | None = None
            while True:
                page = memory.list(limit=1_000, cursor=cursor)
                newest = [*newest, *page][-PROFILE_SIZE:]
                cursor = page.cursor
                if cursor is None:
                    break
            shown = {record.id: record for record in (*always, *reversed(newest))}
            return {"memories": [show_record(record) for record in shown.values()]}
        except MemkitError as error:
            raise ResourceError(str(error)) from None


def tell_errors(verb: Callable[P, R]) -> Callable[P, R]:
    """An error of ours reaches the model in words, with its next step; it holds no content of memories."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except MemkitError as error:
            raise ToolError(f"{type(error).__name__}: {error}") from None

    return call


def show_record(record: MemoryRecord) -> JSON:
    out: JSON = {"id": record.id, "text": record.text, "kind": record.kind}
    if record.at is not None:
        out["said_at"] = _time(record.at)
    if record.speaker:
        out["speaker"] = record.speaker
    return out


def show_change(op: Op) -> JSON:
    return {"op_id": op.op_id, "action": op.action, "memory_id": op.memory_id}


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
