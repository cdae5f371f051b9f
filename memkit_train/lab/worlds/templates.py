"""How the people of the world talk. Data only; `language` says what the sentences mean.

One template serves the first and the third person: `{S}` is "I" or the name, `{P}`/`{p}` "My"/"my" or "Ana's", and
`[live|lives]` picks by person. `{v}` is the value said, `{o}` the value it replaces. `SEEN` templates make up the
closed level and the training side of the open level; `HELD` ones are spoken only by the held-out side of the open one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Templates = Mapping[tuple[str, str], Sequence[str]]
"""(attribute, move) → templates. Moves: state, change, correct, extend, gone, happened."""

SEEN: Templates = {
    ("city", "state"): (
        "{S} [live|lives] in {v}.", "{P} home is in {v}.", "{S} [have|has] a flat in {v}.",
        "{S} [am|is] based in {v}.", "{P} street is in the middle of {v}.",
    ),
    ("city", "change"): (
        "{S} moved to {v}.", "{S} just relocated to {v}.", "{S} left {o} for {v}.",
        "{S} [do|does] not live in {o} any more, it is {v} now.", "{P} new home is in {v}.",
    ),
    ("city", "correct"): (
        "Actually {S} [live|lives] in {v}, not in {o}.", "No, {p} home is in {v}, it never was in {o}.",
    ),
    ("city", "gone"): ("{S} gave up the flat in {v}.", "{S} no longer [live|lives] in {v}.", "{S} left {v} for good."),
    ("city", "happened"): (
        "The move to {v} is done, as planned.", "{S} made it to {v}, just as planned.", "As planned, {S} moved to {v}.",
    ),
    ("job", "state"): (
        "{S} [work|works] as a {v}.", "{P} job is {v}.", "{S} [earn|earns] a living as a {v}.",
        "At work {S} [am|is] a {v}.", "{S} [spend|spends] the week working as a {v}.",
    ),
    ("job", "change"): (
        "{S} started as a {v}.", "{P} new job is {v}.", "{S} stopped being a {o} and became a {v}.",
        "{S} got hired as a {v}.", "{S} switched from {o} to {v}.",
    ),
    ("job", "correct"): ("Actually {S} [work|works] as a {v}, not as a {o}.", "No, {p} job is {v}, it never was {o}."),
    ("job", "gone"): ("{S} lost the job as a {v}.", "{S} no longer [work|works] as a {v}.", "{S} quit being a {v}."),
    ("job", "happened"): (
        "As planned, {S} became a {v}.", "{S} got the job as a {v}, just as planned.",
        "The new job as a {v} is real now, as planned.",
    ),
    ("food", "state"): (
        "{S} [like|likes] {v} most.", "{P} favourite food is {v}.", "{S} [love|loves] eating {v}.",
        "Nothing tastes better to [me|{s}] than {v}.",
    ),
    ("food", "change"): (
        "{P} new favourite food is {v}.", "{S} [prefer|prefers] {v} to {o} now.", "{S} went off {o}, now it is {v}.",
    ),
    ("food", "correct"): (
        "Actually {S} [like|likes] {v} most, not {o}.", "No, {p} favourite food is {v}, it never was {o}.",
    ),
    ("food", "gone"): ("{S} no longer [like|likes] {v}.", "{S} [am|is] tired of {v} for good."),
    ("pets", "state"): (
        "{S} [have|has] {v}.", "{S} [own|owns] {v}.", "{S} [live|lives] with {v}.",
        "{S} [look|looks] after {v} at home.",
    ),
    ("pets", "extend"): (
        "{S} also [have|has] {v}.", "{S} adopted another one: {v}.", "{P} second one is {v}.",
        "There is a new one at home with [me|{s}] too: {v}.",
    ),
    ("pets", "gone"): (
        "{S} gave away {v}.", "{S} no longer [have|has] {v}.", "{S} had to find a new home for {v}.",
        "{S} never had {v}, that was a mix-up.",
    ),
    ("hobbies", "state"): (
        "{S} [enjoy|enjoys] {v}.", "{P} hobby is {v}.", "{S} [do|does] {v} every week.", "{S} [am|is] fond of {v}.",
    ),
    ("hobbies", "extend"): (
        "{S} also [enjoy|enjoys] {v}.", "{S} took up {v} too.", "{P} other hobby is {v}.",
        "On top of that {S} started {v}.",
    ),
    ("hobbies", "gone"): (
        "{S} gave up {v}.", "{S} no longer [enjoy|enjoys] {v}.", "{S} stopped with {v} for good.",
        "{S} never did {v}, that was a mix-up.",
    ),
    ("plan", "state"): ("{S} [plan|plans] to {v}.", "Next year {S} will {v}.", "{S} [intend|intends] to {v} soon."),
    ("plan", "change"): ("{S} now [plan|plans] to {v} instead.", "Forget the old plan, {S} will {v} next year."),
    ("plan", "gone"): ("{S} no longer [plan|plans] to {v}.", "The plan to {v} is off for [me|{s}]."),
    ("sister", "state"): ("{S} [am|is] the sister of {v}.", "{v} is {p} sibling, {S} [am|is] the sister of {v}."),
}  # fmt: skip

HELD: Templates = {
    ("city", "state"): ("{P} address is in {v}.", "You can find [me|{s}] in {v} these days."),
    ("city", "change"): ("{S} packed up and went over to {v}.", "{v} is where {S} [am|is] now, no more {o}."),
    ("city", "correct"): ("That is wrong, {S} [live|lives] in {v} and not in {o}.",),
    ("city", "gone"): ("{S} moved out of {v} without a new place.",),
    ("city", "happened"): ("What was planned came true, {S} [live|lives] in {v}.",),
    ("job", "state"): ("{S} [am|is] employed as a {v}.", "{P} profession is {v}."),
    ("job", "change"): ("{S} left the {o} life behind to be a {v}.", "{S} signed a contract as a {v}."),
    ("job", "correct"): ("That is wrong, {S} [am|is] a {v} and not a {o}.",),
    ("job", "gone"): ("{S} was let go as a {v}.",),
    ("job", "happened"): ("What was planned came true, {S} [work|works] as a {v}.",),
    ("food", "state"): ("{S} could eat {v} every day.",),
    ("food", "change"): ("{v} has replaced {o} as {p} favourite.",),
    ("food", "correct"): ("That is wrong, {p} favourite is {v} and not {o}.",),
    ("food", "gone"): ("{S} cannot stand {v} any more.",),
    ("pets", "state"): ("There is {v} in {p} life.", "{S} [keep|keeps] {v}."),
    ("pets", "extend"): ("{P} little zoo grew by {v}.",),
    ("pets", "gone"): ("{S} said goodbye to {v}.",),
    ("hobbies", "state"): ("{S} [spend|spends] weekends on {v}.",),
    ("hobbies", "extend"): ("{S} added {v} to the list.",),
    ("hobbies", "gone"): ("{S} dropped {v}.",),
    ("plan", "state"): ("{S} [am|is] going to {v} in spring.",),
    ("plan", "change"): ("There is another plan: {S} will {v}.",),
    ("plan", "gone"): ("{S} will not {v} after all.",),
    ("sister", "state"): ("{v} calls [me|{s}] sister, {S} [am|is] the sister of {v}.",),
}

SOFT: Mapping[str, Sequence[tuple[str, str]]] = {
    "city": (
        ("{S} visited {v} last week.", "{s} visited {v}."),
        ("Imagine {S} lived in {v}!", "{s} imagined living in {v}."),
        ("Haha, {S} will live in {v} when pigs fly.", "{s} joked about living in {v}."),
    ),
    "job": (
        ("If {S} worked as a {v}, life would be easy.", "{s} imagined working as a {v}."),
        ("Haha, {S} would make a fine {v}, just kidding.", "{s} joked about working as a {v}."),
    ),
    "food": (("{S} had {v} for lunch.", "{s} ate {v}."), ("{S} cooked {v} for guests yesterday.", "{s} cooked {v}.")),
    "pets": (
        ("{S} met {v} in the park.", "{s} met {v}."),
        ("If {S} had {v}, the sofa would suffer.", "{s} imagined having {v}."),
    ),
    "hobbies": (
        ("{S} watched people doing {v}.", "{s} watched {v}."),
        ("Haha, {S} and {v}, just kidding.", "{s} joked about {v}."),
    ),
}
"""Statements that must not be stored: (what is said, the fact an eager extractor makes of it)."""

SOFT_HELD: Mapping[str, Sequence[tuple[str, str]]] = {
    "city": (("{S} flew over {v} the other day.", "{s} visited {v}."),),
    "job": (("{S} dreamt of being a {v}.", "{s} imagined working as a {v}."),),
    "food": (("{S} tried {v} at a party.", "{s} ate {v}."),),
    "pets": (("{S} petted {v} at the fair.", "{s} met {v}."),),
    "hobbies": (("{S} read a book about {v}.", "{s} watched {v}."),),
}

SMALLTALK: Sequence[str] = (
    "How are you today?",
    "The weather is lovely.",
    "That sounds good.",
    "What a long day.",
    "Thanks for asking!",
    "Good morning!",
    "See you soon.",
    "Tell me more.",
    "I slept well.",
    "The bus was late again.",
    "Let us talk about something else.",
    "Have a nice evening.",
    "That made me laugh.",
    "I am a bit tired.",
)

SMALLTALK_HELD: Sequence[str] = (
    "It rained all morning.",
    "You always know what to say.",
    "Time flies.",
    "So much noise here.",
)

OPENERS: Sequence[str] = ("", "", "", "By the way, ", "Guess what: ", "You know, ")
OPENERS_HELD: Sequence[str] = ("", "Little update: ", "Did I mention? ")

QUESTIONS: Mapping[str, Sequence[str]] = {
    "city": ("Where does {s} live?", "Which city does {s} live in?"),
    "job": ("What does {s} work as?", "Which job does {s} have?"),
    "food": ("What does {s} like to eat most?", "Which food does {s} like?"),
    "pets": ("Which pets does {s} have?", "What pets does {s} have at home?"),
    "hobbies": ("What does {s} enjoy doing?", "Which hobbies does {s} enjoy?"),
    "plan": ("What does {s} plan to do?", "Which plans does {s} have?"),
    "sister": ("Who is {s} the sister of?",),
    "count:pets": ("How many pets does {s} have?",),
    "count:hobbies": ("How many hobbies does {s} enjoy?",),
    "owner": ("Who has {v}?",),
    "asof:city": ("Where did {s} live on {d}?",),
    "asof:job": ("What did {s} work as on {d}?",),
    "asof:food": ("Which food did {s} like on {d}?",),
    "hop:city": ("Where does the person who has {v} live?",),
    "hop:job": ("What does the person who has {v} work as?",),
    "hop:food": ("Which food does the person who has {v} like?",),
}

QUESTIONS_HELD: Mapping[str, Sequence[str]] = {
    "city": ("In what city is the home of {s}?",),
    "job": ("How does {s} earn a living?",),
    "food": ("What is the favourite food of {s}?",),
    "pets": ("What animals live with {s}?",),
    "hobbies": ("How does {s} spend free time?",),
    "plan": ("What is {s} up to next year?",),
    "sister": ("Whose sister is {s}?",),
}
