"""A turn → facts, without a model: what somebody surely states about themselves or about somebody they name, in the
third person and dated.

A statement is a fact only if the rules know each part of it: who, a verb in a form they know, and an end that stands
on its own. A garbled fact is worse than none: all else stays in the words of the turn, and the reading says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memkit.backbones._rules_dates import RELATIVE, resolve_dates
from memkit.backbones._rules_ends import MONTH, trim, whole_statement
from memkit.backbones._rules_person import third_person
from memkit.backbones._rules_predicates import (
    CANNOT,
    NOTHING_SAID,
    NOUNS_TOO,
    is_state,
    predicate,
    self_statement,
    verb_of,
)
from memkit.backbones._rules_requests import asks_to_forget, correction, forgetting, standing
from memkit.backbones._rules_said import GREETING, JOKE, QUESTION, REQUEST, UNSURE, clauses, is_taken_back, weightiest
from memkit.backbones._rules_verbs import ATTRIBUTES, HABITS, PAST, PEOPLE, PETS, THIRD, is_about
from memkit.backbones._rules_words import content, phrases, single_line
from memkit.models import Turn
from memkit.text.requests import asks_to_forget as is_request

MAX_FACTS_PER_TURN = 8
_FACT_CHARS = 290

NOT_THE_USER = "not said by a person"
NOTHING_FORGOTTEN = "no memory like it was found to forget"
NOTHING_TO_FORGET = "nothing is named that could be forgotten"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a turn says: facts, requests to forget and corrections; or why there are none."""

    facts: tuple[str, ...] = ()
    reason: str = ""


def read(turn: Turn) -> Reading:
    """Self-contained statements of one turn; nothing from tools, systems and nameless assistants."""
    if turn.role not in ("user", "assistant") or (turn.role == "assistant" and not turn.speaker):
        return Reading(reason=NOT_THE_USER)
    name = single_line(turn.speaker, 40) or "User"
    found: list[str] = []
    reasons: list[str] = []
    known = _Known()
    for clause in clauses(turn.text):
        if is_taken_back(clause.text):
            reasons.append(JOKE)
            del found[-1:]
            continue
        whole = trim(clause.text)
        lead = _LEAD.match(whole)
        said = whole[lead.end() :].strip(" ,:-") if lead else whole
        told = None
        if clause.barred in (QUESTION, ""):
            told = forgetting(said, name) or correction(whole, name)
        if not told and not clause.barred:
            told = standing(said, name) or standing(whole, name) or _fact(said, name, turn, known)
        if not told and not clause.barred and lead and _TOLD_TO_REMEMBER.search(lead[0]):
            told = _as_told(said, name, turn)
        if not clause.barred:
            known.meet(clause.text)
        if not told:
            reasons.append(clause.barred or _why_not(said, clause.text))
        elif told not in found:
            found.append(told)
    if found:
        return Reading(tuple(found[:MAX_FACTS_PER_TURN]))
    return Reading(reason=NOTHING_FORGOTTEN if is_request(turn.text) else weightiest(reasons))


_REQUEST = re.compile(
    "^"
    + phrases(
        r"""(?:can|could|would|will) (?:you|I)/please/tell/give/show/write/help/explain/make/find/list/suggest/recommend
        /translate/summari[sz]e/say/look/check/remind/let's/let me/let us/draft/add/put/change/set/send/do/don't/need
        /remember/note/take/try/I (?:need|want)/book/order/call/create/build/fix/delete/remove/forget/search"""
    )
    + r"\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"^(?:who|whose|what|when|where|why|how|which|do|does|did|is|are|was|were|any)\b", re.IGNORECASE)
_SMALL = re.compile(
    "^"
    + phrases(
        r"""hi+y?a*/hey+/hello+/yo+/thanks?/thank you/thx/ta/ok/okay/k/yes/yeah/yep/no/nope/sure/great/cool/nice/good
        /perfect/awesome/bye+/goodbye/cheers/lol/haha\w*/hm+/wow/see you/take care/happy/congrat\w*/welcome/right/fine/gn
        /I'm (?:so |very |really )?(?:happy|glad|sorry|fine|good|ok|okay|excited|proud|done|back|here|sure)/sorry
        /I (?:agree|see|know|understand|think so|hope so)/morning/sounds good/got it/will do/love it"""
    )
    + r"\b",
    re.IGNORECASE,
)


def _why_not(said: str, whole: str) -> str:
    if asks_to_forget(said):
        return NOTHING_TO_FORGET
    if _ASKS.match(said):
        return QUESTION
    if not said or (_SMALL.match(whole) and len(whole.split()) < 8):
        return GREETING
    return REQUEST if _REQUEST.match(said) else UNSURE


# ---- what leads up to a statement --------------------------------------------------------------------------------

_LEAD = re.compile(
    "^(?:"
    + phrases(
        """hey+/hi+/hiya/hello/oh/ooh/ah/wow/yo/yeah/yes/yep/no/nope/well/okay/ok/k/so/and/but/actually/anyway/honestly
        /also/plus/thanks/thank you/guess what/sure/great/cool/nice/awesome/haha/lol/hmm/hm/um/uh/right/absolutely
        /definitely/totally/update/news/good news/bad news/big news/as I said/like I said/in fact/unfortunately/sadly
        /luckily/fortunately/finally/exactly/true/then/please/good morning/good evening/good afternoon/good day/g'day
        /hold on/wait/because/since/as/given that/considering/you should know(?: that)?/I should (?:say|mention)(?: that)?
        /I must say(?: that)?/just so you know/for your information/in other news/quick note/note to self/one more thing
        /(?:I (?:want|need) you to |can you |could you |please )?(?:remember|note|keep in mind|don't forget)(?: that)?
        /for (?:context|reference)/small correction/correction/about me/ps/p\\.s\\./what else"""
    )
    + r"\b(?: (?:there|everyone|all|again|me again|(?-i:[A-Z][a-z]+)(?=[,!.])))?(?:[,!:.–— -]+|$))+",
    re.IGNORECASE,
)


# ---- the statement -----------------------------------------------------------------------------------------------

_PERSON = "|".join(sorted(one for one in PEOPLE | PETS if not one.endswith("s") or one == "boss"))
_INTRODUCED = re.compile(
    rf"\b(?:named|called|name is|name's) (?P<name>[A-Z][\w'-]*)|\b(?P<mine>(?i:my|our)) (?P<who>(?:{_PERSON})(?:[ -]in[ -]law)?)\b(?!'s)(?: (?P<called>[A-Z][\w'-]+))?"
)


class _Known:
    """Whom a turn has introduced, and who was spoken of last."""

    def __init__(self) -> None:
        self.met: set[str] = set()
        self.last = ""

    def meet(self, text: str) -> None:
        """Who a following he or she stands for: nobody, where two may be meant."""
        met = {one["name"] or one["called"] or f"{one['mine']} {one['who']}" for one in _INTRODUCED.finditer(text)}
        self.met |= met
        if met:
            self.last = met.pop() if len(met) == 1 else ""


def _fact(said: str, name: str, turn: Turn, known: _Known) -> str | None:
    """The clause as a fact, if it states something lasting and nothing else."""
    words = said.split()
    if not 2 <= len(words) <= 60 or len(said) > 2_000 or _SECOND_PERSON.search(said):
        return None
    when, said = _dated(said)
    statement = self_statement(said, soon=bool(when)) or _mine(said) or _named(said, known)
    if statement is None:
        return None
    return _written(f"{when}{statement}", name, turn)


def _written(statement: str, name: str, turn: Turn) -> str | None:
    fact = single_line(resolve_dates(third_person(statement, name), turn.at), _FACT_CHARS)
    if not content(fact):
        return None
    return fact[0].upper() + fact[1:] + ("" if fact.endswith(".") else ".")


_TOLD_TO_REMEMBER = re.compile(r"\b(?:remember|note|keep in mind|don't forget)\b", re.IGNORECASE)


def _as_told(said: str, name: str, turn: Turn) -> str | None:
    """What the user asked to remember, where it is a statement about something: `the wifi password is hunter2`."""
    words = said.split()
    at = next((n for n, word in enumerate(words[:8]) if n > 1 and word.lower() in ("is", "are", "isn't", "aren't")), 0)
    if (
        not at
        or words[0].lower() not in ("the", "my", "our", "every")
        or "I" in words[:at]
        or _SECOND_PERSON.search(said)
    ):
        return None
    statement = whole_statement(" ".join(words[: at + 1]), " ".join(words[at + 1 :]), bare=False)
    return _written(statement, name, turn) if statement else None


_SECOND_PERSON = re.compile(r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd)\b", re.IGNORECASE)
_CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december christmas easter xmas""".split()
)
_DATE_LEAD = re.compile(
    rf"^(?P<when>(?:{RELATIVE.pattern}|(?:in|on|since|every|after|before) (?:{MONTH}\b ?(?:\d{{1,4}}(?:st|nd|rd|th)?)?(?: (?:19|20)\d\d)?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)? {MONTH}(?: (?:19|20)\d\d)?|(?:19|20)\d\d|the (?:summer|winter|spring|autumn|fall|morning|evening|weekend)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|week|morning|evening|night|summer|winter|weekends?)),? )(?=(?:I|we|my|our|I'\w+)\b)",
    re.IGNORECASE,
)


def _dated(said: str) -> tuple[str, str]:
    """`Tomorrow I fly` → (`Tomorrow `, `I fly`)."""
    found = _DATE_LEAD.match(said)
    return (found["when"].replace(",", ""), said[found.end() :]) if found else ("", said)


# ---- my …, and people by name ------------------------------------------------------------------------------------

_OF_MINE = re.compile(r"^(?:my|our) ", re.IGNORECASE)
_SAID_OF_A_VALUE = re.compile(
    r"^(?:(?:so|very|too|really|just|pretty|killing|good|bad|great|ok|okay|fine|gone|full|out|there|here|not|nothing|it|this"
    r"|that|what|how|always|usually|often|sometimes|mostly|never|still|now|almost|ready|done|perfect|terrible|awful|amazing|nice|cool|down|up|over|in (?:ruins|"
    r"shambles)|being|getting|going|coming|broken|dead|lost|safe|to|the (?:same|best|worst|one|only)|a (?:bit|mess|nightmare"
    r"|disaster|joke|little|problem))\b(?! in (?:19|20)\d\d))",
    re.IGNORECASE,
)


_NO_VALUE = re.compile(r"^(?:\w+ing\b|(?:on|in|at) (?:the|my|your|an?)\b)", re.IGNORECASE)


def _mine(said: str) -> str | None:
    """`My sister Maria lives in Rome`: somebody or something of the speaker, by a noun that the rules know."""
    if not _OF_MINE.match(said):
        return None
    words = said.split()
    at = next((n for n, word in enumerate(words[1:7], 1) if _is_verb(word.lower()) and n > 1), 0)
    if not at:
        return None
    noun_phrase = [re.sub(r"'s$", "", word.strip(",").lower()) for word in words[1:at]]
    if not is_about(noun_phrase) or any(word in _NOT_IN_NOUN for word in noun_phrase):
        return None
    verb, rest = words[at].lower(), " ".join(words[at + 1 :])
    lead = " ".join(words[: at + 1])
    if verb in ("is", "are", "was", "were", "isn't", "aren't"):
        return whole_statement(lead, rest, bare=False) if _is_said_of(noun_phrase, rest) else None
    if noun_phrase[-1] in ATTRIBUTES or "favourite" in noun_phrase or "favorite" in noun_phrase:
        return None
    if (verb == "have" or verb in HABITS) and not _is_plural(noun_phrase[-1]):
        return None
    return predicate(lead, verb, rest)


def _is_plural(noun: str) -> bool:
    return noun in ("children", "people", "family") or (noun.endswith("s") and not noun.endswith("ss"))


_NOT_IN_NOUN = frozenset(
    """and or but who that which whose when i of guy with without thing whole last next other one""".split()
)


def _is_verb(word: str) -> bool:
    return (
        word in _COPULAS
        or word in THIRD
        or word in PAST
        or word in CANNOT
        or (word in HABITS and word not in NOUNS_TOO)
    )


_COPULAS = frozenset("is are was were has have had isn't aren't will want wants plans doesn't can't".split())


def _is_said_of(noun_phrase: list[str], rest: str) -> bool:
    value = trim(rest).removeprefix("now ")
    if not value or NOTHING_SAID.match(value):
        return False
    head = noun_phrase[-1]
    if "favourite" in noun_phrase or "favorite" in noun_phrase or head in ATTRIBUTES:
        if head in ATTRIBUTES and (noun_phrase == ["name"] or _NO_VALUE.match(value)):
            return False
        return not _SAID_OF_A_VALUE.match(value) or (head == "goal" and value.startswith("to "))
    if is_state(value):
        return True
    if head in PEOPLE or head in PETS:
        return bool(
            re.match(r"^(?:called|named) \w|^(?:\d{1,3}|[A-Z][\w'-]+)(?: and (?:\d{1,3}|[A-Z][\w'-]+))?$", value)
            or re.match(r"^(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2}$", value)
        )
    return bool(
        re.match(
            rf"^(?:on|in|at) (?:\d|the \d|{MONTH}\b|(?-i:[A-Z])|next)|^(?:next|this) \w+|^(?:\d|called |named )",
            value,
            re.I,
        )
    )


_A_NAME = re.compile(r"^(?P<who>[A-Z][a-z][\w'-]*(?: [A-Z][a-z][\w'-]*)?) (?P<rest>.+)$")
_SOMEBODY = re.compile(r"^(?:he|she)(?P<clitic>'s)? (?P<rest>.+)$", re.IGNORECASE)
_OF_PEOPLE = frozenset(
    "lives works loves likes hates prefers speaks studies lived worked moved adopted married".split()
)
_NOT_NAMES = _CALENDAR | frozenset(
    """it that this there these those they he she you what everything something nothing everyone life time one some being
    really lots still next last the i we my our his her left right all both dad mum mom people anyone nobody most many
    sorry ok also only maybe anyway not never always just here now then so but and or if when while""".split()
)


def _named(said: str, known: _Known) -> str | None:
    """Somebody by name, or the one who was just introduced."""
    last = _SOMEBODY.match(said)
    if last:
        if not known.last:
            return None
        who, rest = known.last, ("is " if last["clitic"] else "") + last["rest"]
    else:
        found = _A_NAME.match(said)
        if found is None or found["who"].split()[0].lower() in _NOT_NAMES:
            return None
        who, rest = found["who"], found["rest"]
        is_mine = re.match(r"(?:is|was) (?:my|our) [\w-]+(?:[ -]in[ -]law)?$", rest)
        if not (is_mine or who.split()[0] in known.met or rest.split()[0] in _OF_PEOPLE):
            return None
    adverbs, verb, more = verb_of(rest)
    if not _is_verb(verb.lower()) or verb.lower() in HABITS:
        return None
    lead = " ".join([who, *adverbs, verb])
    if verb.lower() in ("is", "was", "isn't") and re.match(r"^(?:my|our) (?:\w+ )?(?P<who>[\w-]+)$", more):
        return whole_statement(lead, more, bare=False) if more.split()[-1].lower() in PEOPLE | PETS else None
    return predicate(lead, verb.lower(), more)
