"""Wording 3: after talks that a strong model managed in the second. A memory has the words that one asks with; two that
tell the same become one; the exchange before is shown however many memories there are."""

from __future__ import annotations

from dataclasses import replace

from memkit.roles.wording_2 import DECIDE, KEEP, TIMES
from memkit.roles.wording_2 import WORDING as WORDING_2

_KEEP = f"""\
Write every memory in the language of its turn, and names in the script of the turn.
Keep what will still matter in a later chat: who people are, their family, pets, friends, home, work, studies, health,
possessions, tastes and dislikes, habits, plans, what happened to them, what is over, and how the user wants to be
called or answered. A feeling or a "maybe" only with the event or choice that it belongs to. Of a pasted text, only what
it tells about the user's life. What an assistant says is no fact, unless the user takes it up; a picture's caption adds
to the words, which win over it.
Leave out small talk, jokes, questions, hypotheticals and general knowledge: many turns hold nothing.
Write for a reader who has not seen the chat: third person, people by name, also in place of pronouns (while no name is
known, the word for "user" in that language), at most 30 words, not counting names and dates; numbers exactly as given,
amounts with their unit. Use the words in which it will be asked for: of "it's all Go now", "programming language at
work: Go"; of a found flat, "lives in Oslo". One event with its date and place is one memory; a plan is told as a plan.
Of something that is corrected in these turns, only the final value. No "as of": when a turn was said is stored beside
it.
Replace relative times by dates. {TIMES}"""

_DECIDE = """\
For each fact ask: is it about the same event, state, plan or thing as a memory?
- It states again what one says: NOOP with its number.
- It adds to it, continues, corrects or replaces it, or says that it is over or dropped: UPDATE to a text that is
  complete by itself. What is still true stays, earlier names and dates, too; a change says from what to what; what is
  over or was only planned is told in the past ("wanted to move to Oslo, dropped it in May 2023"). What does not fit
  goes into an ADD.
- Two memories tell the same: UPDATE one to what both say, DELETE the other.
- It was wrong and nothing takes its place, or the user wants it forgotten: DELETE, and the words that it came from go.
- It is about something else, or another side of the same person: ADD (likes turtles; is allergic to turtles).
Mend other memories that are no longer true by it, too (a new job ends the old hours). At most one operation for each
memory; one that is only similar stays as it is."""


def _told(text: str) -> str:
    return text.replace(KEEP, _KEEP).replace(DECIDE, _DECIDE)


WORDING = replace(
    WORDING_2,
    number=3,
    kept_turns=2,
    extractor=_told(WORDING_2.extractor),
    manager=_told(WORDING_2.manager),
    fused=_told(WORDING_2.fused),
)
