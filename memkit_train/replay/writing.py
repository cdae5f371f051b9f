"""What a decision says, written as a model would write it: the counterpart of the parsers in memkit.roles.

Facts, drafts or an answer, and the prompt that asks for them → the reply, in the prompt's style.
"""

from __future__ import annotations

from collections.abc import Sequence

from memkit.models import JSON, OpDraft, to_json
from memkit.roles import AnswerDraft, Prompt


class NotShown(Exception):
    """A memory that an operation is about is not among those of the prompt. Nobody sees this: the caller tells it
    another fact, or leaves the decision out."""

    def __init__(self, draft: OpDraft) -> None:
        super().__init__("not shown")
        self.draft = draft


def write_facts(prompt: Prompt, facts: Sequence[tuple[str, str]]) -> str:
    """`facts`: (turn id, text)."""
    said = [(_turn_number(prompt, turn), text) for turn, text in facts]
    if prompt.style == "json":
        return to_json({"facts": [{"turn": turn, "fact": text} for turn, text in said]})
    return "\n".join(f"{turn} {text}" for turn, text in said) or "NONE"


def write_drafts(prompt: Prompt, drafts: Sequence[OpDraft]) -> str:
    """Of the manager, or of both in one call. A text that is the fact's own goes without saying in lines."""
    targets = {one.record.id: one for one in prompt.view.shown}
    items: list[JSON] = []
    for draft in drafts:
        shown = targets.get(draft.memory_id or "")
        if draft.memory_id is not None and (shown is None or (draft.action == "update" and not shown.whole)):
            raise NotShown(draft)
        writes = draft.action in ("add", "update")
        item: JSON = {
            "op": draft.action.upper(),
            "id": shown.handle if shown else None,
            "text": draft.text if writes else None,
        }
        if prompt.role == "fused":
            item["turn"] = _turn_number(prompt, draft.source_turns[-1] if draft.source_turns else "")
        items.append(item)
    if prompt.style == "json":
        return to_json({"operations": items})
    said = prompt.view.facts[0].text if prompt.role == "manager" else None
    return "\n".join(_line(item, said) for item in items) or "NOOP"


def write_answer(prompt: Prompt, draft: AnswerDraft) -> str:
    """The memories by their numbers in this prompt."""
    handles = {one.record.id: one.handle for one in prompt.view.shown}
    used = [handles[one] for one in draft.memory_ids if one in handles]
    if prompt.style == "json":
        return to_json({"memories": used, "answer": draft.text})
    return f"USE {' '.join(map(str, used)) or 'NONE'}\nANSWER {draft.text}"


def _line(item: JSON, said: str | None) -> str:
    text = None if item["text"] == said else item["text"]
    words = (item["op"], item["id"], item.get("turn") if item["op"] != "NOOP" or item["id"] else None, text)
    return " ".join(str(one) for one in words if one is not None)


def _turn_number(prompt: Prompt, turn_id: str) -> int:
    """Turns that were told in parts keep one id: the last part stands for all."""
    numbers = [number for number, turn in enumerate(prompt.view.turns, start=1) if turn.turn_id == turn_id]
    return numbers[-1] if numbers else len(prompt.view.turns)
