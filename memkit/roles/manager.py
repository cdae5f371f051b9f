"""Manager: one fact and the memories it may concern → operations on their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from memkit.models import OpDraft, Turn
from memkit.roles.base import ChatMessage, Fact, Parsed, Prompt, Shown, Style, View
from memkit.roles.layout import day, fit, memory_line, quote, speaker_label
from memkit.roles.operations import SPLIT_SHAPE, manager_grammar, operations_schema, to_drafts
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
Reply with one operation per line: `ADD`, `UPDATE number text`, `DELETE number` or `NOOP number`. Without a text, ADD
and UPDATE take the fact's own words. Example for the fact "Ana adopted another dog, Scout." and memory 2 "Ana has a dog
named Buddy.":
UPDATE 2 Ana has two dogs, Buddy and Scout.""",
    "json": """\
Reply with JSON only. Example for the fact "Ana adopted another dog, Scout." and memory 2 "Ana has a dog named Buddy.":
{"operations": [{"op": "UPDATE", "id": 2, "text": "Ana has two dogs, Buddy and Scout."}]}
For ADD, id is null; for DELETE and NOOP, text is null.""",
}


class Manager:
    name: Literal["manager"] = "manager"

    def __init__(self, instructions: str = "", style: str = "compact", wording: int = FIRST) -> None:
        self.wording = check_wording(wording)
        self.style: Style = check_style(style)
        self.schema = operations_schema(with_turn=False) if self.style == "json" else None
        self.system = system_text(self.wording.manager, _FORMATS[self.style], check_instructions(instructions))
        self.version = prompt_version(self.name, self.wording, self.style, self.system, schema_digest(self.schema))

    def render(self, fact: Fact, shown: Sequence[Shown], turns: Sequence[Turn] = ()) -> Prompt:
        """`turns`: where the fact comes from, for facts that do not carry it themselves."""
        fact = _with_source(fact, turns)
        said_by = speaker_label(fact.speaker)
        new = f"NEW fact [{day(fact.at, weekday=True)}]{f' from {said_by}' if said_by else ''}: {quote(fact.text)}"
        kept, _ = fit(self.wording, CALL_CHARS, len(self.system) + len(new) + 60, shown, ())
        memories = (
            ["Memories:", *(memory_line(one, weekday=self.wording.weekdays) for one in kept)]
            if kept
            else ["Memories: none like it yet."]
        )
        handles = tuple(one.handle for one in kept)
        writable = tuple(one.handle for one in kept if one.whole)
        return Prompt(
            role=self.name,
            style=self.style,
            version=self.version,
            messages=(ChatMessage("system", self.system), ChatMessage("user", "\n".join([*memories, "", new]))),
            grammar=manager_grammar(handles, writable) if self.style == "compact" else None,
            schema=self.schema,
            max_tokens=384,
            view=View(facts=(fact,), shown=kept),
        )

    def parse(self, reply: str, prompt: Prompt, *, cut: bool = False) -> Parsed[list[OpDraft]]:
        """Drafts with the shown memories' ids and the fact's source, or `BadReply`."""
        notes = Notes()
        (fact,) = prompt.view.facts
        items = read_items(reply, prompt.grammar, SPLIT_SHAPE, notes, cut)
        drafts = to_drafts(items, prompt, SPLIT_SHAPE, lambda turn, text: fact, fact.text, notes)
        return Parsed(drafts, tuple(notes.repairs))


def _with_source(fact: Fact, turns: Sequence[Turn]) -> Fact:
    sources = [turn for turn in turns if turn.turn_id in fact.source_turns] or list(turns)
    if fact.at is not None or not sources:
        return fact
    newest = max(sources, key=lambda turn: turn.at)
    return replace(
        fact,
        source_turns=fact.source_turns or tuple(turn.turn_id for turn in sources),
        speaker=fact.speaker or newest.speaker,
        at=newest.at,
        session_id=newest.session_id,
        origin=newest.origin,
        trainable=all(turn.trainable for turn in sources),
    )
