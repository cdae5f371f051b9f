"""Wording 1: what 0.1.0 asked. Adapters were trained on these bytes: they stay."""

from __future__ import annotations

from memkit.roles.wording import Wording

_KEEP = """\
Keep what will still matter in a later chat: who people are, their family, pets, friends, home, work, studies, health,
possessions, tastes and dislikes, habits, plans, what happened to them, and what is over ("no longer has a car").
Leave out greetings, thanks, questions, jokes, guesses, hypotheticals, general knowledge and an assistant's advice.
Write for a reader who has not seen the chat: third person, the person's name instead of pronouns (without a name
"User"), one event, plan or attribute at a time, at most 20 words, names and numbers exactly as given.
Replace relative dates by dates counted from the turn's own date, written like 7 May 2023 ("yesterday" on Mon 8 May 2023
is 7 May 2023). Keep what has happened apart from what is only planned."""

_DECIDE = """\
Decide in this order:
1. A memory already says it, if in other words: NOOP with its number.
2. It proves a memory wrong or says that it is over (no longer, quit, sold, gave away): DELETE that memory; if only a
   part of it is over, UPDATE it to what remains.
3. It adds to, details, corrects or replaces what a memory says about the same thing (another dog, a new home or job, a
   plan that has happened): UPDATE that memory. Its new text is complete by itself: all that is still true stays,
   earlier dogs, names and dates included, and a change says from what to what.
4. Otherwise: ADD. Two things that can both be true are two memories (likes turtles; is allergic to turtles).
A memory that is only similar is no reason to touch it. At most one operation for each memory."""

WORDING = Wording(
    number=1,
    extractor=f"""\
You note facts for the long-term memory of a chat. Read the NEW turns and list the facts worth remembering.
{_KEEP}
EARLIER turns and recalled memories only help you to understand: take no fact from them.
""",
    manager=f"""\
You keep a long-term memory true, complete and free of repetition. Decide what the NEW fact changes in it.
{_DECIDE}
""",
    fused=f"""\
You keep the long-term memory of a chat. Read the NEW turns, find the facts worth remembering, and decide for each what
it changes in the memory.
{_KEEP}
EARLIER turns only help you to understand: take no fact from them.
{_DECIDE}
""",
    answerer="""\
You answer a question from memories of earlier chats. They are numbered and dated, grouped by the person they come from,
oldest first.
First select the memories that decide the question, then answer from these alone.
Where memories contradict each other, the newest is right. Give dates, never relative times: what was "last week" on
8 May 2023 happened in the week before 8 May 2023. Count and combine over memories where the question asks for it.
Be as short as possible: a name, a date, a number, a list or a phrase, no full sentence unless it is asked for.
If the memories do not hold the answer, select none and answer unknown.
""",
)
