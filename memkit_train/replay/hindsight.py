"""Which fact an operation was about, where one call said both: nobody wrote the fact down, so it is told afterwards.

    ADD       what was added
    UPDATE    what was written, where it takes the place of the memory; where it only adds to it, the sentence that
              says so: an extractor does not see the memory, and must not learn to write what stands there
    NOOP      what the memory says, where the turn says it all; else the sentence
    DELETE    nothing of its own where the same turn brings something new; else the sentence

The first that brings the memory into the manager's sight counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memkit.models import MemoryRecord, OpDraft, Turn
from memkit.roles.facts import FACT_CHARS
from memkit.roles.reading import Notes, clean_text
from memkit.text.passages import sentences
from memkit.text.words import terms

Option = str | int
"""A fact of its own; or the place of the operation whose fact it goes with."""


def list_facts(
    drafts: Sequence[OpDraft], turns: Sequence[Turn], known: Mapping[str, MemoryRecord]
) -> list[list[Option]]:
    """For each operation what its fact may have been, the likeliest first. `known`: what the call was shown."""
    said = {turn.turn_id: turn for turn in turns}
    return [_options(place, drafts, said, known) for place in range(len(drafts))]


def _options(
    place: int, drafts: Sequence[OpDraft], said: Mapping[str, Turn], known: Mapping[str, MemoryRecord]
) -> list[Option]:
    draft = drafts[place]
    turn = said.get(draft.source_turns[-1] if draft.source_turns else "")
    target, text = known.get(draft.memory_id or ""), draft.text or ""
    own = _sentence(turn, text or (target.text if target else "")) if turn is not None else ""
    options: list[Option]
    match draft.action:
        case "add":
            options = [text, own]
        case "update":
            options = [own, text] if target is not None and _only_adds(target.text, text) else [text, own]
        case "noop":
            known_already = target.text if target is not None else ""
            options = [known_already, own] if _says_all(turn, target) else [own, known_already]
        case _:
            whole = turn.text if turn is not None else ""
            options = [*_beside(draft, drafts), own, whole]
    out: list[Option] = []
    for one in options:
        option = _fitting(one) if isinstance(one, str) else one
        if option != "" and option not in out:
            out.append(option)
    return out


def _beside(draft: OpDraft, drafts: Sequence[OpDraft]) -> list[int]:
    """The only operation of the same turn that writes something."""
    writing = [
        place
        for place, one in enumerate(drafts)
        if one.action in ("add", "update") and one.source_turns == draft.source_turns
    ]
    return writing if len(writing) == 1 else []


def _sentence(turn: Turn, about: str) -> str:
    """The sentence of the turn that is nearest to a text, the last of equals."""
    wanted, found = set(terms(about)), sentences(turn.text)
    if not found:
        return ""
    return max(enumerate(found), key=lambda one: (len(wanted.intersection(terms(one[1]))), one[0]))[1]


def _only_adds(before: str, after: str) -> bool:
    return set(terms(before)) <= set(terms(after))


def _says_all(turn: Turn | None, target: MemoryRecord | None) -> bool:
    if turn is None or target is None:
        return False
    return set(terms(target.text)) <= set(terms(f"{turn.speaker} {turn.text}"))


def _fitting(text: str) -> str:
    """On one line, as long as an extractor may write."""
    return clean_text(text, Notes())[:FACT_CHARS].strip()
