"""What a request to forget names, and which sentences say it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from memkit.text.requests import LITTLE_WORDS, after_request, asks_to_forget, find_own, named_to_forget, own_noun
from memkit.text.words import fold, terms

SHARE = 0.67
"""Of the words that are named, those that a sentence has where it says the same."""
_ROOT, _ENDING = 4, 3
"""Letters that a word has at least without its ending, and an ending at most."""
NO_CONTENT = frozenset(terms("user users user's"))
_OF_REQUESTS = NO_CONTENT | frozenset(
    terms("forget erase wipe delete clear remove remember stop memory memories please everything anything know")
    + terms("said told thing stuff " + " ".join(LITTLE_WORDS))
)


@dataclass(frozen=True, slots=True)
class NamedWords:
    text: str
    terms: frozenset[str]
    own: str = ""
    """`my birthday`: where it is one word, only what somebody says of his own is meant."""

    def find_shared(self, sentence: str) -> frozenset[str]:
        """The terms that a sentence has, with other endings, too."""
        said = set(terms(sentence))
        return frozenset(term for term in self.terms if any(_begins(term, one) for one in said))

    def is_of_own(self, sentence: str) -> bool:
        my, _, noun = fold(self.own).partition(" ")
        return not noun or bool(re.search(rf"\b{re.escape(my[:2])}\w*\W+{re.escape(noun)}", fold(sentence)))

    def are_said(self, sentence: str) -> bool:
        found = self.find_shared(sentence)
        return self.is_of_own(sentence) and (has_number(found) or 0 < SHARE * len(self.terms) <= len(found))


def named_in(request: str) -> NamedWords | None:
    """None where nothing is asked to be forgotten, or where nothing tells what."""
    if not asks_to_forget(request):
        return None
    named = named_to_forget(request)
    text = named or after_request(request)
    found = frozenset(terms(text)) - _OF_REQUESTS
    own = own_noun(request) if len(found) == 1 and not named else ""
    is_clear = (found and (named or own)) or len(found) > 1 or has_number(found)
    return NamedWords(text.strip(), found, own) if is_clear else None


def named_by(text: str) -> NamedWords:
    """What words name that a request was clear about."""
    found = frozenset(terms(text)) - _OF_REQUESTS
    return NamedWords(text, found, find_own(text) if len(found) == 1 else "")


def has_number(found: Iterable[str]) -> bool:
    """Numbers are what people want forgotten, and nobody says one by chance."""
    return any(letter.isdigit() for term in found for letter in term)


def _begins(one: str, other: str) -> bool:
    """Whether two words are one but for an ending of the longer."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _ROOT and len(long) - len(short) <= _ENDING and long.startswith(short))
