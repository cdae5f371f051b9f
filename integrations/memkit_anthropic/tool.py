"""The memory tool, for `Anthropic` and for `AsyncAnthropic`. One tool serves one user, or a space as somebody: make one
per conversation."""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool

from memkit_anthropic.folder import Folder
from memkit_plug.bound import AnyMemory
from memkit_plug.files import Files


class MemkitMemoryTool(BetaAbstractMemoryTool):
    def __init__(
        self,
        memory: AnyMemory,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = Folder(Files(memory, user_id, agent_id))

    def view(self, command: Any) -> str:
        return self._folder.view(command.path, command.view_range)

    def create(self, command: Any) -> str:
        return self._folder.create(command.path, command.file_text)

    def str_replace(self, command: Any) -> str:
        return self._folder.str_replace(command.path, command.old_str, command.new_str)

    def insert(self, command: Any) -> str:
        return self._folder.insert(command.path, command.insert_line, command.insert_text)

    def delete(self, command: Any) -> str:
        return self._folder.delete(command.path)

    def rename(self, command: Any) -> str:
        return self._folder.rename(command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        return self._folder.clear()


class AsyncMemkitMemoryTool(BetaAsyncAbstractMemoryTool):
    def __init__(
        self,
        memory: AnyMemory,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = Folder(Files(memory, user_id, agent_id))

    async def view(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.view, command.path, command.view_range)

    async def create(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.create, command.path, command.file_text)

    async def str_replace(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.str_replace, command.path, command.old_str, command.new_str)

    async def insert(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.insert, command.path, command.insert_line, command.insert_text)

    async def delete(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.delete, command.path)

    async def rename(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.rename, command.old_path, command.new_path)

    async def clear_all_memory(self) -> str:
        return await asyncio.to_thread(self._folder.clear)
