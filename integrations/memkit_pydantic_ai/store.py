"""`MemkitMemoryStore`: the harness's `MemoryStore` on a bank, versions compared and set in one commit.

An operation's id becomes the id of the journaled decision, so its receipt is the op itself: it never runs out, and
asking again, from any process, tells what came of it the first time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_ai_harness.memory import (
    MemoryConflictError,
    MemoryFile,
    MemoryMutation,
    MemoryOperation,
    MemoryOperationConflictError,
)

from memkit.models import MemoryRecord, Op, digest
from memkit_plug.bound import AnyMemory
from memkit_plug.files import File, FileChange, Files

_ROOT = "harness/"


class MemkitMemoryStore:
    """The files of a user, or of a space as somebody (`memory.principal(...).space(...)`, without user_id)."""

    def __init__(self, memory: AnyMemory, *, user_id: str | None = None, agent_id: str | None = None) -> None:
        self._files = Files(memory, user_id, agent_id)
        self._scope = self._files.scope

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        _check(path)
        if max_chars <= 0:
            raise ValueError("max_chars must be positive")
        file = (await asyncio.to_thread(self._files.all, _ROOT + path)).get(_ROOT + path)
        if file is None:
            return None
        return MemoryFile(
            content=file.content[:max_chars],
            version=_version(file.record),
            operation_id=file.extra.get("operation"),
            truncated=len(file.content) > max_chars,
            metadata=file.extra.get("metadata"),
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        return await asyncio.to_thread(self._receipt, operation)

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        extra: dict[str, Any] = {"write": digest([path, content, expected_version])[:16]}
        if metadata:
            extra["metadata"] = dict(metadata)
        if operation is not None:
            extra |= {"operation": operation.id, "fingerprint": operation.fingerprint}

        def decide(change: FileChange) -> bool:
            there = _expected(change.files, path, expected_version, "written")
            change.write(_ROOT + path, content, extra)
            return there is not None

        return await asyncio.to_thread(self._once, path, decide, operation)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        note = operation.fingerprint if operation else None

        def decide(change: FileChange) -> bool:
            there = _expected(change.files, path, expected_version, "deleted")
            if there is not None:
                change.delete(_ROOT + path, note)
            elif note is not None:
                change.note(note)
            return there is not None

        return await asyncio.to_thread(self._once, path, decide, operation)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        if prefix:
            _check(prefix.removesuffix("/"))
        found = await asyncio.to_thread(self._files.all, _ROOT + prefix)
        return [path[len(_ROOT) :] for path in found][: max(limit, 0)]

    def _once(
        self, path: str, decide: Callable[[FileChange], bool], operation: MemoryOperation | None
    ) -> MemoryMutation:
        _check(path)

        def unless_done(change: FileChange) -> bool:
            # looked up anew each time: another process may have done it between two attempts
            receipt = self._receipt(operation) if operation is not None else None
            if receipt is not None:
                raise _Done(receipt)
            return decide(change)

        decision_id = self._decision(operation) if operation is not None else None
        try:
            existed, ops = self._files.change(_ROOT + path, unless_done, decision_id=decision_id)
        except _Done as done:
            return done.receipt
        return MemoryMutation(version=_written(ops[0]) if ops else None, replayed=False, existed=existed)

    def _decision(self, operation: MemoryOperation) -> str:
        return "u_" + digest(["harness", *self._scope, operation.id])[:28]

    def _receipt(self, operation: MemoryOperation) -> MemoryMutation | None:
        op = self._files.find_op(self._decision(operation))
        if op is None:
            return None
        if _fingerprint(op) != operation.fingerprint:
            raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")
        return MemoryMutation(version=_written(op), replayed=True, existed=op.before is not None)


class _Done(Exception):
    def __init__(self, receipt: MemoryMutation) -> None:
        super().__init__()
        self.receipt = receipt


def _fingerprint(op: Op) -> Any:
    return op.text if op.after is None else (op.after.metadata.get("extra") or {}).get("fingerprint")


def _written(op: Op) -> str | None:
    """The version that an op led to, whatever others have written since; None where it ended the file."""
    return None if op.after is None else _version(op.after)


def _version(record: MemoryRecord) -> str:
    return f"{record.id}.{record.revision}"


def _expected(files: Mapping[str, File], path: str, version: str | None, what: str) -> File | None:
    there = files.get(_ROOT + path)
    if (None if there is None else _version(there.record)) != version:
        raise MemoryConflictError(f"memory path {path!r} changed before it could be {what}")
    return there


def _check(path: str) -> None:
    """Names that a file system would read otherwise than they are written are refused, as the harness's stores do."""
    if any(part in ("", ".", "..") or ".." in part or "\\" in part or "\n" in part for part in path.split("/")):
        raise ValueError(f"invalid memory path: {path!r}")
