"""Which words of a question stand for which words of a memory: learned from the log itself, without any gold.

"What pets does Ana have?" shares no telling word with "Ana has a rabbit named Bella.", and the hashing embedder knows
no synonyms. But thousands of answers cite memories, so the log says that questions with "pets" are answered by memories
with "named". Only words that several answers agree on count; a user's names and values never get that far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from memkit.text.words import terms
from memkit_train.log.records import AnswerEvent

SURE = 0.6
"""Share of a word's answers that must cite a memory with the other word."""
LIFT = 1.5
"""…and by how much more often than answers at large."""
LEAST = 5
"""…and how many of them there must be."""
CAPACITY = 200_000
"""Pairs that are kept while counting; the rare ones go first."""


class Topics:
    def __init__(self) -> None:
        self._answers = 0
        self._asked: Counter[str] = Counter()
        self._cited: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._stands_for: dict[str, frozenset[str]] = {}

    def learn(self, events: Iterable[tuple[AnswerEvent, Collection[str]]]) -> None:
        """Answers with the texts that each of them cited."""
        for event, texts in events:
            if event.abstained or not texts:
                continue
            asked, cited = set(terms(event.question)), {word for text in texts for word in terms(text)}
            self._answers += 1
            self._asked.update(asked)
            self._cited.update(cited)
            self._pairs.update((one, other) for one in asked for other in cited if one != other)
        if len(self._pairs) > CAPACITY:
            self._pairs = Counter(dict(self._pairs.most_common(CAPACITY // 2)))
        self._stands_for.clear()

    def stands_for(self, word: str) -> frozenset[str]:
        """The word itself and what memories say instead."""
        found = self._stands_for.get(word)
        if found is None:
            if not self._stands_for:
                self._settle()
            found = self._stands_for.setdefault(word, frozenset((word,)))
        return found

    def _settle(self) -> None:
        others: dict[str, set[str]] = {}
        for (word, other), together in self._pairs.items():
            share = together / self._asked[word]
            if together >= LEAST and share >= SURE and share >= LIFT * self._cited[other] / self._answers:
                others.setdefault(word, {word}).add(other)
        self._stands_for = {word: frozenset(found) for word, found in others.items()}

    def knows(self, word: str) -> bool:
        """Whether memories ever say the word or what stands for it: others tell nothing about relevance."""
        return self._cited[word] > 0 or len(self.stands_for(word)) > 1

    def covers(self, text: Collection[str], question: str) -> bool:
        """Whether a text (its terms) has every telling word of the question, or what stands for it."""
        asked = [word for word in dict.fromkeys(terms(question)) if self.knows(word)]
        return bool(asked) and all(not self.stands_for(word).isdisjoint(text) for word in asked)
