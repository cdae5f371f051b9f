"""English word → stem, so that "adopted", "adopting" and "adopts" are one term.

Own implementation of the published Porter2 description (suffix rules over the regions R1 and R2), plus a table of
irregular forms: conversations are full of "went", "bought" and "children", which no suffix rule can join. Words that
are not plain ASCII letters pass unchanged, so other languages keep their own words.
"""

from __future__ import annotations

from memkit.memo import remember

_VOWELS = frozenset("aeiouy")
_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
_LI_ENDING = frozenset("cdeghkmnrt")

_FIXED = {
    "skis": "ski",
    "skies": "sky",
    "sky": "sky",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
    "news": "news",
    "howe": "howe",
    "atlas": "atlas",
    "cosmos": "cosmos",
    "bias": "bias",
    "andes": "andes",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
}
_KEEP_AFTER_1A = frozenset(
    {"inning", "outing", "evening", "canning", "herring", "earring", "proceed", "exceed", "succeed"}
)

_R1_PREFIXES = ("gener", "commun", "arsen", "univers", "organ", "inter", "emerg", "later", "past")

_STEP_2 = (
    ("ization", "ize"), ("ational", "ate"), ("fulness", "ful"), ("ousness", "ous"), ("iveness", "ive"),
    ("tional", "tion"), ("biliti", "ble"), ("lessli", "less"), ("entli", "ent"), ("ation", "ate"), ("alism", "al"),
    ("aliti", "al"), ("ousli", "ous"), ("iviti", "ive"), ("fulli", "ful"), ("enci", "ence"), ("anci", "ance"),
    ("abli", "able"), ("izer", "ize"), ("ator", "ate"), ("alli", "al"), ("bli", "ble"), ("ogi", "og"), ("li", ""),
)  # fmt: skip
_STEP_3 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("alize", "al"),
    ("icate", "ic"),
    ("iciti", "ic"),
    ("ative", ""),
    ("ical", "ic"),
    ("ness", ""),
    ("ful", ""),
)
_STEP_4 = (
    "ement",
    "ance",
    "ence",
    "able",
    "ible",
    "ment",
    "ant",
    "ent",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
    "ion",
    "al",
    "er",
    "ic",
)

_IRREGULAR_LINES = """
be am is are was were been being
have has had having
do does did done doing
go goes went gone going
buy bought; bring brought; think thought; teach taught; catch caught; fight fought; seek sought
see saw seen; take took taken; give gave given; get got gotten; make made; come came; become became
know knew known; grow grew grown; throw threw thrown; fly flew flown; draw drew drawn; show shown; blow blew blown
write wrote written; drive drove driven; ride rode ridden; rise rose risen; choose chose chosen; speak spoke spoken
break broke broken; wake woke woken; steal stole stolen; freeze froze frozen; wear wore worn; tear tore torn
swear swore sworn; bear bore born; eat ate eaten; fall fell fallen; forget forgot forgotten; hide hid hidden
bite bit bitten; shake shook shaken; mistake mistook mistaken; begin began begun; drink drank drunk; ring rang rung
sing sang sung; swim swam swum; run ran; win won; hang hung; dig dug; stick stuck; strike struck; sit sat; stand stood
understand understood; find found; bind bound; hold held; tell told; sell sold; say said; pay paid; lay laid
hear heard; lead led; feed fed; read; meet met; keep kept; sleep slept; sweep swept; feel felt; leave left; lose lost
mean meant; dream dreamt; learn learnt; build built; send sent; spend spent; lend lent; bend bent; shoot shot
light lit; slide slid; fit; win won; spin spun; shine shone; forgive forgave forgiven; deal dealt; sew sewn
child children; man men; woman women; person people persons; foot feet; tooth teeth; mouse mice; goose geese
wife wives; knife knives; leaf leaves; half halves; shelf shelves; wolf wolves; loaf loaves; thief thieves
good better best; bad worse worst; mum mom mommy mama mother moms mums; dad daddy papa father dads
"""


def _irregular() -> dict[str, str]:
    table: dict[str, str] = {}
    for line in _IRREGULAR_LINES.strip().splitlines():
        for group in line.split(";"):
            base, *forms = group.split()
            table.update(dict.fromkeys(forms, base))
    return table


_IRREGULAR = _irregular()


_SHORTEST, _ENDING = 4, 2
"""Letters that stay of a word in other letters, and that may be an ending."""


def stem(word: str) -> str:
    """Stem of a lower-case word: of an English one; of words in other letters, what stays when an ending goes."""
    if not word.isascii():
        return word[: max(_SHORTEST, len(word) - _ENDING)]
    return english_stem(word)


@remember(65_536)
def english_stem(word: str) -> str:
    """Memoised: a bank repeats its words."""
    word = _IRREGULAR.get(word, word)
    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    if word in _FIXED:
        return _FIXED[word]
    return _porter2(word)


def _porter2(word: str) -> str:
    word = _mark_consonant_y(word)
    r1 = _region(word, 0)
    for prefix in _R1_PREFIXES:
        if word.startswith(prefix):
            r1 = len(prefix)
    r2 = _region(word, r1)
    word = _step_1a(word)
    if word in _KEEP_AFTER_1A:
        return word
    word = _step_1b(word, r1)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
        word = word[:-1] + "i"
    word = _step_2(word, r1)
    word = _step_3(word, r1, r2)
    word = _step_4(word, r2)
    return _step_5(word, r1, r2).lower()


def _mark_consonant_y(word: str) -> str:
    """`Y` stands for a y that acts as a consonant: at the start, or after a vowel."""
    letters = list(word)
    for position, letter in enumerate(letters):
        if letter == "y" and (position == 0 or letters[position - 1] in _VOWELS):
            letters[position] = "Y"
    return "".join(letters)


def _region(word: str, start: int) -> int:
    """Where the part after the first consonant that follows a vowel begins, looking from `start`."""
    for position in range(start + 1, len(word)):
        if word[position] not in _VOWELS and word[position - 1] in _VOWELS:
            return position + 1
    return len(word)


def _has_vowel(part: str) -> bool:
    return any(letter in _VOWELS for letter in part)


def _ends_short(word: str) -> bool:
    """A short syllable closes the word: consonant-vowel-consonant (not w, x, Y), or vowel-consonant as a whole."""
    if len(word) == 2:
        return word[0] in _VOWELS and word[1] not in _VOWELS
    if len(word) < 3:
        return False
    before, vowel, last = word[-3], word[-2], word[-1]
    return before not in _VOWELS and vowel in _VOWELS and last not in _VOWELS and last not in "wxY"


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")) or not word.endswith("s"):
        return word
    return word[:-1] if _has_vowel(word[:-2]) else word


def _step_1b(word: str, r1: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            return word[: len(word) - len(suffix)] + "ee" if len(word) - len(suffix) >= r1 else word
    for suffix in ("ingly", "edly", "ing", "ed"):
        if not word.endswith(suffix):
            continue
        base = word[: -len(suffix)]
        if not _has_vowel(base):
            return word
        if base.endswith(("at", "bl", "iz")):
            return base + "e"
        if base.endswith(_DOUBLES):
            return base if len(base) == 3 and base[0] in "aeo" else base[:-1]
        if r1 >= len(base) and _ends_short(base):
            return base + "e"
        return base
    return word


def _step_2(word: str, r1: int) -> str:
    for suffix, replacement in _STEP_2:
        if not word.endswith(suffix):
            continue
        base = word[: -len(suffix)]
        if len(base) < r1:
            return word
        if suffix == "ogi" and not base.endswith("l"):
            return word
        if suffix == "li" and (not base or base[-1] not in _LI_ENDING):
            return word
        return base + replacement
    return word


def _step_3(word: str, r1: int, r2: int) -> str:
    for suffix, replacement in _STEP_3:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            if len(base) < (r2 if suffix == "ative" else r1):
                return word
            return base + replacement
    return word


def _step_4(word: str, r2: int) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            if len(base) < r2 or (suffix == "ion" and base[-1:] not in ("s", "t")):
                return word
            return base
    return word


def _step_5(word: str, r1: int, r2: int) -> str:
    base = word[:-1]
    if word.endswith("e"):
        return base if len(base) >= r2 or (len(base) >= r1 and not _ends_short(base)) else word
    if word.endswith("ll") and len(base) >= r2:
        return base
    return word
