"""Where a statement ends: what is cut off, and what makes it no fact."""

from __future__ import annotations

import re

from memkit.backbones._rules_said import is_reported
from memkit.backbones._rules_verbs import PEOPLE, PETS

_MOST_WORDS = 34
MONTH = "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"

_TRAILING = re.compile(
    r"(?:[ ,]+(?:lol|btw|tho|though|anyway|right now|now|right|rn|for (?:example|instance)|atm|please|actually|too|obviously|obv|sadly|thanks|thank you|haha"
    r"|you know|as well|also|lately|oops|yet|already|and stuff|or something|or so|[:;]-?[)(D]|x+))+$",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:when|whenever|if|unless|until|till|except|while|whether|than)\b", re.IGNORECASE)
_AGE = re.compile(
    r"\bwhen I was (?:\d{1,2}|a kid|a child|little|young|a teenager|in \w+)\b|\b(?:more|less|other|older|younger|bigger|smaller|better|rather) than\b",
    re.I,
)
_CUT_AT = re.compile(
    r",? so (?!that\b|far\b|much\b|many\b|i\b)|,? (?:because|but|although|though|which|who|and) (?=(?:he|she|it|they|that|this|there|the|these|those|not|now|can't"
    r"|don't|doesn't|it's|he's|she's|they're|that's|is|was|has|had|we|you|then|everyone|everybody|nobody|people|will|would"
    r"|his|her|their|as|since|still|also|barely|sometimes|only|[a-z]+ (?:is|was|are|were|said|says|has|had))\b)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"^(?:(?:and|or) )?(?!(?:not|but|so|goal|budget|cost)\b)[\w'\"-]+(?: [\w'\"./-]+){0,4}$")
_ADDED = re.compile(
    r"^(?:an?|the|my|our|in|on|at|near|with|from|for|named|called|born|since|as well as|and|or|\d)\b", re.IGNORECASE
)
_FINITE = re.compile(
    r"\b(?:I|he|she|it|they|we|is|are|was|were|has|had|have|do|does|did|will|would|can|can't|don't|it's|he's|she's|goal"
    r"|cost|costs|said|says|means|makes|please|thanks|right|ok|etc)\b",
    re.IGNORECASE,
)
_ODD = re.compile(r"=>|[=<>{}|\\^~`*\ue000]|\*\*|:\s|\.{2,}|\?|!|(?:^|\s)/|@ |\baka\b")
_DANGLING = re.compile(
    r"\b(?:a|an|the|my|our|his|her|their|to|of|in|on|at|for|from|with|and|or|but|so|because|as|by|about|into|than|is|are"
    r"|was|were|not|very|really|too|every|between|like|few|couple|own|some|just|that|this|these|those|it|them|him|there|then)$",
    re.IGNORECASE,
)
_TOGETHER = re.compile(r"\b(?:together|each other|one another)\b", re.IGNORECASE)
_THEY = re.compile(r"\b(?:he|she|him|his|her|hers|they|them|their)\b", re.IGNORECASE)
_IT = re.compile(r"\b(?:it|its|this|that|these|those|there|ones?)\b(?! (?:is|was|has) (?:my|our)\b)", re.IGNORECASE)
_SAID_OF_TIME = re.compile(
    r"\b(?:this|these|that) (?:morning|afternoon|evening|week|weekend|month|year|summer|winter|spring|autumn|fall|days"
    r"|\w+day)\b|\bone (?:of|day|year|week|month|more|dog|cat|kid|child|brother|sister|son|daughter)\b|\bthe one\b",
    re.IGNORECASE,
)


def trim(text: str) -> str:
    return _TRAILING.sub("", text.strip(" ,.!")).strip(" ,.!")


def whole_statement(lead: str, rest: str, *, bare: bool) -> str | None:
    """`lead` with as much of `rest` as stands on its own; None where it does not, or leans on what was not said."""
    rest = trim(rest)
    at_the_end = " ".join(rest.split()[-3:])
    if _ODD.search(rest) or _CONDITION.search(_AGE.sub("", rest)):
        return None
    rest = _until_comma(_CUT_AT.split(rest, maxsplit=1)[0])
    rest = trim(rest)
    if lead.lower().startswith("we") and _TOGETHER.search(rest):
        return None
    if is_reported(f"{lead} {rest}, {at_the_end}") and not re.search(r"\bcalled [A-Z\d]", rest):
        return None
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
