"""Which sentences say what always matters: how to answer and whom, what people must not eat or do for their health.

Words of twenty languages that say it without doubt; what is said in others is found like everything else. A question
says nothing of the kind, unless it also tells ("I'm vegan, what can I cook?"). A replay marks by these words what a log
marked: where a release changes them, `memkit.ops.EDITION` counts up, and what earlier editions marked by stays.
"""

from __future__ import annotations

import re

from memkit.text import standing_words_7 as words_7
from memkit.text.diets import is_not_eaten
from memkit.text.passages import sentences
from memkit.text.standing_words import words_for

LONGEST = 300
"""Characters of a sentence that may stand: what is longer is a story."""

_ASKS = re.compile(r"[?？؟]\s*$")
_OWN = re.compile(
    r"\b(?:i|i'?m|im|i've|my|user|user's|ich|bin|mein\w*|soy|tengo|mi|je|j'ai|mon|ma|sono|ho|sou|tenho|ik|ben|mijn|jestem|mam|jag|min|saya|aku|tôi|mình)\b|я |мен[яе]|мой|моя|у мен|أنا|لدي|मुझे|मैं|আমি|আমার|我|私|僕|俺|제가|저는|나는|난 |אני|יש לי|είμαι|έχω|ผม|ฉัน"
)


def stands(text: str) -> bool:
    """Whether something in a text always matters."""
    said = [one for one in sentences(text) if _is_said(one)]
    return bool(said) and _may_stand(_fold(text)) and any(_may_stand(_fold(one)) for one in said)


def stood(text: str) -> bool:
    """The same by the words of edition 7."""
    return any(_is_said(one) and _stood(_fold(one)) for one in sentences(text)) if _stood(_fold(text)) else False


def standing_part(text: str) -> str:
    """The sentences that say what always matters; "" where none does."""
    return " ".join(one for one in sentences(text) if _is_said(one) and _may_stand(_fold(one)))


def is_of_health(text: str) -> bool:
    """What could hurt if it were forgotten comes before all else that stands."""
    return _is_of_health(_fold(text))


def is_own(text: str) -> bool:
    """Whether somebody says it of himself, or of his own people."""
    return _OWN.search(_fold(text)) is not None


def _is_said(sentence: str) -> bool:
    return len(sentence) <= LONGEST and not (_ASKS.search(sentence) and not is_own(sentence))


def _may_stand(folded: str) -> bool:
    """Whether it is said at all; in a text of several sentences it may be asked, or said in a story."""
    return _is_of_health(folded) or any(
        words.called.search(folded) or words.answered.search(folded) for words in words_for(folded)
    )


def _is_of_health(folded: str) -> bool:
    return any(words.health.search(folded) for words in words_for(folded)) or is_not_eaten(folded)


def _stood(folded: str) -> bool:
    every = (words_7.HEALTH, words_7.DEAF, words_7.CALLED, words_7.ANSWERED)
    return any(said.search(folded) for said in every) or is_not_eaten(folded)


def _fold(text: str) -> str:
    """In lower case, each i and each s as one letter."""
    return text.lower().replace("i\u0307", "i").replace("ı", "i").replace("ſ", "s")
