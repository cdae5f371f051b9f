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
    check_instructions,
    check_style,
    prompt_version,
    schema_digest,
    system_text,
)
from memkit.roles.reading import Notes, read_items

VERSION = 1

HOW_TO_DECIDE = """\
Decide in this order:
1. A memory already says it, if in other words: NOOP with its number.
2. It proves a memory wrong or says that it is over (no longer, quit, sold, gave away): DELETE that memory; if only a
   part of it is over, UPDATE it to what remains.
3. It adds to, details, corrects or replaces what a memory says about the same thing (another dog, a new home or job, a
   plan that has happened): UPDATE that memory. Its new text is complete by itself: all that is still true stays,
   earlier dogs, names and dates included, and a change says from what to what.
4. Otherwise: ADD. Two things that can both be true are two memories (likes turtles; is allergic to turtles).
A memory that is only similar is no reason to touch it. At most one operation for each memory.
"""

_RULES = f"""\
You keep a long-term memory true, complete and free of repetition. Decide what the NEW fact changes in it.
{HOW_TO_DECIDE.strip()}
"""

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

    def __init__(self, instructions: str = "", style: str = "compact") -> None:
        self.style: Style = check_style(style)
        self.schema = operations_schema(with_turn=False) if self.style == "json" else None
        self.system = system_text(_RULES, _FORMATS[self.style], check_instructions(instructions))
        self.version = prompt_version(self.name, VERSION, self.style, self.system, schema_digest(self.schema))

    def render(self, fact: Fact, shown: Sequence[Shown], turns: Sequence[Turn] = ()) -> Prompt:
        """`turns`: where the fact comes from, for facts that do not carry it themselves."""
        fact = _with_source(fact, turns)
        said_by = speaker_label(fact.speaker)
        new = f"NEW fact [{day(fact.at, weekday=True)}]{f' from {said_by}' if said_by else ''}: {quote(fact.text)}"
        kept, _ = fit(CALL_CHARS, len(self.system) + len(new) + 60, shown, ())
        memories = ["Memories:", *(memory_line(one) for one in kept)] if kept else ["Memories: none like it yet."]
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
