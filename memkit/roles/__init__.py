"""What a model is asked, and what its reply means. One file per role; nothing here generates text or does I/O.

`Extractor` turns → facts, `Manager` a fact → operations, `Fused` turns → operations, `Answerer` a question → an answer,
`Reflector` a run → lessons.
Each renders a `Prompt` and parses the reply to it: tolerant of how things are written (`Parsed.repairs` names each
liberty), strict in what they say (`BadReply`, its `details["class"]` names the failure).
"""

from __future__ import annotations

from memkit.roles.answerer import Answerer
from memkit.roles.base import (
    AnswerDraft,
    ChatMessage,
    Fact,
    Parsed,
    Prompt,
    RoleName,
    Shown,
    Style,
    View,
)
from memkit.roles.extractor import Extractor
from memkit.roles.fused import Fused
from memkit.roles.layout import split_turns
from memkit.roles.manager import Manager
from memkit.roles.prompting import FIRST, reask_message, reask_messages
from memkit.roles.recalled import strip_recalled
from memkit.roles.reflector import Reflector


def role_prompt_hashes(instructions: str = "", style: str = "compact", wording: int = FIRST) -> dict[str, str]:
    """Role → prompt version with its hash: what an adapter was trained on, and what it will be asked."""
    return {role.name: role(instructions, style, wording).version for role in (Extractor, Manager, Answerer, Fused)}


__all__ = [
    "AnswerDraft",
    "Answerer",
    "ChatMessage",
    "Extractor",
    "Fact",
    "Fused",
    "Manager",
    "Parsed",
    "Prompt",
    "Reflector",
    "RoleName",
    "Shown",
    "Style",
    "View",
    "reask_message",
    "reask_messages",
    "role_prompt_hashes",
    "split_turns",
    "strip_recalled",
]
