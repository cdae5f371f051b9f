"""One fact against the memories shown with it → one operation, without a model.

Each test looks for one relation between the fact and a memory, in the order in which a wrong match would do most harm:
said already, over, happened as planned, one more of the same, another value of the same, a finer statement. Both must
surely speak of the same thing of the same person: what matches no test is new. A rewritten memory keeps what it said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memkit.backbones._rules_dates import ABSOLUTE
from memkit.backbones._rules_requests import meant
from memkit.backbones._rules_verbs import ATTRIBUTES, PAST, THIRD
from memkit.backbones._rules_words import PETS, content, phrases, stem, tokens
from memkit.models import Action, normalise
from memkit.text.forgetting import named_by

_LONGEST = 390
"""A merged memory stays within what the compact grammar lets anybody write."""

_PLAN = re.compile(
    r"\b"
    + phrases(
        r"""plans?/planning/planned/going to/gonna/will/wants?(?! (?:to be called|the assistant|no|(?:\w+ )?answers)\b)/wanted/hopes?/hoping/intends?/intending
        /would (?:like|love)/thinking (?:about|of)/considering/looking forward/about to/decided to/booked
        /is (?:moving|visiting|starting|getting|buying|adopting|leaving|flying|travelling|traveling)"""
    )
    + r"\b",
    re.IGNORECASE,
)
_PLAN_WORDS = frozenset("plan want hope intend think consid look forward decid book go have would about get".split())
_OVER = re.compile(
    r"\b"
    + phrases(
        r"""no longer/not any ?more/stopped/stops/quit/quits/gave up/gave away/giving up/sold/got rid of/broke up with
        /lost/cancell?ed/dropped/ended/left/divorced/returned/donated/threw away
        /(?:\w+n['’]t|does not|is not|do not|are not|can not|cannot) .*\b(?:any ?more|any longer)"""
    )
    + r"\b",
    re.IGNORECASE,
)
_OVER_WORDS = frozenset(
    "stop quit give sell get rid break lose cancel drop end leave divorc return donat throw any have anymor away with all".split()
)
_NOT = re.compile(r"\b(?:not|never|no longer|no|cannot|without)\b|n['’]t\b", re.IGNORECASE)
_ANOTHER = re.compile(r"\b(?:another|second|third|fourth|one more|additional|new pet|also|too|as well)\b", re.I)
_COUNTED = re.compile(r"\b(?:another|second|third|fourth|one more|additional)((?: [\w-]+){1,3})", re.IGNORECASE)
_HOLDING = frozenset({"have", "buy", "rescu", "keep", "speak", "play", "rais"})
"""Verbs whose objects are kept, so that one more of them belongs to the same memory. Events happen again instead."""
_ONGOING = re.compile(r"^\S+(?: \w+)? (?:is|are|still|keeps|has been|have been|would|won['’]t)\b", re.IGNORECASE)
_NAMED = re.compile(r"\b(\w+),? (?:named|called) ([A-Z][\w'’-]*(?: and [A-Z][\w'’-]*)*)")

_SLOTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        (
            "home",
            r"^\S+ (?:(?:now|currently|still) )?(?:lives|is living|resides|moved|relocated|is based)(?: back)?"
            r"(?: from [\w' -]{2,40}?)? (?:in|to) (?!(?:a|an|the|their|my|fear|peace|sin)\b|\w+days?\b)(?P<value>.+)",
        ),
        (
            "employer",
            r"^\S+ (?:(?:now|currently|still) )?(?:works|is working|(?:started|got|took|accepted)(?: \w+){0,3}"
            r" (?:job|position|role|work\w*))(?: now| currently)? (?:at|for) (?P<value>.+)",
        ),
        ("profession", r"^\S+ (?:now |currently )?works (?:now |currently )?as (?:a |an |the )?(?P<value>.+)"),
        ("name", r"^\S+ goes by (?P<value>.+)"),
        ("called", r"^\S+ wants to be called (?P<value>.+)"),
        ("answers in", r"^\S+ wants answers in (?P<value>.+)"),
        ("age", r"^\S+ (?:is (?:now )?|turned )(?P<value>\d{1,3})(?: years? old| now)?\b(?! \w)"),
        ("diet", r"^\S+ is (?:now |a )*(?P<value>vegan|vegetarian|pescatarian|an omnivore)\b"),
        ("status", r"^\S+ (?:is|got) (?:now )?(?P<value>single|married|engaged|divorced|widowed)\b"),
    )
)
_ATTRIBUTE = re.compile(r"^(?P<owner>\S+['’]s) (?P<noun>[\w -]{2,40}?) (?:is|are)(?: now)? (?P<value>.+)$")
_CHANGED = re.compile(
    r"\bchanged (?:their|his|her) (?P<noun>[\w ]{2,30}?) (?:from [\w' -]{1,40} )?to (?P<value>.+)", re.I
)


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A memory as the rules see it: the handle to name it by, its text, whether it may be rewritten."""

    handle: int
    text: str
    whole: bool = True
    seq: int = 0
    """The higher, the newer."""


@dataclass(frozen=True, slots=True)
class RuleDecision:
    action: Action
    handle: int | None = None
    text: str | None = None


def decide(fact: str, known: Sequence[KnownMemory]) -> RuleDecision:
    told = meant(fact)
    if told is not None:
        return _correct(*told, known)
    same_subject = [one for one in known if _subject(one.text) == _subject(fact)]
    for test in (_said_already, _over, _happened, _one_more, _other_value, _contradicted, _finer):
        for one in same_subject:
            decision = test(fact, one)
            if decision is None or (decision.action == "update" and not one.whole):
                continue
            if decision.text is not None and len(decision.text) > _LONGEST:
                continue
            twin = next((other for other in known if _same_text(other.text, decision.text)), None)
            return decision if twin is None or twin is one else RuleDecision("noop", twin.handle)
    return RuleDecision("add")


def find_forgotten(wanted: str, known: Sequence[KnownMemory]) -> list[int]:
    """The memories that say all that is to be forgotten, the most similar first; `my birthday` is not my mother's."""
    gone, whose = content(wanted) - _ASIDE, _subject(f"{wanted.rstrip('.')} is")
    said = [one for one in known if gone and gone <= content(one.text)]
    said = said or _say_what_is_named(wanted, known) or [one for one in known if named_by(wanted).are_said(one.text)]
    found = [one for one in said if _subject(one.text) == whose] or said
    return [one.handle for one in sorted(found, key=lambda one: (len(content(one.text)), one.handle))]


def _say_what_is_named(wanted: str, known: Sequence[KnownMemory]) -> list[KnownMemory]:
    """`my old address, Elm Street 5`: what comes behind the comma names it as well."""
    parts = [content(part) for part in wanted.split(",")[1:]]
    return [one for one in known if any(len(part) > 1 and part <= content(one.text) for part in parts)]


_ASIDE = frozenset(stem(word) for word in "memory thing stuff everything anything detail info information said".split())


def _correct(new: str, old: str, known: Sequence[KnownMemory]) -> RuleDecision:
    """`I meant Bergen, not Oslo`: in place of what was named. What it is that `I meant Bergen` corrects is a guess."""
    newest_first = sorted((one for one in known if one.whole), key=lambda one: -one.seq)
    for one in newest_first:
        if not old or not _word(old).search(one.text):
            continue
        text = _word(old).sub(lambda _: new, one.text, count=1)
        twin = next((other for other in known if other is not one and _same_text(other.text, text)), None)
        if twin is None and len(text) <= _LONGEST and not _same_text(one.text, text):
            return RuleDecision("update", one.handle, text)
    return RuleDecision("noop")


def _word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)


def _same_text(text: str, other: str | None) -> bool:
    return other is not None and normalise(text) == normalise(other)


def _said_already(fact: str, one: KnownMemory) -> RuleDecision | None:
    """The same words, or words that mean the same and add nothing."""
    if normalise(fact) == normalise(one.text):
        return RuleDecision("noop", one.handle)
    ours, theirs = _meaning(fact), _meaning(one.text)
    if not ours or not _same_mode(fact, one.text) or (_ANOTHER.search(fact) and not _names(fact)):
        return None
    if ours <= theirs and _dates(fact) <= _dates(one.text):
        return RuleDecision("noop", one.handle)
    close = len(ours & theirs) / len(ours | theirs) >= 0.8 and len(ours | theirs) >= 5
    return RuleDecision("noop", one.handle) if close and not _distinct(ours ^ theirs, fact, one.text) else None


def _over(fact: str, one: KnownMemory) -> RuleDecision | None:
    """What the memory says has ended: delete it, or take the ended item out of a list."""
    ended = _OVER.search(fact)
    if not ended or _OVER.search(one.text) or _PLAN.search(fact):
        return None
    before = fact[: ended.start()]
    if _NOT.search(before) or _undated(before) - content(_subject(fact)):
        return None  # "loves to get lost in books" ends nothing
    gone = _meaning(fact[ended.start() :].split(" because ")[0]) - _OVER_WORDS
    held = _meaning(one.text)
    if not gone or not gone <= held:
        return None
    if gone == {"work"} and not any(slot in ("employer", "profession") for slot, _ in _values(one.text)):
        return None
    if len(gone) == 1 and stem(_verb(one.text)[0]) in gone and len(held) > 1 and gone != {"work"}:
        return None  # "stopped drinking" ends no "drinks tea"
    left = _without(one.text, gone & held)
    return RuleDecision("update", one.handle, left) if left else RuleDecision("delete", one.handle)


def _happened(fact: str, one: KnownMemory) -> RuleDecision | None:
    """The memory was a plan and the fact says that it came true."""
    told = one.text.split(" (before:")[0]
    if not _PLAN.search(told) or _PLAN.search(fact) or _NOT.search(fact) or _ONGOING.search(fact):
        return None
    planned, done = _meaning(told) - _PLAN_WORDS, _meaning(fact) - _PLAN_WORDS
    if len(planned) < 2 or not planned <= done:
        return None
    missing = _dates(told) - _dates(fact)
    plan = _open(told)[len(_subject(told)) :].strip().removeprefix("is ")
    text = f"{_open(fact)} (before: {plan})." if missing else fact
    return RuleDecision("update", one.handle, text)


def _one_more(fact: str, one: KnownMemory) -> RuleDecision | None:
    """Another of what the memory already holds: both stay, in one memory."""
    if any(_NOT.search(text) or _PLAN.search(text) for text in (fact, one.text)):
        return None
    verb, rest = _verb(fact)
    known_verb, _ = _verb(one.text)
    if rest.startswith("been ") or stem(verb) not in _HOLDING or stem(known_verb) not in _HOLDING:
        return None
    new, old = _NAMED.search(fact), _NAMED.search(one.text)
    named_apart = bool(new and old and stem(new[1]) == stem(old[1]) and new[2] not in one.text)
    counted = _COUNTED.search(fact)
    theirs = _meaning(one.text) | ({"pet"} if _meaning(one.text) & PETS else frozenset[str]())
    same_kind = bool(counted and content(counted[1]) & theirs)
    also = not counted and _ANOTHER.search(fact) and stem(verb) == stem(known_verb)
    kinds = _meaning(fact) - _HOLDING
    same_sort = bool(also and (kinds & theirs or ("pet" in theirs and kinds & PETS)))
    if not (named_apart or same_kind or same_sort) or _meaning(fact) <= _meaning(one.text):
        return None
    addition = rest if stem(verb) == stem(known_verb) else f"{verb} {rest}"
    return RuleDecision("update", one.handle, f"{_open(one.text)} and {addition}")


def _verb(text: str) -> tuple[str, str]:
    """(verb, what follows it), taking the first word behind the subject that is no adverb for the verb."""
    words = text[len(_subject(text)) :].split()
    while len(words) > 1 and (
        words[0].lower() in ("also", "has", "just", "now", "recently", "really")
        and (words[0].lower() != "has" or words[1].lower() in ("just", "also", "recently", "adopted", "bought", "got"))
    ):
        words = words[1:]
    return (words[0], " ".join(words[1:])) if words else ("", "")


def _other_value(fact: str, one: KnownMemory) -> RuleDecision | None:
    """A single-valued attribute (home, employer, a favourite) has another value now."""
    if _NOT.search(fact) or _PLAN.search(fact) or _PLAN.search(one.text):
        return None
    new = dict(_values(fact))
    for slot, old in _values(one.text):
        value = new.get(slot)
        if value is None:
            continue
        if _undated(value) <= _undated(old):
            return None
        kept = old.replace(" (before: ", ", ").strip(" .)")
        told = _undated(kept) <= content(fact)
        return RuleDecision("update", one.handle, fact if told else f"{_open(fact)} (before: {kept}).")
    return None


def _contradicted(fact: str, one: KnownMemory) -> RuleDecision | None:
    """The same statement with and without "not": the newer one counts, the older one is told."""
    if bool(_NOT.search(fact)) == bool(_NOT.search(one.text)) or _OVER.search(fact):
        return None
    if _meaning(fact) != _meaning(one.text) or _PLAN.search(fact) or _PLAN.search(one.text):
        return None
    subject = _subject(one.text)
    return RuleDecision("update", one.handle, f"{_open(fact)} (before: {_open(one.text)[len(subject) :].strip()}).")


def _finer(fact: str, one: KnownMemory) -> RuleDecision | None:
    """The fact goes on where the memory ends: `has a dog` … `named Buddy`."""
    if not _meaning(one.text) or not _same_mode(fact, one.text) or _ANOTHER.search(fact):
        return None
    return RuleDecision("update", one.handle, fact) if fact.startswith(f"{_open(one.text)} ") else None


# ---- what a text says ------------------------------------------------------------------------------------------


def _subject(text: str) -> str:
    """`Ana`, also of "Ana's favourite colour"; `Ana's sister Maria`, for people and things of hers are subjects."""
    words = text.split()
    if not words:
        return ""
    if words[0].endswith(("'s", "’s")) and len(words) > 1:
        end = next((n for n, word in enumerate(words[1:8], 1) if word in _SAYS or word in THIRD or word in PAST), 0)
        nouns = [word.lower() for word in words[1:end]]
        if nouns and (nouns[-1] in ATTRIBUTES or nouns[0] in ("favourite", "favorite")) and not _owns(nouns):
            return re.split(r"['’]s$", words[0])[0]
        return " ".join(words[:end]) if end else text
    return words[0].strip(",.") if words[0].lower() not in ("on", "in", "around") else _late_subject(text)


_SAYS = frozenset("is are was were has have had will isn't aren't doesn't can't wants".split())


def _owns(nouns: Sequence[str]) -> bool:
    """`sister's name`: of somebody else."""
    return any(noun.endswith(("'s", "’s")) for noun in nouns)


def _late_subject(text: str) -> str:
    """The subject of a fact that begins with its date."""
    rest = re.sub(r"^(?:on|in|around) (?:the \w+ (?:of|before|after) )?", "", text, flags=re.IGNORECASE)
    words = ABSOLUTE.sub("", rest, count=1).split()
    return words[0].strip(",.") if words else ""


def _meaning(text: str) -> frozenset[str]:
    """Content stems without the subject's name and without dates."""
    return _undated(text) - frozenset(stem(token) for token in tokens(_subject(text))[:1])


def _undated(text: str) -> frozenset[str]:
    return content(ABSOLUTE.sub(" ", text)) - _CALENDAR


def _names(text: str) -> bool:
    return any(token[0].isupper() for token in tokens(text)[1:])


_CALENDAR = frozenset(stem(word) for word in "week weekend month year day around earlier plan's".split())


def _dates(text: str) -> frozenset[str]:
    return frozenset(ABSOLUTE.findall(text))


def _same_mode(fact: str, other: str) -> bool:
    """Both stated or both denied, both planned or both done, both on or both over; and no two different dates."""
    if any(bool(mode.search(fact)) != bool(mode.search(other)) for mode in (_NOT, _PLAN, _OVER)):
        return False
    ours, theirs = _dates(fact), _dates(other)
    return not ours or not theirs or bool(ours & theirs)


def _distinct(different: frozenset[str], fact: str, other: str) -> bool:
    """Whether two near-identical texts differ in a name or a number: then they are two facts."""
    marked = {
        stem(token)
        for text in (fact, other)
        for token in tokens(text)[1:]
        if token[0].isupper() or any(char.isdigit() for char in token)
    }
    return bool(different & marked)


def _values(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for slot, pattern in _SLOTS:
        match = pattern.search(text)
        if match:
            found.append((slot, next(value for value in match.groups() if value)))
    changed, attribute = _CHANGED.search(text), _ATTRIBUTE.match(text)
    if changed:
        found.append((" ".join(sorted(content(changed["noun"])) or ["name"]), changed["value"]))
    if attribute and not found:
        nouns = attribute["noun"].lower().split()
        if nouns[-1] in ATTRIBUTES or nouns[0] in ("favourite", "favorite"):
            found.append((" ".join(sorted(content(attribute["noun"]))) or nouns[-1], attribute["value"]))
    return found


def _without(text: str, gone: frozenset[str]) -> str | None:
    """A listing memory without the items named by `gone`; None when nothing of it is left."""
    parts = re.split(r",? and |, ", text.rstrip(" ."))
    first = parts[0].split()
    verb = next((n for n, word in enumerate(first) if n and stem(word) in gone and word.endswith("s")), 0)
    lead, gone = first[: max(verb + 1, 2)], gone - {stem(word) for word in first[: max(verb + 1, 2)]}
    kept = [part for part in parts if not gone & content(part)]
    if len(parts) < 2 or not gone or not kept or len(kept) == len(parts):
        return None
    whole = kept[0] == parts[0]
    return f"{'' if whole else ' '.join(lead) + ' '}{' and '.join(kept)}."


def _open(text: str) -> str:
    return text.rstrip(" .")
