"""LlamaIndex on memkit: a block for its `Memory` that learns what scrolls out of the chat and recalls it.

from memkit_llamaindex import MemkitMemoryBlock
chat = Memory.from_defaults(session_id="s1", memory_blocks=[MemkitMemoryBlock(memory=memory, user_id="ana")])
"""

from memkit_plug import missing

try:
    from memkit_llamaindex.block import MemkitMemoryBlock
except ImportError as error:
    raise missing("memkit_llamaindex", "llamaindex", error) from error

__all__ = ["MemkitMemoryBlock"]
