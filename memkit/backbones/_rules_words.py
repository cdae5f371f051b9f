"""Words as the rule baseline sees them: tokens, crude stems, groups of words that mean the same for memory."""

from __future__ import annotations

import re

from memkit.memo import remember

TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

STOP = frozenset(
    """a an the this that these those and or but so because while as of to in on at by for from with without into onto
    about over under up down out off is are was were be been being am has have had do does did will would shall should
    can could may might must i me my mine myself we us our ours you your he him his she her hers it its they them
    their theirs themself who whom whose which what when where why how there here then than very really just quite
    also too again another second third more most some any all both each every other such own same s t d ll re ve m
    not no nor never longer anymore now still already currently recently finally actually new old before user
    named called name""".split()
)

_IRREGULAR = {
    "went": "go", "gone": "go", "goes": "go", "got": "get", "gotten": "get", "bought": "buy", "ran": "run",
    "saw": "see", "seen": "see", "made": "make", "took": "take", "taken": "take", "gave": "give", "given": "give",
    "came": "come", "met": "meet", "ate": "eat", "eaten": "eat", "wrote": "write", "written": "write", "read": "read",
    "began": "begin", "begun": "begin", "left": "leave", "lost": "lose", "sold": "sell", "told": "tell", "felt": "feel",
    "thought": "think", "knew": "know", "known": "know", "found": "find", "built": "build", "spent": "spend",
    "won": "win", "taught": "teach", "flew": "fly", "drove": "drive", "rode": "ride", "swam": "swim", "sang": "sing",
    "broke": "break", "chose": "choose", "grew": "grow", "wore": "wear", "slept": "sleep", "brought": "bring",
    "had": "have", "has": "have", "did": "do", "does": "do", "was": "be", "were": "be", "is": "be", "are": "be",
    "children": "child", "kids": "child", "kid": "child", "wives": "wife", "mice": "mouse", "people": "person",
    "moved": "move", "moving": "move", "named": "name", "lived": "live", "living": "live", "lives": "live",
    "loves": "like", "loved": "like", "loving": "like", "tried": "try", "studies": "study", "studied": "study",
    "quit": "quit", "died": "die", "dying": "die", "used": "use", "owned": "own", "married": "marry",
}  # fmt: skip

_SAME = {
    **dict.fromkeys(("love", "enjoy", "adore", "fan", "fond", "lik"), "like"),
    **dict.fromkeys(("hate", "detest", "despise"), "dislike"),
    **dict.fromkeys(("reside", "relocate", "home", "move", "based"), "live"),
    **dict.fromkeys(("job", "employ", "employer", "employee"), "work"),
    **dict.fromkeys(("purchase", "bought"), "buy"),
    **dict.fromkeys(("film",), "movie"),
    **dict.fromkeys(("puppy", "pup", "doggy"), "dog"),
    **dict.fromkeys(("kitten", "kitty"), "cat"),
    **dict.fromkeys(("automobile", "vehicle"), "car"),
    **dict.fromkeys(("bicycle",), "bike"),
    **dict.fromkeys(("flat",), "apartment"),
    **dict.fromkeys(("start",), "begin"),
    **dict.fromkeys(("travel", "trip"), "visit"),
    **dict.fromkeys(("mom", "mum"), "mother"),
    **dict.fromkeys(("dad",), "father"),
    **dict.fromkeys(("favorite", "favourite", "favorit", "favourit"), "favourite"),
    **dict.fromkeys(("colour",), "color"),
    **dict.fromkeys(("adopt", "own", "get"), "have"),
}

_KEPT = frozenset(_IRREGULAR.values()) | frozenset(_SAME.values())
"""Words that are stems already, whatever their ending."""

PETS = frozenset("dog cat hamster rabbit parrot bird turtle tortoise guinea ferret fish lizard snake horse".split())


def phrases(text: str) -> str:
    """A regular expression for one of the `/`-separated phrases."""
    return "(?:" + "|".join(" ".join(phrase.split()) for phrase in text.split("/")) + ")"


def tokens(text: str) -> list[str]:
    return [token.replace("’", "'") for token in TOKEN.findall(text)]


@remember(8_192)
def stem(token: str) -> str:
    """One form for the forms of a word; wrong for many words, but the same wrong for each of their forms."""
    word = token.casefold().replace("’", "'").removesuffix("'s")
    word = _IRREGULAR.get(word, word)
    if word not in _KEPT:
        if len(word) > 4 and word.endswith("ies"):
            word = word[:-3] + "y"
        elif len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
            word = word[:-2]
        elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
            word = word[:-1]
        for ending in ("ing", "ed"):
            if len(word) > len(ending) + 2 and word.endswith(ending):
                word = word.removesuffix(ending)
                if len(word) > 2 and word[-1] == word[-2] and word[-1] not in "ls":
                    word = word[:-1]
                break
        if word + "e" in _KEPT or word + "e" in _SAME:
            word += "e"
        elif word not in _KEPT and word not in _SAME and len(word) > 3:
            word = word.removesuffix("e")
    return _SAME.get(word, word)


@remember(2_048)
def content(text: str) -> frozenset[str]:
    """Stems of the words that carry meaning."""
    return frozenset(stem(token) for token in tokens(text) if _carries(token.casefold()))


def _carries(token: str) -> bool:
    return token not in STOP and (len(token) > 1 or token.isdigit()) and not token.endswith("n't")


def single_line(text: str, limit: int) -> str:
    """`text` as one clean line of at most `limit` characters, cut between words."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(plain) <= limit:
        return plain
    whole = plain[:limit].rsplit(" ", 1)[0].strip()
    return whole if len(whole) > limit // 2 else plain[:limit].strip()  # one long word (a URL) is what it is about
