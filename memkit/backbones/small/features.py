"""What is plain of a clause, or of a fact beside a memory, without an encoder: what words they share, which numbers and
names differ, what the rules would do. Numbers of about 0 to 1, in a fixed order; what always matters by the words that
the shipped weights were taught with."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from memkit.backbones._rules_extract import Reading
from memkit.backbones._rules_manage import RuleDecision
from memkit.memo import remember
from memkit.text.standing import stood
from memkit.text.words import denies, terms, words

_COMPARED = 40
"""Words of either text that are laid beside each other."""
_LONGEST = 20
"""Words from which on a text is no longer."""
OF_CLAUSE = 12
OF_PAIR = 20


def clause_features(message: str, start: int, end: int, reading: Reading) -> list[float]:
    """Of the clause `message[start:end]`; `reading` is what the rules make of it."""
    text = message[start:end]
    count = len(words(text))
    return [
        1.0 if text.rstrip().endswith(("?", "？", "؟")) else 0.0,
        min(count, 20) / 20,
        1.0 if count <= 2 else 0.0,
        min(len(message), 800) / 800,
        start / max(len(message), 1),
        1.0 if end >= len(message) else 0.0,
        1.0 if reading.facts else 0.0,
        1.0 if stood(text) else 0.0,
        1.0 if any(letter.isdigit() for letter in text) else 0.0,
        1.0 if any(word[0].isupper() for word in text.split()[1:]) else 0.0,
        1.0 if any(mark in text for mark in '"“”«»„`') else 0.0,
        fragments(text),
    ]


def pair_features(memory: str, fact: str, decision: RuleDecision) -> list[float]:
    """`decision`: what the rules would do with the fact, were this memory the only one."""
    old, new = _said(memory), _said(fact)
    shared = old & new
    numbers, names = (_numbers(memory), _numbers(fact)), (_names(memory), _names(fact))
    first, other = words(memory), words(fact)
    shorter = max(min(len(first), len(other)), 1)
    common, ends, runs, only = _differences(first, other)
    return [
        len(shared) / max(len(old | new), 1),
        len(shared) / max(len(new), 1),
        len(shared) / max(len(old), 1),
        common / shorter,
        min(common, 6) / 6,
        ends / shorter,
        min(runs, 4) / 4,
        only[0] / max(len(first), 1),
        only[1] / max(len(other), 1),
        1.0 if numbers[0] & numbers[1] else 0.0,
        1.0 if numbers[0] and numbers[1] and not numbers[0] & numbers[1] else 0.0,
        1.0 if names[0] & names[1] else 0.0,
        1.0 if names[1] - names[0] and names[0] - names[1] else 0.0,
        1.0 if denies(memory) != denies(fact) else 0.0,
        1.0 if decision.action == "noop" else 0.0,
        1.0 if decision.action == "update" else 0.0,
        1.0 if decision.action == "delete" else 0.0,
        min(len(other), _LONGEST) / _LONGEST,
        min(len(first), _LONGEST) / _LONGEST,
        fragments(fact),
    ]


def are_alike(features: Sequence[float]) -> bool:
    """Of the features of a pair: two thirds of the shorter one begin the other, and a few words differ in one place."""
    begun, places, apart, other_apart, other_length, length = (features[at] for at in (3, 6, 7, 8, 17, 18))
    few = max(apart * length, other_apart * other_length) * _LONGEST < 4.5
    return begun >= 0.65 and places <= 0.25 and length < 1 and other_length < 1 and few


def _differences(first: list[str], other: list[str]) -> tuple[int, int, int, tuple[int, int]]:
    """Words in common at the start and at the end; runs in which two texts differ, and the words of each in them."""
    first, other = first[:_COMPARED], other[:_COMPARED]
    steps = SequenceMatcher(None, first, other, autojunk=False).get_opcodes()
    apart = [step for step in steps if step[0] != "equal"]
    start = steps[0][2] if steps and steps[0][0] == "equal" else 0
    end = steps[-1][2] - steps[-1][1] if apart and steps[-1][0] == "equal" else 0
    only = sum(step[2] - step[1] for step in apart), sum(step[4] - step[3] for step in apart)
    return start, end, len(apart), only


@remember(4_096)
def fragments(text: str) -> float:
    """How far a text is from what the encoder was taught: the share of letters beyond plain Latin."""
    letters = [letter for letter in text if letter.isalpha()]
    return sum(not letter.isascii() for letter in letters) / max(len(letters), 1)


@remember(4_096)
def _said(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _WRITTEN


_WRITTEN = frozenset(terms("user users user's before"))


def _numbers(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if any(letter.isdigit() for letter in word))


def _names(text: str) -> frozenset[str]:
    return frozenset(word.strip(".,!?;:()\"'").casefold() for word in text.split()[1:] if word[0].isupper()) - {"i"}
