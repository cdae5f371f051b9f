"""Extractor: turns → self-contained, dated, third-person facts, each with the turn that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from memkit.models import Turn
from memkit.roles.base import ChatMessage, Fact, Parsed, Prompt, Style, View
from memkit.roles.facts import FACT_SHAPE, FACTS_SCHEMA, facts_grammar, to_facts
from memkit.roles.layout import fit, turn_line, without_recalled
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
Reply with one line per fact, the number of its turn first, or NONE when there is nothing to keep. Example:
1 Ana adopted a dog named Buddy on 7 May 2023.
2 Ben plans to move to Oslo in June 2023.""",
    "json": """\
Reply with JSON only; an empty list when there is nothing to keep. Example:
{"facts": [{"turn": 1, "fact": "Ana adopted a dog named Buddy on 7 May 2023."}]}""",
}


class Extractor:
    name: Literal["extractor"] = "extractor"

    def __init__(self, instructions: str = "", style: str = "compact", wording: int = FIRST) -> None:
        self.wording = check_wording(wording)
        self.style: Style = check_style(style)
        self.schema = FACTS_SCHEMA if self.style == "json" else None
        self.system = system_text(self.wording.extractor, _FORMATS[self.style], check_instructions(instructions))
        self.version = prompt_version(self.name, self.wording, self.style, self.system, schema_digest(self.schema))

    def render(self, turns: Sequence[Turn], context_turns: Sequence[Turn] = ()) -> Prompt:
        new = without_recalled(turns)
        lines = ["NEW turns:", *(turn_line(number, turn) for number, turn in enumerate(new, start=1))]
        used = len(self.system) + sum(len(line) + 1 for line in lines) + 40
        _, earlier = fit(self.wording, CALL_CHARS, used, (), context_turns)
        if earlier:
            lines = ["EARLIER turns:", *earlier, "", *lines]
        most = min(20, 3 * len(new) + 3)
        return Prompt(
            role=self.name,
            style=self.style,
            version=self.version,
            messages=(ChatMessage("system", self.system), ChatMessage("user", "\n".join(lines))),
            grammar=facts_grammar(len(new), most) if self.style == "compact" else None,
            schema=self.schema,
            max_tokens=min(1_024, 128 + 64 * most),
            view=View(turns=new),
        )

    def parse(self, reply: str, prompt: Prompt, *, cut: bool = False) -> Parsed[list[Fact]]:
        """Facts, or `BadReply`. `cut`: generation stopped at its length limit, so the last item may be a stump."""
        notes = Notes()
        items = read_items(reply, prompt.grammar, FACT_SHAPE, notes, cut)
        facts = to_facts(items, prompt.view.turns, notes)
        return Parsed(facts, tuple(notes.repairs))
