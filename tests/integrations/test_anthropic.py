"""The memory tool beside the SDK's own one on a disk: the same replies and errors, word for word."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic.lib.tools", reason="needs the extra anthropic")

from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool

from memkit import AsyncMemory, Memory
from memkit_anthropic import AsyncMemkitMemoryTool, MemkitMemoryTool


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        yield memory


@pytest.fixture
def tool(memory: Memory) -> MemkitMemoryTool:
    return MemkitMemoryTool(memory, user_id="ana")


def call(tool: Any, command: str, **fields: Any) -> str:
    try:
        return tool.call({"command": command, **fields})
    except ToolError as error:
        return f"error: {error}"


NOTES = "/memories/notes.md"

SCRIPTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "create and view": [
        ("view", {"path": "/memories"}),
        ("create", {"path": NOTES, "file_text": "one\ntwo\nthree\n"}),
        ("create", {"path": NOTES, "file_text": "again"}),
        ("create", {"path": "/memories", "file_text": "x"}),
        ("create", {"path": "/memories/empty", "file_text": ""}),
        ("view", {"path": NOTES}),
        ("view", {"path": NOTES, "view_range": [2, 3]}),
        ("view", {"path": NOTES, "view_range": [2, -1]}),
        ("view", {"path": NOTES, "view_range": [-5, 1]}),
        ("view", {"path": NOTES, "view_range": [9, 12]}),
        ("view", {"path": "/memories/empty"}),
        ("view", {"path": "/memories/missing"}),
        ("view", {"path": "/memories/notes.md/below"}),
        ("view", {"path": "/memories/./x/../notes.md"}),
    ],
    "listing": [
        ("create", {"path": "/memories/b/c/d/deep.md", "file_text": "x"}),
        ("create", {"path": "/memories/b/c.md", "file_text": "x" * 1536}),
        ("create", {"path": "/memories/b/c/e.md", "file_text": "ä"}),
        ("create", {"path": "/memories/a.md", "file_text": ""}),
        ("create", {"path": "/memories/.hidden", "file_text": "x"}),
        ("create", {"path": "/memories/b/.git/x", "file_text": "x"}),
        ("create", {"path": "/memories/z", "file_text": "x" * 2048}),
        ("view", {"path": "/memories"}),
        ("view", {"path": "/memories/b"}),
        ("view", {"path": "/memories/"}),
    ],
    "str_replace": [
        ("create", {"path": NOTES, "file_text": "a\nb\nc\nd\na b\nf\ng"}),
        ("str_replace", {"path": NOTES, "old_str": "d", "new_str": "D\nDD"}),
        ("str_replace", {"path": NOTES, "old_str": "a", "new_str": "x"}),
        ("str_replace", {"path": NOTES, "old_str": "zzz", "new_str": "x"}),
        ("str_replace", {"path": NOTES, "old_str": "g", "new_str": ""}),
        ("str_replace", {"path": "/memories/missing", "old_str": "a", "new_str": "b"}),
        ("str_replace", {"path": "/memories", "old_str": "a", "new_str": "b"}),
        ("view", {"path": NOTES}),
    ],
    "insert": [
        ("create", {"path": NOTES, "file_text": "a\nb"}),
        ("insert", {"path": NOTES, "insert_line": 0, "insert_text": "first\n"}),
        ("insert", {"path": NOTES, "insert_line": 3, "insert_text": "last"}),
        ("insert", {"path": NOTES, "insert_line": 99, "insert_text": "x"}),
        ("insert", {"path": NOTES, "insert_line": -1, "insert_text": "x"}),
        ("insert", {"path": "/memories/missing", "insert_line": 0, "insert_text": "x"}),
        ("insert", {"path": "/memories", "insert_line": 0, "insert_text": "x"}),
        ("view", {"path": NOTES}),
    ],
    "delete and rename": [
        ("create", {"path": "/memories/d/one", "file_text": "1"}),
        ("create", {"path": "/memories/d/two", "file_text": "2"}),
        ("rename", {"old_path": "/memories/d", "new_path": "/memories/e/f"}),
        ("view", {"path": "/memories/e/f/one"}),
        ("rename", {"old_path": "/memories/missing", "new_path": "/memories/x"}),
        ("create", {"path": NOTES, "file_text": "n"}),
        ("rename", {"old_path": NOTES, "new_path": "/memories/e"}),
        ("rename", {"old_path": NOTES, "new_path": "/memories/e/f/one"}),
        ("rename", {"old_path": "/memories", "new_path": "/memories/x"}),
        ("delete", {"path": "/memories/missing"}),
        ("delete", {"path": "/memories"}),
        ("delete", {"path": "/memories/e"}),
        ("delete", {"path": "/memories/e"}),
        ("delete", {"path": NOTES}),
        ("view", {"path": "/memories"}),
    ],
    "paths": [
        ("view", {"path": "/etc/passwd"}),
        ("view", {"path": "memories/x"}),
        ("view", {"path": ""}),
        ("view", {"path": "/memories/../../etc/passwd"}),
        ("create", {"path": "/memories/../x", "file_text": "x"}),
        ("delete", {"path": "/memories/a/../../.."}),
        ("rename", {"old_path": "/memories/a", "new_path": "/tmp/x"}),
        ("create", {"path": "/memories/%2e%2e/x", "file_text": "x"}),
        ("view", {"path": "/memories/%2e%2e/x"}),
    ],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_it_answers_as_the_tool_on_a_disk_does(tool: MemkitMemoryTool, tmp_path: Path, script: Any) -> None:
    disk = BetaLocalFilesystemMemoryTool(str(tmp_path / "disk"))

    def sized(reply: str) -> str:
        return re.sub(r"^\S+(\t/memories(?:/\S+?)?/?)$", _folder_size, reply, flags=re.M)

    def _folder_size(line: re.Match[str]) -> str:
        """Folders weigh what the file system of the day says."""
        path = line.group(1).strip()
        is_folder = (tmp_path / "disk" / path.lstrip("/")).is_dir()
        return f"*{line.group(1)}" if is_folder else line.group(0)

    for command, fields in script:
        expected, got = call(disk, command, **fields), call(tool, command, **fields)
        assert sized(got) == sized(expected), (command, fields)


@pytest.mark.parametrize("path", ["/memoriesx/a", "/memories/a\x00b", "/memories/a\nb", "/memories/../memoriesx"])
def test_paths_that_a_disk_would_mistake_are_refused(tool: MemkitMemoryTool, path: str) -> None:
    assert call(tool, "create", path=path, file_text="x").startswith("error: Path")


def test_a_file_is_no_folder(tool: MemkitMemoryTool) -> None:
    call(tool, "create", path=NOTES, file_text="x")
    assert call(tool, "create", path=f"{NOTES}/below", file_text="x").startswith("error: ")
    assert call(tool, "rename", old_path=NOTES, new_path=f"{NOTES}/x").startswith("error: ")


def test_files_are_memories_of_one_user(tool: MemkitMemoryTool, memory: Memory) -> None:
    call(tool, "create", path=NOTES, file_text="Ana prefers green tea.")
    assert "green tea" in memory.search("which tea?", user_id="ana")[0].text
    assert call(MemkitMemoryTool(memory, user_id="bob"), "view", path=NOTES).startswith("error: ")
    call(tool, "str_replace", path=NOTES, old_str="green", new_str="black")
    memory.undo(user_id="ana", op_id=memory.history(user_id="ana")[-1].op_id)
    assert "green" in call(tool, "view", path=NOTES)
    memory.add("I live in Oslo.", user_id="ana")
    assert tool.clear_all_memory() == "All memory cleared"
    assert [record.text for record in memory.list(user_id="ana")] == ["User lives in Oslo."]


@pytest.mark.parametrize("change", ["delete", "write"])
def test_a_double_that_an_undo_brings_back_ends_with_the_next_change(
    tool: MemkitMemoryTool, memory: Memory, change: str
) -> None:
    call(tool, "create", path=NOTES, file_text="first")
    call(tool, "delete", path=NOTES)
    ended = memory.history(user_id="ana")[-1]
    call(tool, "create", path=NOTES, file_text="second")
    memory.undo(user_id="ana", op_id=ended.op_id)
    if change == "delete":
        call(tool, "delete", path=NOTES)
        assert "does not exist" in call(tool, "view", path=NOTES)
    else:
        call(tool, "str_replace", path=NOTES, old_str="first", new_str="second")
        assert [record.text for record in memory.list(user_id="ana")] == [f"{NOTES}\nsecond"]


def test_limits_and_redaction_hold_for_files(tmp_path: Path) -> None:
    redact = lambda text: text.replace("4711", "****")  # noqa: E731
    with Memory(tmp_path / "m", redact=redact, config={"max_message_bytes": 100}) as memory:
        tool = MemkitMemoryTool(memory, user_id="ana")
        assert call(tool, "create", path=NOTES, file_text="x" * 200).startswith("error: a file has more than 100 bytes")
        call(tool, "create", path=NOTES, file_text="pin 4711")
        assert "4711" not in call(tool, "view", path=NOTES)


def test_the_async_tool_does_the_same(tmp_path: Path) -> None:
    async def run() -> list[Any]:
        async with AsyncMemory(tmp_path / "m") as memory:
            tool = AsyncMemkitMemoryTool(memory, user_id="ana")
            return [
                await tool.call({"command": "create", "path": NOTES, "file_text": "a"}),
                await tool.call({"command": "insert", "path": NOTES, "insert_line": 1, "insert_text": "b"}),
                await tool.call({"command": "str_replace", "path": NOTES, "old_str": "b", "new_str": "c"}),
                await tool.call({"command": "rename", "old_path": NOTES, "new_path": "/memories/x"}),
                await tool.call({"command": "view", "path": "/memories/x"}),
                await tool.call({"command": "delete", "path": "/memories/x"}),
                await tool.clear_all_memory(),
                tool.to_dict(),
            ]

    replies = asyncio.run(run())
    assert replies[4] == "Here's the content of /memories/x with line numbers:\n     1\ta\n     2\tc\n     3\t"
    assert replies[-1] == {"type": "memory_20250818", "name": "memory"}
