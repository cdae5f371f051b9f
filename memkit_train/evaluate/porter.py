"""The Porter stemmer (M. F. Porter, 1980), as the official LoCoMo F1 needs it. Own implementation of the five steps."""

from __future__ import annotations

from functools import lru_cache

_STEP2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of one lower-cased word; words of up to two letters stay as they are."""
    word = word.lower()
    if len(word) <= 2:
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP2)
    word = _replace(word, _STEP3)
    word = _strip(word)
    return _tidy(word)


def _consonant(word: str, index: int) -> bool:
    letter = word[index]
    if letter in "aeiou":
        return False
    return letter != "y" or index == 0 or not _consonant(word, index - 1)


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
    last = len(word) - 1
    return (
        last >= 2
        and _consonant(word, last)
        and not _consonant(word, last - 1)
        and _consonant(word, last - 2)
        and word[last] not in "wxy"
    )


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
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
