"""First person to third: `I live in Oslo with my cat` → `Ana lives in Oslo with their cat`."""

from __future__ import annotations

import re

from memkit.backbones._rules_verbs import BASES, third

_PAST = frozenset(
    """went got bought ran saw made took gave came met ate wrote read began left lost sold told felt thought knew found
    built spent won taught flew drove rode swam sang broke chose grew wore slept brought had did was were quit put cut
    set let hurt cost became said heard kept lent held stood understood led paid sent shot sat fell drew threw woke beat
    bet hit shut forgot hid bit froze spoke stole swore tore spent dealt""".split()
)
_MODALS = frozenset("will would can could shall should may might must won't can't wouldn't couldn't 'll 'd".split())
_ADVERBS = frozenset(
    """really also just always never still now usually often sometimes recently finally already actually currently only
    truly absolutely totally definitely probably no longer mostly rarely especially even then soon ever so both once
    eventually officially typically generally mainly""".split()
)
_LY_VERBS = frozenset({"fly", "rely", "apply", "reply", "supply"})
_IRREGULAR_THIRD = {
    "have": "has",
    "do": "does",
    "go": "goes",
    "am": "is",
    "are": "is",
    "'m": "is",
    "'re": "is",
    "'ve": "has",
    "were": "was",
    "wanna": "wants to",
    "gotta": "has to",
    "don't": "doesn't",
    "haven't": "hasn't",
    "aren't": "isn't",
    "weren't": "wasn't",
}
_PRESENT = frozenset(
    """live work like love hate enjoy play study want need plan have own drink eat prefer run teach speak collect read
    write cook paint go travel volunteer drive commute hike bake sing dance attend practice use dislike""".split()
)
_CONTRACTED = re.compile(r"\b(I|we)['’](m|ve|ll|d|re)\b", re.IGNORECASE)
_AFTER_VERB = re.compile(r"$|(?:an?|the|my|our|in|at|as|to|for|with|from|on|no|two|three|\w+ing)\b", re.IGNORECASE)
"""What follows a verb rather than a noun."""
_SUBJECT = re.compile(r"\b(?:I|we)\b", re.IGNORECASE)


def third_person(clause: str, name: str) -> str:
    """The first I (or we) becomes the name, later ones `they`: wrong for nobody."""
    clause = _CONTRACTED.sub(lambda found: f"{found[1]} '{found[2].lower()}", clause)
    words = clause.split()
    out: list[str] = []
    named = expects_verb = negated = False
    for index, word in enumerate(words):
        bare = word.strip(",.!\"'“”()").replace("’", "'") if not word.startswith("'") else word
        low = bare.lower()
        tail = word[len(word.rstrip(',.!")”')) :] if not word.startswith("'") else ""
        if low in ("i", "we"):
            out.append(("they" if named else name) + tail)
            expects_verb, named = (not named, True)
            if not expects_verb:
                out[-1] = "they" + tail
            continue
        if low in ("my", "our", "mine", "ours", "me", "us", "myself", "ourselves"):
            out.append(_own(low, name, named or _SUBJECT.search(" ".join(words[index:])) is not None, out) + tail)
            continue
        if expects_verb and low == "and":  # `I and my wife have`: a plural subject
            expects_verb = False
        if expects_verb:
            if low in _ADVERBS or (low.endswith("ly") and low not in _LY_VERBS):
                out.append(word)
                continue
            verb = _third(low)
            out.append((verb if verb != low else bare) + tail)
            expects_verb = False
            negated = verb in ("doesn't",) or low in _MODALS
            continue
        if word in ("'m", "'re", "'ve", "'ll", "'d"):  # after "they"
            out.append({"'m": "are", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would"}[word])
            continue
        if low in ("am", "was") and out and out[-1] == "they":
            out.append({"am": "are", "was": "were"}[low])
            continue
        joined = low in _PRESENT and out and out[-1] in ("and", "but") and not negated
        if joined and _AFTER_VERB.match(" ".join(words[index + 1 : index + 2])) and _simple_present(out, name):
            out.append(_third(low) + tail)
            continue
        out.append(word)
    return " ".join(out)


def _own(low: str, name: str, has_subject: bool, out: list[str]) -> str:
    if low in ("my", "our"):
        return "their" if out and (has_subject or f"{name}'s" in out) else f"{name}'s"
    if low in ("mine", "ours"):
        return "theirs" if has_subject else f"{name}'s"
    if low in ("myself", "ourselves"):
        return "themself"
    return "them" if has_subject else name


def _third(verb: str) -> str:
    """The form after a name, of a word that stood after I or we."""
    if verb in _IRREGULAR_THIRD:
        return _IRREGULAR_THIRD[verb]
    if verb == "'ll":
        return "will"
    if verb == "'d":
        return "would"
    if verb in BASES and verb not in _PAST:
        return third(verb)
    if verb in _PAST or verb in _MODALS or verb.endswith(("ed", "n't")) or not verb.isalpha():
        return verb
    return third(verb)


def _simple_present(out: list[str], name: str) -> bool:
    """Whether the verb right after the name is a present one, so that a verb joined by "and" follows it."""
    try:
        after = [word for word in out[out.index(name) + 1 :] if word not in _ADVERBS]
    except ValueError:
        return False
    return bool(after) and after[0].endswith("s") and after[0] not in ("was", "is")
