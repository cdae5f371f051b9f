"""A turn → facts, without a model: what somebody surely states about themselves or about somebody they name, in the
third person and dated.

A statement is a fact only if the rules know each part of it: who, a verb in a form they know, and an end that stands
on its own. A garbled fact is worse than none: all else stays in the words of the turn, and the reading says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memkit.backbones._rules_dates import RELATIVE, resolve_dates
from memkit.backbones._rules_person import third_person
from memkit.backbones._rules_requests import asks_to_forget, correction, forgetting, standing
from memkit.backbones._rules_said import (
    GREETING,
    JOKE,
    QUESTION,
    REQUEST,
    UNSURE,
    clauses,
    is_reported,
    is_taken_back,
    weightiest,
)  # fmt: skip
from memkit.backbones._rules_verbs import (
    ATTRIBUTES,
    BASES,
    HABITS,
    ING,
    LASTING_ING,
    PARTICIPLE,
    PAST,
    PEOPLE,
    PETS,
    PLANS,
    STATES,
    THINGS,
    THIRD,
    is_about,
)  # fmt: skip
from memkit.backbones._rules_words import content, phrases, single_line
from memkit.models import Turn

MAX_FACTS_PER_TURN = 8
_FACT_CHARS = 290
_MOST_WORDS = 34

NOT_THE_USER = "not said by a person"
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
    known = _Known(turn.text[:_NAMES_WITHIN])
    for clause in clauses(turn.text):
        if is_taken_back(clause.text):
            reasons.append(JOKE)
            del found[-1:]
            continue
        whole = _trimmed(clause.text)
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
    return Reading(reason=weightiest(reasons))


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

_NAMES_WITHIN = 4_000
_NAME = re.compile(r"(?<=[a-z,] )([A-Z][a-z'’-]+)")
_PERSON = "|".join(sorted(PEOPLE | PETS))
_INTRODUCED = re.compile(
    rf"\b(?:named|called|name is|name's) (?P<name>[A-Z][\w'-]*)|\b(?P<mine>my|our) (?P<who>(?:{_PERSON})(?:[ -]in[ -]law)?)\b(?!'s)(?: (?P<called>[A-Z][\w'-]+))?"
)


class _Known:
    """The names of a turn, and who was spoken of last."""

    def __init__(self, text: str) -> None:
        self.names = {name for name in _NAME.findall(text) if name.lower() not in _CALENDAR}
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
    said = re.sub(r"^me and (?=my |our )", "I and ", said, flags=re.IGNORECASE)
    when, said = _dated(said)
    statement = _self(said, soon=bool(when)) or _mine(said) or _named(said, known)
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
    statement = _whole(" ".join(words[: at + 1]), " ".join(words[at + 1 :]), bare=False)
    return _written(statement, name, turn) if statement else None


_SECOND_PERSON = re.compile(r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd)\b", re.IGNORECASE)
_CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december christmas easter xmas""".split()  # noqa: SIM905
)
_MONTH = "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
_DATE_LEAD = re.compile(
    rf"^(?P<when>(?:{RELATIVE.pattern}|(?:in|on|since|every|after|before) (?:{_MONTH}\b ?(?:\d{{1,4}}(?:st|nd|rd|th)?)?(?: (?:19|20)\d\d)?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}(?: (?:19|20)\d\d)?|(?:19|20)\d\d|the (?:summer|winter|spring|autumn|fall|morning|evening|weekend)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|week|morning|evening|night|summer|winter|weekends?)),? )(?=(?:I|we|my|our|I'\w+)\b)",
    re.IGNORECASE,
)


def _dated(said: str) -> tuple[str, str]:
    """`Tomorrow I fly` → (`Tomorrow `, `I fly`)."""
    found = _DATE_LEAD.match(said)
    return (found["when"].replace(",", ""), said[found.end() :]) if found else ("", said)


_ADVERB = frozenset(
    """really also just always still now usually often sometimes recently finally already actually currently only truly
    absolutely totally definitely mostly rarely especially even both once eventually officially typically generally
    mainly never not no longer super kinda literally legit deathly severely highly badly very strictly fully newly
    happily originally secretly deeply pretty quite newly soon actually rather""".split()  # noqa: SIM905
)
_EMPTY = frozenset("just even actually simply literally kinda legit honestly".split())  # noqa: SIM905
_SELF = re.compile(r"^(?:I|we)(?:'(?P<clitic>m|ve|re|ll|d))?(?: |$)(?P<rest>.*)$", re.IGNORECASE)
_PAIR = re.compile(r"^(?:I|we) and my (?P<who>[a-z-]+)(?: [A-Z][\w'-]+)? (?P<verb>[a-z]+)\b", re.IGNORECASE)


def _self(said: str, *, soon: bool) -> str | None:
    """A statement that begins with I or we."""
    pair = _PAIR.match(said)
    if pair and pair["who"].lower() in PEOPLE:
        verb = pair["verb"].lower()
        rest = said[pair.end() :].strip()
        if verb in ("have", "are") or verb in HABITS or verb in PAST:
            return _whole(said[: pair.end()], rest, bare=False) if verb != "are" or _is_state(rest) else None
        return None
    found = _SELF.match(said)
    if found is None:
        return None
    auxiliary = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would", None: ""}[
        found["clitic"].lower() if found["clitic"] else None
    ]
    start = said[: found.start("rest")].strip()
    adverbs, verb, rest = _verb_of(found["rest"])
    adverbs = [adverb for adverb in adverbs if adverb.lower() not in _EMPTY]
    lead = " ".join([start, *adverbs, verb]).strip() if verb else start
    if auxiliary:
        lead, verb, rest = " ".join([start, *adverbs]), auxiliary, f"{verb} {rest}".strip()
    return _predicate(lead, verb.lower(), rest, plain=bool(auxiliary), soon=soon)


def _verb_of(text: str) -> tuple[list[str], str, str]:
    """(adverbs, verb, what follows)."""
    words = text.split()
    count = 0
    while count < len(words) - 1 and (words[count].lower() in _ADVERB or _is_ly(words[count])):
        count += 1
    return words[:count], words[count] if words else "", " ".join(words[count + 1 :])


def _is_ly(word: str) -> bool:
    return len(word) > 4 and word.endswith("ly") and word not in BASES


_SKILLS = frozenset("swim drive cook dance sing read ski ride climb".split())  # noqa: SIM905
_CANNOT = frozenset("don't doesn't can't cannot won't never".split())  # noqa: SIM905
_HOPES = frozenset("want wants plan plans hope hopes intend intends wanna".split())  # noqa: SIM905
_PLANNED = frozenset("planned decided hoped intended".split())  # noqa: SIM905
_LIKES = frozenset(
    [
        "like",
        "love",
        "hate",
        "enjoy",
        "prefer",
        "dislike",
        "adore",
        "liked",
        "loved",
        "hated",
        "enjoyed",
        "likes",
        "loves",
        "hates",
        "enjoys",
    ]
)


def _predicate(lead: str, verb: str, rest: str, *, plain: bool = False, soon: bool = False) -> str | None:
    """`lead` ends with the verb, unless that is the clitic of its first word (`plain`)."""
    adverbs, second, more = _verb_of(rest)
    second = second.lower()
    if verb in ("are", "were") and lead.lower().startswith("we") and _A_ROLE.match(rest):
        return None  # a company, a team: not the speaker
    if verb in ("was", "were") and _AT_AN_AGE.match(rest):
        return None
    if verb in ("am", "are", "was", "were", "is"):
        return _whole(lead, rest, bare=False) if _is_state(rest) else None
    if verb in ("have", "has", "had") and second in ("been", *PARTICIPLE) and (plain or second not in _NOUNS_TOO):
        if second == "been":
            return _whole(lead, rest, bare=False) if _is_state(more) else None
        if second in ("got", "had"):
            return _whole(lead, rest, bare=False) if _is_held(more) else None
        return _verbal(f"{lead} {' '.join([*adverbs, second])}", PARTICIPLE[second], more)
    if verb in ("have", "has", "had"):
        return _whole(lead, rest, bare=False) if _is_held(rest) else None
    if verb in _CANNOT:
        if second == "have":
            return _whole(lead, rest, bare=False) if _LACKED.match(more) else None
        if verb in ("can't", "cannot", "won't") and not more and second not in _SKILLS:
            return None
        if second in HABITS or (second in PLANS and verb != "won't"):
            return _verbal(f"{lead} {' '.join([*adverbs, second])}", second, more, negated=True)
        return None
    if verb == "used" and second == "to":
        base, after = _base(more)
        return _verbal(f"{lead} to {base}", base, after) if base in HABITS or base in PLANS else None
    if verb in _HOPES or verb in _PLANNED:
        if verb == "wanna":
            more, second = rest, "to"
        base, after = _base(more)
        return (
            _verbal(f"{lead}{'' if verb == 'wanna' else ' to'} {base}", base, after)
            if second == "to" and base in PLANS
            else None
        )
    if verb == "would" and second in ("like", "love"):
        to, rest_of = (more.split(" ", 1) + [""])[:2] if more else ("", "")
        base, after = _base(rest_of)
        return _verbal(f"{lead} {second} to {base}", base, after) if to == "to" and base in PLANS else None
    if verb in ("will", "gonna") and second in _WILL:
        return _verbal(f"{lead} {' '.join([*adverbs, second])}", second, more)
    if verb in HABITS or verb in PAST or verb in THIRD or (verb in BASES and (soon or _SOON.search(rest))):
        base = verb if verb in HABITS else PAST.get(verb) or THIRD.get(verb) or verb
        return _verbal(lead, base, rest)
    return None


_AT_AN_AGE = re.compile(r"^(?:\d{1,3}$|(?:a|an) (?:kid|child|teen\w*|baby|student|girl|boy)\b|going\b|gonna\b)", re.I)
_NOUNS_TOO = frozenset("run work study dance play walk hike drive read".split())  # noqa: SIM905
_WILL = frozenset("move marry graduate retire visit travel start quit".split())  # noqa: SIM905
_SOON = re.compile(
    rf"\b(?:tomorrow|next|on|in {_MONTH}|this (?:week|weekend|month|year|summer|winter))\b", re.IGNORECASE
)


def _base(text: str) -> tuple[str, str]:
    base, _, after = text.partition(" ")
    return base.lower().strip(",."), after


_NO_OBJECT = frozenset(
    """smoke vape drink cook bake paint draw sing dance swim cycle climb ski surf dive sail fish knit sew garden meditate
    code program run volunteer commute travel hike jog walk exercise drive retire graduate marry read write teach pray
    fast study train move divorce work""".split()  # noqa: SIM905
)
_WITH_PLACE = frozenset("live reside go belong suffer listen specialise specialize identify travel commute".split())  # noqa: SIM905
_FIRST_OF_PLACE = re.compile(
    r"^(?:(?:back|down|up|out|over|together|alone|abroad|right|just|here|there|home|apart|around) ?)*"
    r"(?:in|at|on|to|near|with|by|from|for|as|of|off|across|outside|inside|abroad|here|there|alone|together|hiking"
    r"|running|swimming|climbing|skiing|surfing|camping|dancing|cycling|fishing|jogging|every|twice|once)\b",
    re.IGNORECASE,
)
_NOTHING_SAID = re.compile(
    r"^(?:it|its|it's|this|that|that's|these|those|them|him|her|one|ones|something|somebody|someone|anything|everything"
    r"|nothing|stuff|things?|so|what|how|why|where|when|whether|which|who|none|some|any|lots|a lot|much|many|more|most"
    r"|enough|too|all|both|either|neither|other|others|another one|the same|same|such|because|but|and|or|if|than|then"
    r"|like|as if|well|better|good|ok|okay|fine|you|sure|ready|care|back to|up with|rid|it's|to it|to that|on it|on that|"
    r"with it|for it|at it|of it|to them|with them|for them|with that|for that|to this|about it|about that|about this)\b"
    r"(?! (?:morning|afternoon|evening|week|weekend|month|year|summer|winter|of my|my|kinds|sorts|day|night)\b)",
    re.IGNORECASE,
)
_FIGURES = re.compile(
    r"^(?:my (?:mind|patience|way|point|best|thing|temper|head|heart|mind|words?|time|bit|part)"
    r"|a (?:look|break|chance|thing|step|note|go|shot|hit|while|bit|moment|minute|joke|point|mess|difference"
    r"|feeling|hunch|few things|wrong|mistake|question|suggestion|good time|great time|lot of|great day|bad day|long day)"
    r"|the (?:point|way|idea|thing|look|vibe|feeling|sound|best|worst|most|first|second|next|same)"
    r"|over|on$|on (?:to|with)|around|with it|along|through|away with|by|sense|use of|forward|fun|nowhere|crazy|mad|wrong|right|started|going"
    r"|an? (?:idea|doubt|feeling|error|issue|incident|problem))\b",
    re.IGNORECASE,
)


def _verbal(lead: str, base: str, rest: str, *, negated: bool = False) -> str | None:
    """A verb that the rules know, with what must follow it."""
    rest = _trimmed(rest)
    if not rest or _DATED_ONLY.match(rest):
        return _whole(lead, rest, bare=True) if base in _NO_OBJECT and (rest or base in _HABITUAL or negated) else None
    if _NOTHING_SAID.match(rest) or _FIGURES.match(rest):
        return None
    if base in _WITH_PLACE and not _FIRST_OF_PLACE.match(rest):
        return None
    if base in _OF_ITS_KIND and not _OF_ITS_KIND[base].match(rest):
        return None
    if _TO_DO.match(rest) and base not in _DONE_TO:
        return None
    if base in _TASTES and _OF_THE_TALK.search(rest):
        return None
    return _whole(lead, rest, bare=False)


_TASTES = frozenset("like love hate enjoy prefer dislike".split())  # noqa: SIM905
_OF_THE_TALK = re.compile(
    r"\blol\b|^(?:the|how|all|being|when|option|number|\w+'s)\b|\b(?:idea|option|version|plan|draft|answer|style|theme|word)\b",
    re.IGNORECASE,
)
"""What is liked here and now rather than in general."""
_TO_DO = re.compile(
    rf"^to (?:{'|'.join(sorted(BASES))}|be|see|say|know|find|link|look|help|show|keep)\b", re.IGNORECASE
)
_DONE_TO = frozenset("plan move go love like hate prefer learn start begin try decide".split())  # noqa: SIM905
_HABITUAL = frozenset("smoke vape drink cook bake paint draw knit sew garden meditate surf ski climb sail code".split())  # noqa: SIM905
_DATED_ONLY = re.compile(
    rf"^(?:{RELATIVE.pattern}|in (?:19|20)\d\d|(?:every|twice|once) .{{1,30}}|regularly|professionally|a lot)$",
    re.IGNORECASE,
)
_A_THING = r"(?:an?|my|our|the|two|three|four|five|another|\d{1,6}|some|new)\b"
_OF_ITS_KIND: dict[str, re.Pattern[str]] = {
    verb: re.compile(rf"^(?:{kind})", re.IGNORECASE)
    for verb, kind in {
        "get": r"(?:an?|my|our|two|three|another|some|new|the (?:job|flu|keys|results)) (?!(?:email|e-mail|mail|letter|message|text|call|reply|answer|reminder|point|feeling|idea|error"
        r"|notification|quote|lot|bit)\b)|married|engaged|promoted|fired|laid off|divorced|hired|accepted|into|pregnant"
        r"|diagnosed|rid of|up at|seasick|carsick|migraines|hives|vaccinated|tested",
        "do": r"yoga|pilates|judo|karate|crossfit|ballet|ceramics|pottery|my (?:phd|master|degree|thesis|internship)"
        r"|a (?:phd|master|degree|course)|an (?:internship|apprenticeship)|volunteer|night shifts|shift work",
        "take": rf"(?:{_A_THING} )?(?:train|bus|insulin|medication|meds|pills?|metformin|[a-z]+ (?:classes|lessons|pills?)|class"
        r"|course|trip|job|position|role|lessons|classes|year off|sabbatical|[\w ]{0,20}(?:class|course|lessons|trip|job)"
        r"|vitamins?|statins|antidepressants|\d)",
        "make": rf"(?:about |around |like )?(?:[$€£]? ?\d|{_A_THING} (?:living|film|movie|album|quilt|living)|pottery|jewel|music"
        r"|ceramics|candles|cheese|wine|beer|furniture|soap|videos|a living)",
        "keep": r"bees|kosher|halal|chickens|goats|a (?:diary|journal)|horses|sheep|ducks",
        "turn": r"\d|vegan|vegetarian",
        "give": r"up|away|birth",
        "try": r"to (?:quit|lose|stop|learn|save|eat|gain)|for a baby|out for",
        "break": r"my |our |a (?:leg|arm|rib|finger|toe|bone|wrist|hip)|up",
        "leave": r"my|our|the (?:company|job|army|church|band|team|uk|us|eu)|for|school|university|(?-i:[A-Z])",
        "start": rf"{_A_THING} (?:new )?(?!(?:thing|post|chat|conversation|sentence|reply)\b)|as|at|to (?:learn|run|study|play|work"
        rf"|write|paint)|{'|'.join(sorted(LASTING_ING))}|school|university|college|in|on|yoga|piano|guitar|therapy|chemo",
        "open": r"an?|my|our|up",
        "work": r"at|for|as|in|from (?!home now)|nights?|part|full|remote|shifts|mon|tue|wed|thu|fri|sat|sun|\d|weekends|with"
        r"|on (?:an?|my|our|the)\b",
        "run": r"an?\b|my|our|the |\d|marathons?|every|with|in the|regularly|ultras?|half|races|daily|\w+ marathons?|on ",
        "move": r"to|in\b|into|out|from|house|back|away|here|abroad|home|apartments|flats|cities|countries|(?:last|this|next)",
        "plan": r"to|an?\b|my|our",
        "learn": r"(?!a (?:ton|lot)|about|more|from|how|that)\w",
        "write": r"an?\b|my|our|poetry|poems|code|fiction|for|songs|music|novels|in\b",
        "read": r"(?-i:[A-Z\"])|an?\b|fiction|sci|fantasy|novels|books|comics|manga|the (?-i:[A-Z])|a lot|crime|poetry|history",
        "share": r"an?\b (?:flat|room|house|apartment)|my (?:flat|room|house|apartment)",
        "raise": r"\w+ (?:kids|children|sons|daughters|chickens)|(?:my|our|chickens|goats|sheep|bees|a)\b",
        "drop": r"out|my|our|(?-i:[A-Z])|\w+ (?:class|course|law)",
        "order": r"an?\b",
        "use": r"(?-i:[A-Z])|an?\b|my|vim|emacs|python|linux|\w+ (?:for|at|every)",
    }.items()
}

# ---- states, things held -----------------------------------------------------------------------------------------

_BE_PHRASE = re.compile(
    r"^(?:from (?!now|then|there|here|that|it|the (?:start|beginning))[\w]"
    r"|(?:based|born|raised) (?:in|at|on) |diagnosed with |(?:named|called) (?-i:[A-Z])|laid off|fired\b|promoted|hired|accepted"
    r"|scared of (?!it|that|this)|afraid of (?!it|that|this)|terrified of |into (?!it|that|this|them)[\w]|good at (?!it|that)"
    r"|bad at (?!it|that)|in charge of |responsible for |interested in (?!it|that|this)|on (?:a [\w-]+ diet|a diet|insulin"
    r"|medication|antidepressants|parental leave|maternity leave|paternity leave|sick leave|keto|blood thinners|statins)"
    r"|in (?:my (?:\w+ )?(?:twenties|thirties|forties|fifties|sixties|seventies)|(?:my |the )?(?:\w+ )?(?:grade|year) )"
    r"|(?:about |almost )?\d{1,3}(?: years? old| ?cm| ?kg| now| today)?(?: tall)?$|\d(?:'\d{1,2}| ?ft| ?feet| ?m)\b"
    r"|married (?:to|with)|engaged to|a member of|fluent in|native to|stationed in|enrolled in|stolen\b|short-?sighted"
    r"|close to \w+ing)",
    re.IGNORECASE,
)
_A_ROLE = re.compile(
    r"^(?:an?|one of (?:the|my)|the (?:eldest|oldest|youngest|only|owner|manager|head|founder|mother|father|mum|mom|dad"
    r"|youngest|middle|first|captain|president|chair)) (?!(?:bit|little|mess|wreck|disaster|genius|idiot|moron|fool|total"
    r"|complete|sucker|zombie|loser|monster|saint|god|star|mood|rush|hurry|while|way|long|second|minute|lot|few|queen"
    r"|king|thing|good (?:idea|point|time|day|one)|great (?:idea|point|time|day|one)|bad (?:idea|day|time)|joke|shame|nightmare"
    r"|dream|pain|problem|pity|bot|robot|unicorn|couple of (?:minutes|days)|big deal|must|mix|loss|hard|huge (?:mess|deal))\b)[\w]",
    re.IGNORECASE,
)
_NOT_LASTING = re.compile(
    r"^(?:a|an) (?:[\w-]+ )?(?:day|time|moment|week|idea|one|question|mood|place)\b", re.IGNORECASE
)
_OF_A_STATE = re.compile(
    r"^(?:intolerant|to|and|or|since|for|but|by|now|with|from|in|as|any ?more|again|so|because|too|also|at|on|until"
    r"|\w+ly|(?:next|this|last) \w+|even though|though)\b",
    re.IGNORECASE,
)
_STATE_WORD = re.compile(r"^(?P<word>[\w-]+)(?P<more>.*)$", re.DOTALL)


def _is_state(rest: str) -> bool:
    """Whether "am …" says what somebody is, and not how they feel now."""
    words = rest.split()
    while len(words) > 1 and (words[0].lower() in _ADVERB or _is_ly(words[0])):
        words = words[1:]
    rest = _trimmed(" ".join(words))
    found = _STATE_WORD.match(rest)
    if not words or found is None:
        return False
    word, more = found["word"], found["more"].strip(" ,")
    low = word.lower()
    if low in STATES:
        if low in ("allergic", "intolerant"):
            return more.startswith("to ") and not _NOTHING_SAID.match(more[3:])
        return not more or bool(_OF_A_STATE.match(more))
    if low == "going":
        goes, after = _base(more.removeprefix("to "))
        return more.startswith("to ") and (goes in PLANS and bool(after) and not _NOTHING_SAID.match(after))
    if low in LASTING_ING:
        base = ING.get(low, low)
        return bool(more) and _verbal("", base, more) is not None
    if word[0].isupper() and word.isalpha():
        return not more or bool(re.match(r"^(?:and|from|,|by|but)\b", more)) or more.split()[0][0].isupper()
    if _A_ROLE.match(rest):
        return not _NOT_LASTING.match(rest)
    return bool(_BE_PHRASE.match(rest))


_LACKED = re.compile(
    rf"^(?:an?|any)? ?(?:{'|'.join(sorted(PEOPLE | PETS | THINGS))}|siblings|allergies|kids|pets|licen[sc]e|driver's licen[sc]e"
    r"|gluten|dairy|eggs|nuts|sugar|alcohol|caffeine|meat|pork|shellfish)\b",
    re.IGNORECASE,
)
_HELD = re.compile(
    r"^(?:got )?(?:an?|my|our|no|two|three|four|five|six|seven|eight|nine|ten|one|\d{1,4}|several|another|some|asthma"
    r"|diabetes|adhd|anxiety|depression|epilepsy|celiac|coeliac|migraines|hay fever|insomnia|arthritis|allerg\w+|kids"
    r"|children|cats|dogs|dual|type|high|low|chronic|bad|twins|pets|chickens|experience|tickets|curly|red|brown|blonde?"
    r"|(?-i:[A-Z]))\b",
    re.IGNORECASE,
)
_NOT_HELD = re.compile(
    r"^(?:got )?(?:an?|my|no|another|some|the|two|three|\d{1,4}|one|several|\w+) (?:\w+ ){0,2}?(?:questions?|idea|ideas|problems?|"
    r"issues?|feeling|feelings|doubt|doubts|favou?r|request|look|lot|bit|chance|clue|time|fun|blast|minute|moment|meeting|call"
    r"|thing|things|hunch|suggestion|good|great|nice|lovely|bad|rough|long|hard|busy|crazy|tough|incident|talk|point|choice|"
    r"way|guess|draft|error|list|plan|options?|headache|hangover|seconds?|minutes?|reason|energy|strength|say|free will|luck"
    r"|update|weekend|experience|desire|few|due|night|concerns?|opinion|thoughts?|words|interest|intention|template|link|file|version|deadline|example)\b",
    re.IGNORECASE,
)


def _is_held(rest: str) -> bool:
    return bool(_HELD.match(rest)) and not _NOT_HELD.match(rest) and not re.match(r"^(?:got )?to\b", rest)


# ---- my …, and people by name ------------------------------------------------------------------------------------

_OF_MINE = re.compile(r"^(?:my|our) ", re.IGNORECASE)
_SAID_OF_A_VALUE = re.compile(
    r"^(?:(?:so|very|too|really|just|pretty|killing|good|bad|great|ok|okay|fine|gone|full|out|there|here|not|nothing|it|this"
    r"|that|what|how|always|still|now|almost|ready|done|perfect|terrible|awful|amazing|nice|cool|down|up|over|in (?:ruins|"
    r"shambles)|being|getting|going|coming|broken|dead|lost|safe|to|the (?:same|best|worst|one|only)|a (?:bit|mess|nightmare"
    r"|disaster|joke|little|problem))\b(?! in (?:19|20)\d\d))",
    re.IGNORECASE,
)


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
        return _whole(lead, rest, bare=False) if _is_said_of(noun_phrase, rest) else None
    if noun_phrase[-1] in ATTRIBUTES or "favourite" in noun_phrase or "favorite" in noun_phrase:
        return None
    return _predicate(lead, verb, rest)


_NOT_IN_NOUN = frozenset(
    [
        "and",
        "or",
        "but",
        "who",
        "that",
        "which",
        "whose",
        "when",
        "i",
        "of",
        "guy",
        "with",
        "without",
        "thing",
        "whole",
        "last",
        "next",
        "other",
    ]
)


def _is_verb(word: str) -> bool:
    return (
        word in _COPULAS
        or word in THIRD
        or word in PAST
        or word in _CANNOT
        or (word in HABITS and word not in _NOUNS_TOO)
    )


_COPULAS = frozenset("is are was were has have had isn't aren't will want wants plans doesn't can't".split())  # noqa: SIM905


def _is_said_of(noun_phrase: list[str], rest: str) -> bool:
    value = _trimmed(rest)
    if not value or _NOTHING_SAID.match(value):
        return False
    head = noun_phrase[-1]
    if "favourite" in noun_phrase or "favorite" in noun_phrase or head in ATTRIBUTES:
        return not _SAID_OF_A_VALUE.match(value)
    if _is_state(value):
        return True
    if head in PEOPLE or head in PETS:
        return bool(
            re.match(r"^(?:called|named) \w|^(?:\d{1,3}|[A-Z][\w'-]+)(?: and (?:\d{1,3}|[A-Z][\w'-]+))?$", value)
        )
    return bool(re.match(rf"^(?:on|in|at) (?:\d|the \d|{_MONTH}\b|(?-i:[A-Z])|next)|^(?:next|this) \w+|^(?:\d|called |named )", value, re.I))  # fmt: skip


_A_NAME = re.compile(r"^(?P<who>[A-Z][a-z][\w'-]*(?: [A-Z][a-z][\w'-]*)?) (?P<rest>.+)$")
_SOMEBODY = re.compile(r"^(?:he|she)(?P<clitic>'s)? (?P<rest>.+)$", re.IGNORECASE)
_OF_PEOPLE = frozenset(
    [
        "lives",
        "works",
        "loves",
        "likes",
        "hates",
        "prefers",
        "speaks",
        "studies",
        "plays",
        "lived",
        "worked",
        "moved",
        "adopted",
        "married",
    ]
)
_NOT_NAMES = _CALENDAR | frozenset(
    """it that this there these those they he she you what everything something nothing everyone life time one some being
    really lots still next last the i we my our his her left right all both dad mum mom people anyone nobody most many
    sorry ok also only maybe anyway not never always just here now then so but and or if when while""".split()  # noqa: SIM905
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
        is_met = who.split()[0] in known.met or " " in who
        if rest.split()[0] in ("is", "was", "isn't", "wasn't", "are", "were") and not is_met:
            if not re.match(r"(?:is|was) (?:my|our) [\w-]+(?:[ -]in[ -]law)?$", rest):
                return None
        if who.endswith("'s") or not (known.names & {who.split()[0]} or " " in who or rest.split()[0] in _OF_PEOPLE):
            return None
    adverbs, verb, more = _verb_of(rest)
    if not _is_verb(verb.lower()) or verb.lower() in HABITS:
        return None
    lead = " ".join([who, *adverbs, verb])
    if verb.lower() in ("is", "was", "isn't") and re.match(r"^(?:my|our) (?:\w+ )?(?P<who>[\w-]+)$", more):
        return _whole(lead, more, bare=False) if more.split()[-1].lower() in PEOPLE | PETS else None
    return _predicate(lead, verb.lower(), more)


# ---- the end of a statement --------------------------------------------------------------------------------------

_TRAILING = re.compile(
    r"(?:[ ,]+(?:lol|btw|tho|though|anyway|now|rn|atm|please|actually|too|obviously|obv|sadly|thanks|thank you|haha"
    r"|you know|as well|also|lately|oops|yet|already|and stuff|or something|or so|[:;]-?[)(D]|x+))+$",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:when|whenever|if|unless|until|till|except|while|whether|than)\b", re.IGNORECASE)
_AGE = re.compile(r"\bwhen I was (?:\d{1,2}|a kid|a child|little|young|a teenager|in \w+)\b|\b(?:more|less|other|older|younger|bigger|smaller|better|rather) than\b", re.I)  # fmt: skip
_CUT_AT = re.compile(
    r",? so (?!that\b|far\b|much\b|many\b|i\b)|,? (?:because|but|although|though|which|who|and) (?=(?:he|she|it|they|that|this|there|the|these|those|not|now|can't"
    r"|don't|doesn't|it's|he's|she's|they're|that's|is|was|has|had|we|you|then|everyone|everybody|nobody|people|will|would"
    r"|his|her|their|as|since|still|also|barely|sometimes|only|[a-z]+ (?:is|was|are|were|said|says|has|had))\b)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"^(?:(?:and|or) )?(?!(?:not|but|so|goal|budget|cost)\b)[\w'\"-]+(?: [\w'\"./-]+){0,4}$")
_ADDED = re.compile(
    r"^(?:an?|the|my|our|in|on|at|near|with|from|for|named|called|born|since|and|or|\d|(?-i:[A-Z]))\b", re.IGNORECASE
)
_FINITE = re.compile(
    r"\b(?:I|he|she|it|they|we|is|are|was|were|has|had|have|do|does|did|will|would|can|can't|don't|it's|he's|she's|goal"
    r"|cost|costs|said|says|means|makes|please|thanks|right|ok|etc)\b",
    re.IGNORECASE,
)
_ODD = re.compile(r"=>|[=<>{}|\\^~`*\ue000]|\*\*|:\s|\.{2,}|\?|!|(?:^|\s)/|@ |\baka\b")
_DANGLING = re.compile(
    r"\b(?:a|an|the|my|our|his|her|their|to|of|in|on|at|for|from|with|and|or|but|so|because|as|by|about|into|than|is|are"
    r"|was|were|not|very|really|too|every|between|like|just|that|this|these|those|it|them|him|there|then)$",
    re.IGNORECASE,
)
_THEY = re.compile(r"\b(?:he|she|him|his|her|hers|they|them|their)\b", re.IGNORECASE)
_IT = re.compile(r"\b(?:it|its|this|that|these|those|there|ones?)\b(?! (?:is|was|has) (?:my|our)\b)", re.IGNORECASE)
_SAID_OF_TIME = re.compile(
    r"\b(?:this|these|that) (?:morning|afternoon|evening|week|weekend|month|year|summer|winter|spring|autumn|fall|days"
    r"|\w+day)\b|\bone (?:of|day|year|week|month|more|dog|cat|kid|child|brother|sister|son|daughter)\b|\bthe one\b",
    re.IGNORECASE,
)
_SOMEBODY_NAMED = re.compile(
    r"\b(?:" + "|".join(sorted(PEOPLE | PETS)) + r")\b|(?<=[a-z,] )[A-Z][a-z]+|\b(?:with|her|his|their)\b",
    re.IGNORECASE,
)


def _trimmed(text: str) -> str:
    return _TRAILING.sub("", text.strip(" ,.!")).strip(" ,.!")


def _whole(lead: str, rest: str, *, bare: bool) -> str | None:
    """`lead` with as much of `rest` as stands on its own; None where it does not, or leans on what was not said."""
    if is_reported(f"{lead} {rest}") and not re.search(r"\bcalled [A-Z\d]", rest):
        return None
    rest = _trimmed(rest)
    if _ODD.search(rest) or _CONDITION.search(_AGE.sub("", rest)):
        return None
    rest = _until_comma(_CUT_AT.split(rest, maxsplit=1)[0])
    rest = _trimmed(rest)
    if (not rest and not bare) or _DANGLING.search(rest) or len(rest.split()) > _MOST_WORDS:
        return None
    if _IT.search(_SAID_OF_TIME.sub("", rest)) and not re.search(r"\bthat (?:I|my)\b", rest):
        return None
    if _leans(lead, rest):
        return None
    return f"{lead} {rest}".strip()


def _leans(lead: str, rest: str) -> bool:
    """Whether a he, she or they stands for somebody who was named elsewhere."""
    found = _THEY.search(rest)
    if not found:
        return False
    before = f"{lead.removeprefix('I ')} {rest[: found.start()]}"
    return not re.search(r"\b(?:" + "|".join(sorted(PEOPLE | PETS)) + r")\b|(?<!^)\b[A-Z][a-z]+", before)


def _until_comma(rest: str) -> str:
    """Up to the first comma behind which something new is said."""
    first, *more = rest.split(", ")
    kept = [first]
    for part in more:
        if _FINITE.search(part) or not (_ADDED.match(part) or (_LISTED.match(part) and _is_list(more))):
            break
        kept.append(part)
    return ", ".join(kept)


def _is_list(parts: list[str]) -> bool:
    return bool(re.match(r"^(?:and|or) |.{1,60} (?:and|or) \S+", parts[-1])) or len(parts) > 1
