"""The Porter stemmer as the official LoCoMo F1 uses it: NLTK's default mode, which is the algorithm of M. F. Porter
(1980) with a few irregular words, other rules for short ones (`dies` → die, `try` → tri like `tries`, `enjoy` as it is)
and more endings (`-bli`, `-fulli`, `-logi`). Own implementation of the five steps."""

from __future__ import annotations

from functools import lru_cache

_IRREGULAR = {
    "sky": "sky",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}
_STEP2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"),
)  # fmt: skip
_STEP3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of one lower-cased word; words of up to two letters stay as they are."""
    word = word.lower()
    if word in _IRREGULAR or len(word) <= 2:
        return _IRREGULAR.get(word, word)
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and len(word) > 2 and _consonant(word, len(word) - 2):
        word = word[:-1] + "i"
    word = _derived(word)
    word = _replace(word, _STEP3)
    word = _strip(word)
    return _tidy(word)


def _consonant(word: str, index: int) -> bool:
    """A y is one at the beginning and after a vowel; in a run of them every other one is."""
    if word[index] != "y":
        return word[index] not in "aeiou"
    before = word[:index].rstrip("y")
    return (not before or before[-1] in "aeiou") == ((index - len(before)) % 2 == 0)


def _measure(part: str) -> int:
    """Number of vowel-consonant sequences."""
    count, before_vowel = 0, False
    for index in range(len(part)):
        vowel = not _consonant(part, index)
        count += before_vowel and not vowel
        before_vowel = vowel
    return count


def _has_vowel(part: str) -> bool:
    return any(not _consonant(part, index) for index in range(len(part)))


def _double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonant(word, len(word) - 1)


def _cvc(word: str) -> bool:
    """Short: consonant, vowel, consonant at its end, or nothing but a vowel and a consonant."""
    last = len(word) - 1
    if last == 1:
        return not _consonant(word, 0) and _consonant(word, 1)
    return (
        last >= 2
        and _consonant(word, last)
        and not _consonant(word, last - 1)
        and _consonant(word, last - 2)
        and word[last] not in "wxy"
    )


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and _has_vowel(word[: -len(suffix)]):
            word = word[: -len(suffix)]
            if word.endswith(("at", "bl", "iz")):
                return word + "e"
            if _double(word) and word[-1] not in "lsz":
                return word[:-1]
            return word + "e" if _measure(word) == 1 and _cvc(word) else word
    return word


def _derived(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _derived(word[:-2])
    if word.endswith("logi") and _measure(word[:-3]) > 0:  # the l counts, or `geo` would be too short
        return word[:-1]
    return _replace(word, _STEP2)


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """The rule with the longest matching suffix decides, whether or not its condition holds."""
    matching = [rule for rule in rules if word.endswith(rule[0])]
    if not matching:
        return word
    suffix, new = max(matching, key=lambda rule: len(rule[0]))
    part = word[: -len(suffix)]
    return part + new if _measure(part) > 0 else word


def _strip(word: str) -> str:
    matching = [suffix for suffix in _STEP4 if word.endswith(suffix)]
    if not matching:
        return word
    suffix = max(matching, key=len)
    part = word[: -len(suffix)]
    if _measure(part) <= 1 or (suffix == "ion" and not part.endswith(("s", "t"))):
        return word
    return part


def _tidy(word: str) -> str:
    if word.endswith("e"):
        part = word[:-1]
        measure = _measure(part)
        if measure > 1 or (measure == 1 and not _cvc(part)):
            word = part
    return word[:-1] if _double(word) and word.endswith("l") and _measure(word) > 1 else word
