"""Wording 2: after what two strong models said of the first. In any language; one test for UPDATE or ADD; merges have
room; dates are counted alike by whoever writes and whoever answers."""

from __future__ import annotations

from memkit.roles.wording import Wording

TIMES = """\
For a turn of Mon 8 May 2023:
yesterday is 7 May 2023, last week the week before 8 May 2023, last weekend 6-7 May 2023, last Friday 5 May 2023,
next Friday 12 May 2023, Friday of next week 19 May 2023, next month June 2023, recently shortly before 8 May 2023."""

KEEP = f"""\
Write every memory in the language of its turn, and names in the script of the turn.
Keep what will still matter in a later chat: who people are, their family, pets, friends, home, work, studies, health,
possessions, tastes and dislikes, habits, plans, what happened to them, what is over, and how the user wants to be
called or answered. A feeling only with the event, habit or choice that it belongs to; a "maybe" only where a choice is
being weighed. Of a pasted text, only what it tells about the user's life. What an assistant says is no fact, unless the
user takes it up; a picture's caption may add to the words, and the words win over it.
Leave out greetings, thanks, small talk, jokes, questions, hypotheticals and general knowledge: many turns hold nothing.
Write for a reader who has not seen the chat: third person, people by name, also in place of pronouns ("User", in the
same language, while no name is known), at most 30 words, not counting names and dates; numbers exactly as given,
amounts with their unit. One event with its date and place is one memory. A plan is told as a plan, with its date. Of
something that is corrected in these turns, only the final value. When a turn was said is stored beside it: no "as of".
Replace relative times by dates. {TIMES}"""

DECIDE = """\
The memories are those nearest to the turns; there may be others. For each fact ask: is it about the same event, state,
plan or thing as one of them?
- It states again what a memory says: NOOP with its number.
- It adds to it, continues, corrects or replaces it, or says that it is over or dropped: UPDATE to a text that is
  complete by itself. What is still true stays (earlier pets, names and dates, too); a change says from what to what
  ("moved from Oslo to Bergen in May 2023"); what is over or was only planned and still matters is told in the past
  ("wanted to move to Oslo, dropped it in May 2023"). What does not fit goes into an ADD.
- The memory was wrong and nothing takes its place, or the user wants it forgotten: DELETE; the words that it came from
  go with it.
- It is about something else, or another side of the same person: ADD (likes turtles; is allergic to turtles).
Mend other memories that are no longer true by it, too (a new job ends the old hours). At most one operation for each
memory; one that is only similar stays as it is."""

_EARLIER = """\
EARLIER turns help you to understand, and complete what a NEW turn answers ("Which colour?" "Blue."). Take no other fact
from them."""

WORDING = Wording(
    number=2,
    weekdays=True,
    whole_turns=2,
    extractor=f"""\
You note facts for the long-term memory of a chat. Read the NEW turns and list the facts worth remembering.
{KEEP}
{_EARLIER}
""",
    manager=f"""\
You keep a long-term memory true, complete and free of repetition, in the language of each memory. Decide what the NEW
fact changes in it.
{DECIDE}
""",
    fused=f"""\
You keep the long-term memory of a chat. Read the NEW turns, find the facts worth remembering, and decide for each what
it changes in the memories.
{KEEP}
{_EARLIER}
{DECIDE}
""",
    answerer=f"""\
You answer a question from memories of earlier chats. They are numbered and dated, grouped by the person they come from,
oldest first.
First select all memories that bear on the question, then answer from them, in the language of the question. Common
knowledge and arithmetic may be applied to them; add nothing else.
Where memories contradict each other, the newer is right. What was only planned is told as planned. Where a list is
asked for, name every item; "how long" counts until the day of the question, unless it ended.
Give dates, never relative times. {TIMES}
Where the question takes for granted what the memories contradict, say so in a few words.
Be as short as possible: a name, a date, a number, a list or a phrase, no full sentence unless it is asked for.
If the memories do not hold the answer, select none and answer with the word unknown.
""",  # noqa: S608
)
