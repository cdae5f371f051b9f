"""What somebody says of himself: verbs in a form that the rules know, states, and things that are held."""

from __future__ import annotations

import re

from memkit.backbones._rules_dates import RELATIVE
from memkit.backbones._rules_ends import MONTH, trim, whole_statement
from memkit.backbones._rules_verbs import (
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
)

_ADVERB = frozenset(
    """really also just always still now usually often sometimes recently finally already actually currently only truly
    absolutely totally definitely mostly rarely especially even both once eventually officially typically generally
    mainly never not no longer super kinda literally legit deathly severely highly badly very strictly fully newly
    happily originally secretly deeply pretty quite newly soon actually rather""".split()
)
_EMPTY = frozenset("just even actually simply literally kinda legit honestly".split())
_SELF = re.compile(r"^(?:I|we)(?:'(?P<clitic>m|ve|re|ll|d))?(?: |$)(?P<rest>.*)$", re.IGNORECASE)
_PAIR = re.compile(r"^(?:I|we) and my (?P<who>[a-z-]+)(?: (?-i:[A-Z])[\w'-]+)? (?P<verb>[a-z]+)\b", re.IGNORECASE)


def self_statement(said: str, *, soon: bool) -> str | None:
    """A statement that begins with I or we."""
    pair = _PAIR.match(said)
    if pair and pair["who"].lower() in PEOPLE:
        verb = pair["verb"].lower()
        rest = said[pair.end() :].strip()
        if verb in ("have", "are") or verb in HABITS or verb in PAST:
            return whole_statement(said[: pair.end()], rest, bare=False) if verb != "are" or is_state(rest) else None
        return None
    found = _SELF.match(said)
    if found is None:
        return None
    auxiliary = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would", None: ""}[
        found["clitic"].lower() if found["clitic"] else None
    ]
    start = said[: found.start("rest")].strip()
    adverbs, verb, rest = verb_of(found["rest"])
    adverbs = [adverb for adverb in adverbs if adverb.lower() not in _EMPTY]
    lead = " ".join([start, *adverbs, verb]).strip() if verb else start
    if auxiliary:
        lead, verb, rest = " ".join([start, *adverbs]), auxiliary, f"{verb} {rest}".strip()
    return predicate(lead, verb.lower(), rest, plain=bool(auxiliary), soon=soon)


def verb_of(text: str) -> tuple[list[str], str, str]:
    """(adverbs, verb, what follows)."""
    words = text.split()
    count = 0
    while count < len(words) - 1 and (words[count].lower() in _ADVERB or _is_ly(words[count])):
        count += 1
    return words[:count], words[count] if words else "", " ".join(words[count + 1 :])


def _is_ly(word: str) -> bool:
    return len(word) > 4 and word.endswith("ly") and word not in BASES


_SKILLS = frozenset("swim drive cook dance sing read ski ride climb".split())
CANNOT = frozenset("don't doesn't can't cannot won't never".split())
_HOPES = frozenset("want wants hope hopes intend intends wanna".split())
_PLANNED = frozenset("plan plans planned decided hoped intended".split())
_WISHES = frozenset(
    """adopt become buy climb foster graduate have hike learn leave lose marry move quit relocate retire run sell settle
    stop study switch travel visit volunteer""".split()
)
"""What one wants in life; who wants to book or to write something asks for help with it."""


def predicate(lead: str, verb: str, rest: str, *, plain: bool = False, soon: bool = False) -> str | None:
    """`lead` ends with the verb, unless that is the clitic of its first word (`plain`)."""
    adverbs, second, more = verb_of(rest)
    second = second.lower()
    if verb in ("are", "were") and lead.lower().startswith("we") and _OF_US.match(rest):
        return None  # a company, a team, a couple: not the speaker
    if verb in ("was", "were") and _AT_AN_AGE.match(rest):
        return None
    if verb in ("am", "are", "was", "were", "is"):
        return whole_statement(lead, rest, bare=False) if is_state(rest) else None
    if verb in ("have", "has", "had") and second in ("been", *PARTICIPLE) and (plain or second not in NOUNS_TOO):
        if second == "been":
            return whole_statement(lead, rest, bare=False) if is_state(more) else None
        if second in ("got", "had"):
            return whole_statement(lead, rest, bare=False) if _is_held(more) else None
        return _verbal(f"{lead} {' '.join([*adverbs, second])}", PARTICIPLE[second], more)
    if verb in ("have", "has", "had"):
        return whole_statement(lead, rest, bare=False) if _is_held(rest) else None
    if verb in CANNOT:
        if second == "have":
            return whole_statement(lead, rest, bare=False) if _LACKED.match(more) else None
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
        wanted = base in (PLANS if verb in _PLANNED else _WISHES)
        return (
            _verbal(f"{lead}{'' if verb == 'wanna' else ' to'} {base}", base, after)
            if second == "to" and wanted
            else None
        )
    if verb == "would" and second in ("like", "love"):
        to, rest_of = (more.split(" ", 1) + [""])[:2] if more else ("", "")
        base, after = _base(rest_of)
        return _verbal(f"{lead} {second} to {base}", base, after) if to == "to" and base in _WISHES else None
    if verb in ("will", "gonna") and second in _WILL:
        return _verbal(f"{lead} {' '.join([*adverbs, second])}", second, more)
    if verb in HABITS or verb in PAST or verb in THIRD or (verb in BASES and (soon or _SOON.search(rest))):
        base = verb if verb in HABITS else PAST.get(verb) or THIRD.get(verb) or verb
        return _verbal(lead, base, rest)
    return None


_AT_AN_AGE = re.compile(r"^(?:\d{1,3}$|(?:a|an) (?:kid|child|teen\w*|baby|student|girl|boy)\b|going\b|gonna\b)", re.I)
NOUNS_TOO = frozenset("run work study dance play walk hike drive read".split())
_WILL = frozenset("move marry graduate retire visit travel start quit".split())
_SOON = re.compile(
    rf"\b(?:tomorrow|next|on|in {MONTH}|this (?:week|weekend|month|year|summer|winter))\b", re.IGNORECASE
)


def _base(text: str) -> tuple[str, str]:
    base, _, after = text.partition(" ")
    return base.lower().strip(",."), after


_NO_OBJECT = frozenset(
    """smoke vape drink cook bake paint draw sing dance swim cycle climb ski surf dive sail fish knit sew garden meditate
    code program run volunteer commute travel hike jog walk exercise drive retire graduate marry read write teach pray
    fast study train move divorce work""".split()
)
_WITH_PLACE = frozenset("live reside go belong suffer listen specialise specialize identify travel commute".split())
_FIRST_OF_PLACE = re.compile(
    r"^(?:(?:back|down|up|out|over|together|alone|abroad|right|just|here|there|home|apart|around) ?)*"
    r"(?:in|at|on|to|near|with|by|from|for|as|of|off|across|outside|inside|abroad|here|there|alone|together|hiking"
    r"|running|swimming|climbing|skiing|surfing|camping|dancing|cycling|fishing|jogging|every|twice|once)\b",
    re.IGNORECASE,
)
NOTHING_SAID = re.compile(
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
    rest = trim(rest)
    if not rest or _DATED_ONLY.match(rest):
        return (
            whole_statement(lead, rest, bare=True)
            if base in _NO_OBJECT and (rest or base in _HABITUAL or negated)
            else None
        )
    if NOTHING_SAID.match(rest) or _FIGURES.match(rest):
        return None
    if base in _WITH_PLACE and not _FIRST_OF_PLACE.match(rest):
        return None
    if base in _OF_ITS_KIND and not _OF_ITS_KIND[base].match(rest):
        return None
    if _TO_DO.match(rest) and base not in _DONE_TO:
        return None
    if base in _TASTES and _OF_THE_TALK.search(rest):
        return None
    return whole_statement(lead, rest, bare=False)


_TASTES = frozenset("like love hate enjoy prefer dislike".split())
_OF_THE_TALK = re.compile(
    r"\blol\b|^(?:the|how|all|being|when|option|number|\w+'s)\b|\b(?:idea|option|version|plan|draft|answer|style|theme|word)\b",
    re.IGNORECASE,
)
"""What is liked here and now rather than in general."""
_TO_DO = re.compile(
    rf"^to (?:{'|'.join(sorted(BASES))}|be|see|say|know|find|link|look|help|show|keep)\b", re.IGNORECASE
)
_DONE_TO = frozenset("plan move go love like hate prefer learn start begin try decide".split())
_HABITUAL = frozenset("smoke vape drink cook bake paint draw knit sew garden meditate surf ski climb sail code".split())
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
        rf"|write|paint)|{'|'.join(sorted(LASTING_ING))}|[\w ]{{0,20}}(?:lessons|classes)|school|university|college|in|on|yoga|piano|guitar|therapy|chemo",
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
    r"|(?:about |almost )?\d{1,3}(?: years? old| ?cm| ?kg| now| today)?(?: tall)?(?:$|,)|\d(?:'\d{1,2}| ?ft| ?feet| ?m)\b"
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
_OF_US = re.compile(rf"{_A_ROLE.pattern}|^(?:\w+ )?pregnant\b", re.IGNORECASE)
_NOT_LASTING = re.compile(
    r"^(?:a|an) (?:(?:[\w-]+ )?(?:day|time|moment|week|idea|one|question|mood|place)\b|(?:[\w-]+ )?fan$)", re.IGNORECASE
)
_OF_A_STATE = re.compile(
    r"^(?:intolerant|to|and|or|since|for|but|by|now|with|from|in|as|any ?more|again|so|because|too|also|at|on|until"
    r"|\w+ly|(?:next|this|last) \w+|even though|though)\b",
    re.IGNORECASE,
)
_STATE_WORD = re.compile(r"^(?P<word>[\w-]+)(?P<more>.*)$", re.DOTALL)


def is_state(rest: str) -> bool:
    """Whether "am …" says what somebody is, and not how they feel now."""
    words = rest.split()
    while len(words) > 1 and (words[0].lower() in _ADVERB or _is_ly(words[0])):
        words = words[1:]
    rest = trim(" ".join(words))
    found = _STATE_WORD.match(rest)
    if not words or found is None:
        return False
    word, more = found["word"], found["more"].strip(" ,")
    low = word.lower()
    if low in STATES:
        if low in ("allergic", "intolerant"):
            return more.startswith("to ") and not NOTHING_SAID.match(more[3:])
        return not more or bool(_OF_A_STATE.match(more))
    if low == "going":
        goes, after = _base(more.removeprefix("to "))
        return more.startswith("to ") and (goes in PLANS and bool(after) and not NOTHING_SAID.match(after))
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
    r"^(?:got )?(?:an?|my own|our own|no|two|three|four|five|six|seven|eight|nine|ten|one|\d{1,4}|several|another|some|asthma"
    r"|diabetes|adhd|anxiety|depression|epilepsy|celiac|coeliac|migraines|hay fever|insomnia|arthritis|allerg\w+|kids"
    r"|children|cats|dogs|dual|type|high|low|chronic|bad|twins|pets|chickens|experience|tickets|curly|red|brown|blonde?"
    r"|(?-i:[A-Z]))\b",
    re.IGNORECASE,
)
_NOT_HELD = re.compile(
    r"^(?:got )?(?:an?|my|no|another|some|the|two|three|\d{1,4}|one|several|\w+) (?:[\w-]+ ){0,3}?(?:questions?|stor(?:y|ies)|news|stuff|events?|idea|ideas|problems?|"
    r"issues?|feeling|feelings|doubt|doubts|favou?r|request|look|lot|bit|chance|clue|time|fun|blast|minute|moment|meeting|call"
    r"|thing|things|hunch|suggestion|good|great|nice|lovely|bad|rough|long|hard|busy|crazy|tough|incident|talk|point|choice|"
    r"way|guess|draft|error|list|plan|options?|headache|cold|flu|hangover|seconds?|minutes?|reason|energy|strength|say|free will|luck"
    r"|update|weekend|experience|desire|few|due|night|concerns?|opinion|thoughts?|words|interest|intention|template|link|file|version|deadline|example)\b",
    re.IGNORECASE,
)


def _is_held(rest: str) -> bool:
    return bool(_HELD.match(rest)) and not _NOT_HELD.match(rest) and not re.match(r"^(?:got )?to\b", rest)
