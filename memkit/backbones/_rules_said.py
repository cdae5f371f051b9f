"""What people type → clauses in plain spelling, each with the reason why nothing can be a fact in it, if there is one.

Only a person's own words count: pasted mails, quotations, lists, code, other languages, jokes and "what if" are passed
over. All of it is linear in the text, and a long text is left alone: its words are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memkit.backbones._rules_dates import RELATIVE
from memkit.backbones._rules_verbs import PEOPLE, PETS
from memkit.backbones._rules_words import phrases
from memkit.text.words import fold

LONGEST = 4_000
"""Characters of a turn that somebody may have typed; longer ones are pasted."""
_MOST_WORDS = 60

GREETING = "a greeting or small talk"
QUESTION = "a question"
REQUEST = "a request"
FOREIGN = "not in English: the words themselves are kept"
PASTED = "pasted or quoted text: the words themselves are kept"
LONG = "a long text: the words themselves are kept"
JOKE = "perhaps a joke"
UNREAL = "a guess, a wish or a condition"
UNSURE = "no fact that the rules are sure of: the words themselves are kept"
_WEIGHT = (UNSURE, PASTED, FOREIGN, LONG, UNREAL, JOKE, REQUEST, QUESTION, GREETING)


def weightiest(reasons: list[str]) -> str:
    """The one reason to give for a turn."""
    return min(reasons, key=lambda one: _WEIGHT.index(one) if one in _WEIGHT else -1, default=GREETING)


@dataclass(frozen=True, slots=True)
class Clause:
    text: str
    barred: str = ""
    """Why no fact may be taken from it."""


def clauses(text: str) -> Iterator[Clause]:
    if len(text) > LONGEST:
        yield Clause("", LONG)
        return
    own, pasted = _own_words(text)
    if pasted:
        yield Clause("", PASTED)
    if is_foreign(own):
        yield Clause("", FOREIGN)
        return
    task = _LANGUAGE_TASK.search(own)
    for line in own.splitlines():
        for sentence in _SENTENCE_END.split(" ".join(line.split())):
            said = sentence.strip("*_• ")
            if said:
                yield from _of_sentence(said, bool(task))


# ---- whose words -------------------------------------------------------------------------------------------------

_HEADER = re.compile(
    r"^\s*(?:(?:subject|from|to|cc|sent|date|re|fwd?)\s*:|fwd?\b|-{3,}|_{3,}|begin forwarded|on .{4,60} wrote:)",
    re.IGNORECASE,
)
_SALUTATION = re.compile(
    r"^\s*(?:dear|hi|hello|hey|good (?:morning|afternoon|evening)|(?i:to whom it may concern))"
    r"(?: (?-i:[A-Z])[\w.'’-]{0,30}){0,4}\s?[,:!]?\s*$",
    re.IGNORECASE,
)
_DEAR = re.compile(r"^\s*dear\b.{1,60},", re.IGNORECASE)
_SIGN_OFF = re.compile(
    r"^\s*(?:(?:(?:with )?(?:kind|best|warm|many)?\s?(?:regards|wishes))|sincerely|yours\b.{0,20}|warmly|cheers|best"
    r"|love|many thanks|thanks)\b.{0,80}$",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"^\s*(?:[\[(]?\d[\d:./, apm]{2,20}[\])]?[\s–-]*)?(?P<label>[A-Z][\w'-]{1,20}(?: [A-Z][\w'-]{0,20})?):\s"
)
_OWN_LABELS = frozenset("update note correction edit context fact news remember reminder background info me".split())
_PASTES = re.compile(
    r"\b(?:e-?mail|mail|letter|message|msg|texts?|note|article|review|story|poem|post|paragraph|transcript|says?|said"
    r"|wrote|writes?|sent|reads|below|following|this|that|here|draft|bio|resume|résumé|cv|lyrics|quotes?|sentence|fwd"
    r"|forwarded|summari[sz]e|translate|proofread|rewrite|rephrase|paraphrase|edit|fix|check|correct|improve|shorten"
    r"|caption|tweet|dialogue|scene|line|answer|reply|repl(?:y|ies)|got)\b[^:]{0,60}:\s*$",
    re.IGNORECASE,
)
_INLINE_PASTE = re.compile(
    r"\b(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|correct|edit|shorten|repeat|say|write|says|said"
    r"|wrote|writes|e-?mail|mail|letter|message|sentence|text|poem|lyrics|quote)\b[^:\n]{0,60}:\s",
    re.IGNORECASE,
)
_LANGUAGE_TASK = re.compile(
    r"\b(?:translate|proofread|rephrase|paraphrase|rewrite|role-?play|pretend|act as|in character|grammar"
    r"|how (?:do|would|can|to) (?:you |i |we )?(?:say|write|spell|pronounce)|what does .{1,60} mean)\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^\s*(?:[-*•–+]\s|\d{1,3}[.)]\s|\[[ x]?\]|\||#)")
_QUOTE_MARKS = re.compile('["“”„«»]')
_TITLE_WORDS = 6
_SAID_ALOUD = re.compile(r"[.!?](?:\s|$)|\n|^\s*(?:I|my|we|our|you)\b", re.IGNORECASE)
_CUT = "\ue000"
"""Stands where a quotation was."""


def _own_words(text: str) -> tuple[str, bool]:
    """What the person typed, and whether something else was taken out."""
    text, pasted = _unquoted(text.replace("\ue000", " "))
    lines = text.splitlines()
    items = sum(bool(_ITEM.match(line)) for line in lines)
    kept: list[str] = []
    letter = fenced = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            fenced, pasted = not fenced, True
            continue
        if letter and _SIGN_OFF.match(line):
            letter = False
            lines[number + 1 : number + 3] = ["" if _is_name(one) else one for one in lines[number + 1 : number + 3]]
            continue
        last = number == len(lines) - 1
        if _HEADER.match(line) or _DEAR.match(line) or (_SALUTATION.match(line) and not last and number > 0):
            letter = True
        speaker = _SPEAKER.match(line)
        if speaker and speaker["label"].lower() not in _OWN_LABELS:
            pasted = True
            continue
        if letter or fenced or line.lstrip().startswith(">") or (items > 1 and _ITEM.match(line)):
            pasted = pasted or bool(line.strip())
            continue
        inline = _INLINE_PASTE.search(line)
        if inline:
            pasted, line = True, line[: inline.start()]
        if (inline or _PASTES.search(line)) and not last:
            letter = True
        kept.append(line)
    return "\n".join(kept), pasted


def _is_name(line: str) -> bool:
    return 0 < len(line.split()) <= 4 and not line.rstrip().endswith((".", "?", "!"))


def _unquoted(text: str) -> tuple[str, bool]:
    """Without quotations. A quoted title of a few words stays; a mark without its partner is no quotation."""
    parts = _QUOTE_MARKS.split(text)
    cut = False
    for number in range(1, len(parts) - 1, 2):
        if len(parts[number].split()) > _TITLE_WORDS or _SAID_ALOUD.search(parts[number]):
            parts[number], cut = f" {_CUT} ", True
        else:
            parts[number] = f'"{parts[number].strip()}"'
    return "".join(parts), cut


_LETTERS = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset(
    """the a an i i'm im my me you your is are was am and or but to of in for on with at it that this have has do does
    don't dont not what how can be so we our from about please just need want like no yes hi hey""".split()
)
_OTHERS = frozenset(
    """der die das und ist nicht ich bin ein eine mit auf für zu wir habe le la les est je un une et que pas pour dans
    mon ma el los las es una por con mi soy en tengo não uma para meu minha sou em het een ik niet van mijn ben heb och
    är jag inte det en som jeg er og ikke på min nie jest się mam jestem w z ve bir bu için çok ben ang ng sa mga ako ko
    po na saya yang dan tidak di il di che non sono mio ho io del della și nu sunt am az egy nem vagyok és on ei olen ja
    że to hogy moj tôi là không và của""".split()
) - {"am", "on", "to", "die", "in", "a"}


def is_foreign(text: str) -> bool:
    """Whether the words are mostly of another language: another script, or more of its common words than of ours."""
    letters = [word.casefold() for word in _LETTERS.findall(text[:1_000])]
    if not letters:
        return False
    size = sum(map(len, letters))
    if sum(len(word) for word in letters if not fold(word).isascii()) > 0.3 * size:
        return True
    ours, theirs = (sum(word in common for word in letters) for common in (_ENGLISH, _OTHERS))
    return theirs > ours or (ours == 0 and theirs > 0 and len(letters) > 3)


# ---- sentences and clauses ---------------------------------------------------------------------------------------

_ABBREVIATED = "".join(
    rf"(?<!\b{short}\.)"
    for short in (
        "[A-Za-z]",
        "Dr",
        "Mr",
        "Ms",
        "St",
        "No",
        "vs",
        "Sr",
        "Jr",
        "Mrs",
        "etc",
        "Prof",
        "Inc",
        "Ltd",
        "approx",
    )
)
_SENTENCE_END = re.compile(rf"(?<=[.!?…]){_ABBREVIATED}\"?\s+|(?<=[.!?…])\"?\s+(?=(?:I|We|My|Our)\b)")
_PICTURES = re.compile("[\u2190-\u2bff\ufe0e\ufe0f\u200d\U0001f000-\U0001faff]+")
_LAUGHING = re.compile("[\U0001f602\U0001f923\U0001f644\U0001f60f\U0001f61c\U0001f92a\U0001f643]")

_PLAIN = {
    "im": "I'm", "ive": "I've", "i'm": "I'm", "i've": "I've", "i'll": "I'll", "i'd": "I'd", "dont": "don't",
    "doesnt": "doesn't", "didnt": "didn't", "cant": "can't", "wont": "won't", "isnt": "isn't", "arent": "aren't",
    "wasnt": "wasn't", "werent": "weren't", "havent": "haven't", "hasnt": "hasn't", "hadnt": "hadn't",
    "couldnt": "couldn't", "wouldnt": "wouldn't", "shouldnt": "shouldn't", "whats": "what's", "thats": "that's",
    "theres": "there's", "hes": "he's", "shes": "she's", "theyre": "they're", "theyve": "they've", "youre": "you're",
    "youve": "you've", "weve": "we've", "lets": "let's", "ur": "your", "pls": "please", "plz": "please",
    "cos": "because", "cuz": "because", "coz": "because", "bc": "because", "ya": "you", "gf": "girlfriend",
    "bf": "boyfriend", "bday": "birthday", "yrs": "years", "yr": "year", "ppl": "people",
    "alergic": "allergic", "allergc": "allergic",
}  # fmt: skip
_SPELLED = re.compile(
    r"(?<![\w'’./@-])(?:" + "|".join(sorted(map(re.escape, _PLAIN), key=len, reverse=True)) + r")(?![\w'’/@-])", re.I
)
_LETTER = re.compile(r"(?<![\w'’./@&-])(?:([un])(?![\w'’./@&-])|w(?:/|(?= )))(?!\.\w)")
_LETTERS_MEAN = {"u": "you", "n": "and", None: "with"}
_OWNERS = re.compile(
    rf"\b(my|our) ({'|'.join(sorted(PEOPLE | PETS))})s (?=(?:name|birthday|age|job|address|number|favou?rite)\b)", re.I
)
_CAUSE = re.compile(r"(?<!\w)'cause\b", re.IGNORECASE)
_DO_NOT = re.compile(r"\b(do|does|did) not\b", re.IGNORECASE)
_LONE_I = re.compile(r"(?<![\w'’./@-])i(?=\s|['’](?:m|ve|ll|d)\b)")
_ILL = re.compile(r"(?<![\w'’-])(?:ill|Ill) (?=(?:be|have|take|go|start|move)\b)")
_ID = re.compile(r"(?<![\w'’-])(?:id|Id) (?=(?:like|love|rather|prefer|say)\b)")
_PAIR = re.compile(r"(?:^|(?<=, ))(?:me and ((?:my|our) [\w-]+)|((?:my|our) [\w-]+) and I)\b", re.IGNORECASE)
_WHEN = re.compile(rf"^(?:{RELATIVE.pattern}|(?:in|on|since) [\w ]{{3,24}}), (?=(?:I|we|my|our)\b)", re.IGNORECASE)
_FILLERS = re.compile(
    r"[,]?(?<![\w'’-])(?:btw|by the way|tbh|to be honest|fyi|ngl|imo|imho|fwiw|as you know|for the record)(?![\w'’-])[,:]?"
    r"|[,]?(?<![\w'’-])lol(?![\w'’-])[,]?(?=\s*\S)",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\s?\([^()]{0,200}\)")


def plain(text: str) -> str:
    """`im allergic btw` → `I'm allergic`: spelling and fillers only."""
    text = _CAUSE.sub("because", _ASIDE.sub("", text.replace("’", "'")))
    text = _SPELLED.sub(lambda found: _PLAIN[found[0].lower()], text)
    text = _DO_NOT.sub(r"\1n't", text)
    text = _LETTER.sub(lambda found: _LETTERS_MEAN[found[1]], text)
    text = _PAIR.sub(lambda found: f"I and {found[1] or found[2]}", _OWNERS.sub(r"\1 \2's ", text))
    text = _ID.sub("I'd ", _ILL.sub("I'll ", _LONE_I.sub("I", text)))
    text = " ".join(_FILLERS.sub(", ", text).split()).replace(" ,", ",").lstrip(", ")
    return _WHEN.sub(lambda found: found[0].replace(",", ""), text)


_LEANS = ")(?<!".join(
    rf"\b{word}" for word in "think if that say said like know when since though as whether says".split()
)
_SPLIT = re.compile(
    r"(?<!\bI)(?:[,;:–—] ?| )(?:and|but|so|also|plus|then|because|given that|considering) (?=(?:I|we|my|our|I'\w{1,2}|we'\w{1,2})\b)"
    rf"|(?<!{_LEANS}) (?=I'm (?:not )?(?:vegan|vegetarian|allergic|lactose|diabetic|pregnant|c(?:o)?eliac)\b)"
    r"|;|[–—]| - |\.{2,}|…"
    r"|, (?=(?:I|we|I'\w{1,2}|we'\w{1,2}|my|our) )"
    r"|,? (?:so|and|but) (?=(?:what|how|which|where|can|could|would|should|any|is|are|do|please|give|recommend|suggest)\b)"
    r"|, (?=(?:what|how|which|where|who|when|why|can|could|would|should|any|is|are|do|does|please|give|recommend|suggest"
    r"|help|right|no|yes|correct|he|she|it|they|that|this|there|he's|she's|it's|they're|that's)\b)"
    r"|,? (?:and|but|so) (?=(?:he|she|it|they|he's|she's|it's|they're|that|that's|there|this)\b)",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"^(?:right|no|yes|yeah|correct|huh|eh|innit|ok|okay|true|really|(?:am|are|is|do|does|did|was|have|has|can)(?:n't)?"
    r" (?:I|we|he|she|it|they|that))\W*$",
    re.IGNORECASE,
)
_UNREAL = re.compile(
    r"\b"
    + phrases(
        r"""if/unless/wish/imagine/suppose/supposedly/hypothetically/pretend/might/maybe/perhaps/could/should
        /would (?!like to\b|love to\b)/would$/I'd (?!like to\b|love to\b)/sounds?/looks? like/seems?/I guess/in theory
        /what if/probably/not sure/I think/I bet/apparently/allegedly/almost/nearly/basically/in another life/dream"""
    )
    + r"(?:\b|(?<= ))",
    re.IGNORECASE,
)
_JOKE = re.compile(
    r"\b(?:kidding|joking|joke|jk|lmf?ao+|rofl|sarcasm|yeah right|as if|not really|hahah?a*|hehe|psych)\b|(?:^|\s)/s\b",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(r"\b(?:(?:just|only|was|am|'m) (?:kidding|joking)|jk|joke|psych)\b", re.IGNORECASE)
_REPORTED = re.compile(
    r"\b(?:said|says|say|told|tells|tell|thinks?|thought|claims?|claimed|asked|asks|calls|called me|wrote|writes"
    r"|believes?|believed|heard|reckons?|insists?|joked|texted|shouted|whispered)\b",
    re.IGNORECASE,
)


def is_taken_back(text: str) -> bool:
    """`just kidding`: what was said before it does not count."""
    return bool(_TAKEN_BACK.search(text)) and len(text.split()) < 12


def _of_sentence(sentence: str, task: bool) -> Iterator[Clause]:
    if len(sentence.split(None, _MOST_WORDS * 3)) > _MOST_WORDS * 3:
        yield Clause("", UNSURE)
        return
    joke = bool(_LAUGHING.search(sentence))
    asked = sentence.rstrip(" \"')").endswith("?")
    pieces = [piece for part in _PICTURES.split(sentence) for piece in _divide(plain(part).rstrip(" .!…?\"'"))]
    last = len(pieces) - 1
    if pieces and asked and _TAG.match(pieces[-1]):
        last = -1
    for number, piece in enumerate(pieces):
        yield Clause(piece, _bar(piece, sentence, joke, task, asked and (number >= last or last < 0)))


def _bar(piece: str, sentence: str, joke: bool, task: bool, asked: bool) -> str:
    if _CUT in sentence or task:
        return PASTED
    if asked:
        return QUESTION
    if joke or _JOKE.search(piece):
        return JOKE
    if _UNREAL.search(piece) or _UNREAL.match(sentence):
        return UNREAL
    return ""


def _divide(sentence: str) -> list[str]:
    parts = [part.strip(" ,:") for part in _SPLIT.split(sentence)]
    parts = [part for part in parts if part]
    return parts if all(len(part.split()) > 1 or _TAG.match(part) for part in parts[1:]) else [sentence]


def is_reported(clause: str) -> bool:
    return bool(_REPORTED.search(clause))
