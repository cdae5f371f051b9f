"""What a person asks of the memory or of the assistant, once and for all: how to be called and answered, what to
forget, what was meant instead."""

from __future__ import annotations

import re

from memkit.backbones._rules_person import third_person
from memkit.text.requests import asks_to_forget as is_request

_FORGET = "asks to forget"
_MEANT = "corrects"

_ASKING = (
    r"(?:(?:please|just|also|and|I meant|can you|could you|you can|I want you to|I'd like you to|now|ok|okay) ){0,3}"
)
_FROM_MEMORY = r"(?: (?:from|in|out of) (?:(?:your|the|my|our) )?(?:memory|memories|notes|records?|storage)\b)"
_ALL_OF = (
    r"(?:(?:everything|all|anything|what) (?:(?:that )?(?:you (?:know|remember)|I (?:said|told you|mentioned)) )?about "
    r"|(?:that|the|this) (?:thing|stuff|bit|story) (?:about|with) )"
)
_FORGET_THIS = re.compile(
    rf"^{_ASKING}(?:forget (?:about |that |the fact that |{_ALL_OF})?|(?:delete|erase|remove|wipe|clear) {_ALL_OF})"
    rf"(?P<what>.{{2,300}}?){_FROM_MEMORY}?$",
    re.IGNORECASE,
)
_DELETE_THIS = re.compile(
    rf"^{_ASKING}(?:delete|erase|remove|drop|wipe|clear|forget) (?:that |the fact that |{_ALL_OF})?"
    rf"(?P<what>.{{2,300}}?){_FROM_MEMORY}",
    re.IGNORECASE,
)
_DELETE_MINE = re.compile(rf"^{_ASKING}(?:delete|erase|remove|wipe|clear) (?P<what>my .{{2,60}})$", re.IGNORECASE)
_POLITE = re.compile(r"(?:,? (?:please|pls|thanks|thank you|now|ok|okay))+$", re.IGNORECASE)
_STOP_REMEMBERING = re.compile(
    rf"^{_ASKING}(?:stop remembering|don't remember|do not remember|don't keep|no longer remember)"
    r" (?:that |the fact that )?(?P<what>.{2,300})$",
    re.IGNORECASE,
)
_NOTHING_NAMED = re.compile(
    r"^(?:(?:it|that|this)(?:,.*)?|them|everything|all(?: of it| that)?|me|to\b.*|how\b.*|what\b.*|about it|about that|the rest"
    r"|my (?:last|previous) (?:message|question)|the (?:last|previous|above)\b.*)$",
    re.IGNORECASE,
)

_CALLED = re.compile(
    rf"^{_ASKING}(?:(?:everyone|everybody|people|friends|my friends|they all) calls? me|call me|you can call me)"
    r" (?P<name>[\w'-]{2,30}(?: [A-Z][\w'-]{1,30}){0,2})(?: (?:from now on|instead|please|though|by the way))?(?P<more>,.*)?$",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"^(?:my name(?:'s|s| is)(?: actually)?|the name's|I go by)"
    r" (?P<name>[\w'-]{2,30}(?: [A-Z][\w'-]{1,30}){0,2})(?P<more>(?:,| but\b| and\b).*)?$",
    re.IGNORECASE,
)
_NOT_NAMES = frozenset(
    """later back maybe tomorrow crazy when if at on asap now tonight stupid weird lazy paranoid old-fashioned old
    names today again soon first before after once anytime whenever sometime out dumb picky boring mad silly
    nuts cynical naive skeptical sceptical romantic sentimental spoiled selfish dramatic hopeless biased that
    this it a an the by not sir-like ishmael what whatever anything never always monday tuesday wednesday
    thursday friday saturday sunday""".split()
)

_NAMES_OF_LANGUAGES = """English French German Spanish Italian Portuguese Dutch Swedish Norwegian Danish Finnish Polish Czech
    Hungarian Romanian Greek Turkish Russian Ukrainian Arabic Hebrew Hindi Bengali Urdu Tamil Chinese Mandarin
    Cantonese Japanese Korean Vietnamese Thai Indonesian Malay Tagalog Filipino Swahili Catalan Latin
    Esperanto"""
_LANGUAGES = {name.casefold(): name for name in _NAMES_OF_LANGUAGES.split()}
_LANGUAGE = "(?P<language>" + "|".join(_LANGUAGES) + ")"
_EVER = r"(?: (?:from now on|always|in (?:the )?future|every time|only|please|going forward)){0,2}"
_IN_LANGUAGE = re.compile(
    rf"^(?:(?:from now on|please|always|can you|could you|just|only) ){{0,4}}(?:answer|reply|respond|write|speak|talk)"
    rf"(?: to)?(?: me)?(?: back)? (?:only )?(?:in )?{_LANGUAGE}{_EVER}$",
    re.IGNORECASE,
)
_STANDING = re.compile(r"\b(?:from now on|always|never|in (?:the )?future|every time|going forward|ever)\b", re.I)
_KEEP = re.compile(
    r"^(?:please )?keep (?:your |the |all )?(?:answers?|replies|responses?|it|things)"
    r" (?P<how>short|brief|concise|simple|long|detailed|formal|informal|casual|to the point)(?: please)?$",
    re.IGNORECASE,
)
_WITHOUT = re.compile(
    r"^(?:(?:please|and|also) )?(?:(?:do not|don't|stop|never|don't ever|no more)(?: (?:use|using|send|sending|add"
    r"|adding|write|writing))?|no|without)"
    r" (?P<what>emojis?|emoticons|exclamation marks|bullet ?points|markdown|jargon|slang|small talk|tables|pep talks?)"
    r"(?: (?:please|ever|from now on|in your (?:answers|replies)))?$",
    re.IGNORECASE,
)
_INSTRUCTED = re.compile(
    r"^(?:please )?(?:from now on,? )?(?:please )?(?P<how>always|never|don't ever)"
    r" (?P<rest>(?:answer|reply|respond|write|speak|talk|use|call me|address me|give(?! up| in)|show|list|include|add|start|end|begin|explain"
    r"|ask|cite|format|round|convert|quote|mention|suggest|recommend|spell|assume|send|double-check|say|be) .{2,160})$",
    re.IGNORECASE,
)
_FROM_NOW = re.compile(
    r"^(?:please )?from now on,? (?:please )?(?P<rest>(?:answer|reply|respond|write|use|give me|show me|include|add|explain|cite"
    r"|format|round|convert|assume|be) .{2,160})$",
    re.IGNORECASE,
)
_FROM_NOW_ON = re.compile(
    r"^(?:please )?(?P<rest>(?:answer|reply|respond|write|use|give|show|include|add|explain|cite|format|round|convert|be) .{2,160}?),? from now on$",
    re.IGNORECASE,
)
_NOT_CALLED = re.compile(
    r"^(?:please )?(?:don't|do not|stop) call(?:ing)? me (?P<name>[\w'-]{2,30})(?: please)?(?P<more>,.*)?$",
    re.IGNORECASE,
)
_MEANT_THIS = re.compile(
    r"^(?:(?:no|nope|sorry|oops|wait|actually|ah|oh|argh|ugh|I),? ){0,4}(?:I (?:actually )?meant|meant|I mean(?=,? [A-Z\d])"
    r"|I meant to (?:say|write|type))(?: to say)?,? (?P<new>[\w'’.:-]{1,40}(?: [\w'’.:-]{1,40}){0,3}?)"
    r"(?:,? (?:not|instead of|rather than) (?P<old>[\w'’.:-]{1,40}(?: [\w'’.:-]{1,40}){0,3}))?$",
    re.IGNORECASE,
)
_TYPO = re.compile(r"^\*(?P<new>[A-Z\d][\w'’.-]{1,40})\*?$")


def standing(clause: str, name: str) -> str | None:
    """How to be called and answered, as a fact about the speaker."""
    called = _CALLED.match(clause)
    if called and _is_name(called):
        return f"{name} wants to be called {_titled(called['name'])}."
    named = _NAMED.match(clause)
    if named and _is_name(named):
        return f"{name}'s name is {_titled(named['name'])}."
    tongue = _IN_LANGUAGE.match(clause)
    if tongue and (_STANDING.search(clause) or clause.lower().startswith("please")):
        return f"{name} wants answers in {_LANGUAGES[tongue['language'].casefold()]}."
    kept = _KEEP.match(clause)
    if kept:
        how = kept["how"].lower()
        return (
            f"{name} wants answers that are to the point." if how == "to the point" else f"{name} wants {how} answers."
        )
    without = _WITHOUT.match(clause)
    if without:
        return f"{name} wants no {without['what'].lower()} in answers."
    unwanted = _NOT_CALLED.match(clause)
    if unwanted and _is_name(unwanted):
        return f"{name} does not want to be called {unwanted['name']}."
    told = _INSTRUCTED.match(clause) or _FROM_NOW.match(clause) or _FROM_NOW_ON.match(clause)
    if told and not re.search(r"\b(?:it|that|this|them|these|those)$", told["rest"], re.IGNORECASE):
        how = {"always": "always ", "never": "never ", "don't ever": "never "}[
            told.groupdict().get("how", "always").lower()
        ]
        rest = re.sub(r"\byour\b", "its", told["rest"], flags=re.IGNORECASE)
        rest = re.sub(r" (?:please|from now on)$", "", rest, flags=re.IGNORECASE)
        rest = rest[0].lower() + rest[1:]
        return f"{name} wants the assistant to {how}{_they(rest)}."
    return None


def _they(rest: str) -> str:
    words = {
        "i": "they",
        "me": "them",
        "my": "their",
        "mine": "theirs",
        "i'm": "they are",
        "we": "they",
        "us": "them",
        "our": "their",
    }
    return " ".join(words.get(word.lower(), word) for word in rest.split())


def _is_name(found: re.Match[str]) -> bool:
    """Also before a comma, where it is written as one: not `call me naive, but …`."""
    text = found["name"]
    if found["more"] and not text[0].isupper():
        return False
    return text.split()[0].casefold() not in _NOT_NAMES and not any(char.isdigit() for char in text)


def _titled(name: str) -> str:
    return name if name != name.lower() else name.title()


# ---- to forget, and what was meant -------------------------------------------------------------------------------


def forgetting(clause: str, name: str) -> str | None:
    """The request as a line for the manager: nothing that is ever stored."""
    clause = _POLITE.sub("", clause)
    found = _DELETE_THIS.match(clause) or _FORGET_THIS.match(clause) or _STOP_REMEMBERING.match(clause)
    if found is None and is_request(clause):
        found = _DELETE_MINE.match(clause)
    if found is None or _NOTHING_NAMED.match(found["what"].strip()):
        return None
    return f"{name} {_FORGET}: {third_person(found['what'].strip(), name)}."


def forgetting_words(what: str, name: str) -> str:
    """The same of words in any language, as they were said."""
    return f"{name} {_FORGET}: {what}."


def asks_to_forget(clause: str) -> bool:
    """Also where nothing is named that could be forgotten."""
    return bool(re.match(rf"{_ASKING}forget\b", clause, re.IGNORECASE))


def to_forget(fact: str) -> str | None:
    return _after(fact, _FORGET)


def correction(clause: str, name: str) -> str | None:
    """`no, I meant Bergen` as a line for the manager: nothing that is ever stored."""
    found = _MEANT_THIS.match(clause) or _TYPO.match(clause)
    if (
        found is None
        or asks_to_forget(found["new"])
        or found["new"].casefold() in ("it", "that", "this", "to", "well", "no harm", "what", "business")
    ):
        return None
    old = found.groupdict().get("old")
    return f"{name} {_MEANT}: {found['new']}{f', not {old}' if old else ''}."


def meant(fact: str) -> tuple[str, str] | None:
    """(new, old) of a correction; old is "" where it was not named."""
    told = _after(fact, _MEANT)
    if told is None:
        return None
    new, _, old = told.partition(", not ")
    return new, old


def _after(fact: str, verb: str) -> str | None:
    _, found, rest = fact.partition(f" {verb}: ")
    return rest.rstrip(".") if found else None
