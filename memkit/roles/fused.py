"""Fused: turns and the memories they may concern → operations, in one call. For hosted models, where calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from memkit.models import OpDraft, Turn
from memkit.roles.base import ChatMessage, Fact, Parsed, Prompt, Shown, Style, View
from memkit.roles.facts import Sources, fact_from
from memkit.roles.layout import fit, memory_line, turn_line, without_recalled
from memkit.roles.operations import FUSED_SHAPE, fused_grammar, operations_schema, to_drafts
from memkit.roles.prompting import (
    CALL_CHARS,
    FIRST,
    check_instructions,
    check_style,
    check_wording,
    prompt_version,
    schema_digest,
    system_text,
)
from memkit.roles.reading import Notes, read_items

_FORMATS: dict[str, str] = {
    "compact": """\
Reply with one operation per line, `turn` being the number of the new turn that says so: `ADD turn text`,
`UPDATE number turn text`, `DELETE number turn` or `NOOP number turn`; a single NOOP when there is nothing to keep.
Example for turn 1 from Ana, "We got another dog, Scout!", and memory 2 "Ana has a dog named Buddy.":
UPDATE 2 1 Ana has two dogs, Buddy and Scout.""",
    "json": """\
Reply with JSON only; an empty list when there is nothing to keep. Example for turn 1 from Ana, "We got another dog,
Scout!", and memory 2 "Ana has a dog named Buddy.":
{"operations": [{"op": "UPDATE", "id": 2, "text": "Ana has two dogs, Buddy and Scout.", "turn": 1}]}
For ADD, id is null; for DELETE and NOOP, text is null.""",
}


class Fused:
    name: Literal["fused"] = "fused"

    def __init__(self, instructions: str = "", style: str = "json", wording: int = FIRST) -> None:
        self.wording = check_wording(wording)
        self.style: Style = check_style(style)
        self.schema = operations_schema(with_turn=True) if self.style == "json" else None
        self.system = system_text(self.wording.fused, _FORMATS[self.style], check_instructions(instructions))
        self.version = prompt_version(self.name, self.wording, self.style, self.system, schema_digest(self.schema))

    def render(self, turns: Sequence[Turn], shown: Sequence[Shown], context_turns: Sequence[Turn] = ()) -> Prompt:
        new = without_recalled(turns)
        lines = ["NEW turns:", *(turn_line(number, turn) for number, turn in enumerate(new, start=1))]
        used = len(self.system) + sum(len(line) + 1 for line in lines) + 80
        kept, earlier = fit(self.wording, CALL_CHARS, used, shown, context_turns)
        memories = (
            ["Memories:", *(memory_line(one, weekday=self.wording.weekdays) for one in kept)]
            if kept
            else ["Memories: none yet."]
        )
        if earlier:
            memories += ["", "EARLIER turns:", *earlier]
        handles = tuple(one.handle for one in kept)
        writable = tuple(one.handle for one in kept if one.whole)
        most = min(20, 3 * len(new) + 3)
        return Prompt(
            role=self.name,
            style=self.style,
            version=self.version,
            messages=(ChatMessage("system", self.system), ChatMessage("user", "\n".join([*memories, "", *lines]))),
            grammar=fused_grammar(len(new), handles, writable, most) if self.style == "compact" else None,
            schema=self.schema,
            max_tokens=min(1_536, 256 + 96 * most),
            view=View(turns=new, shown=kept),
        )

    def parse(self, reply: str, prompt: Prompt, *, cut: bool = False) -> Parsed[list[OpDraft]]:
        """Drafts with the shown memories' ids and their turns as sources, or `BadReply`."""
        return read_operations(reply, prompt, cut)


def read_operations(reply: str, prompt: Prompt, cut: bool) -> Parsed[list[OpDraft]]:
    """What a reply asks for that names turns and memories."""
    notes = Notes()
    items = read_items(reply, prompt.grammar, FUSED_SHAPE, notes, cut)
    turns, sources = prompt.view.turns, Sources(prompt.view.turns)

    def fact_for(turn: int | None, text: str) -> Fact:
        if turn is not None:
            return fact_from(turns[turn - 1], text)
        return fact_from(sources.infer(text, notes) if text else turns[-1], text)

    drafts = to_drafts(items, prompt, FUSED_SHAPE, fact_for, None, notes)
    return Parsed(drafts, tuple(notes.repairs))
