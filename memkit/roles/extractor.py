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
    check_instructions,
    check_style,
    prompt_version,
    schema_digest,
    system_text,
)
from memkit.roles.reading import Notes, read_items

VERSION = 1

WHAT_TO_KEEP = """\
Keep what will still matter in a later chat: who people are, their family, pets, friends, home, work, studies, health,
possessions, tastes and dislikes, habits, plans, what happened to them, and what is over ("no longer has a car").
Leave out greetings, thanks, questions, jokes, guesses, hypotheticals, general knowledge and an assistant's advice.
Write for a reader who has not seen the chat: third person, the person's name instead of pronouns (without a name
"User"), one event, plan or attribute at a time, at most 20 words, names and numbers exactly as given.
Replace relative dates by dates counted from the turn's own date, written like 7 May 2023 ("yesterday" on Mon 8 May 2023
is 7 May 2023). Keep what has happened apart from what is only planned.
"""

_RULES = f"""\
You note facts for the long-term memory of a chat. Read the NEW turns and list the facts worth remembering.
{WHAT_TO_KEEP.strip()}
EARLIER turns and recalled memories only help you to understand: take no fact from them.
"""

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

    def __init__(self, instructions: str = "", style: str = "compact") -> None:
        self.style: Style = check_style(style)
        self.schema = FACTS_SCHEMA if self.style == "json" else None
        self.system = system_text(_RULES, _FORMATS[self.style], check_instructions(instructions))
        self.version = prompt_version(self.name, VERSION, self.style, self.system, schema_digest(self.schema))

    def render(self, turns: Sequence[Turn], context_turns: Sequence[Turn] = ()) -> Prompt:
        new = without_recalled(turns)
        lines = ["NEW turns:", *(turn_line(number, turn) for number, turn in enumerate(new, start=1))]
        used = len(self.system) + sum(len(line) + 1 for line in lines) + 40
        _, earlier = fit(CALL_CHARS, used, (), context_turns)
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
