"""Anthropic's memory tool on memkit: Claude keeps its notes as files, durable and per user.

    from memkit_anthropic import MemkitMemoryTool
    client.beta.messages.run_tools(model=..., messages=..., tools=[MemkitMemoryTool(memory, user_id="ana")])

The files are memories: `memory.search` finds them, `memory.history` and `undo` work on them.
"""

from memkit_plug import missing

try:
    from memkit_anthropic.tool import AsyncMemkitMemoryTool, MemkitMemoryTool
except ImportError as error:
    raise missing("memkit_anthropic", "anthropic", error) from error

__all__ = ["AsyncMemkitMemoryTool", "MemkitMemoryTool"]
