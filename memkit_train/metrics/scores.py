"""Answer metrics in their published dialects, named. The same answers score up to four points apart from dialect to
dialect, so a number without its dialect says little; longer answers score lower in all of them.

| name | tokens | F1 counts | special |
|---|---|---|---|
| `f1_locomo` | no commas, lower, no punctuation, no a/an/the/and, Porter stems | with repeats | by category, below |
| `f1_squad` | lower, no punctuation, no a/an/the | with repeats | |
| `f1_mem0` | lower, `. , ! ?` are blanks | sets | an empty answer is 0 |
| `bleu1` | lower, NLTK's words (`don't` two, `self-care` one) | clipped, brevity penalty | no common word is 0 |
| `em_squad` `em_set` `em_mem0` | as SQuAD, as LoCoMo (equal sets), lower and strip | | |
| `gold_recall` | LoCoMo tokens of the gold that occur in the answer | | |
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from memkit_train.metrics.porter import stem

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MEM0_BLANKS = str.maketrans(dict.fromkeys(".,!?", " "))
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ARTICLES_AND = re.compile(r"\b(a|an|the|and)\b")
_CLITIC = r"(?:n't|'(?:s|m|d|ll|re|ve)?)(?![\w'])|(?<!\S)'(?=\w)"
_MARK = r"\.{2,}|--|[:,](?!\d)|[][;@#$%&?!*(){}<>\"“”«»‘’„`—]"
_TREEBANK = re.compile(rf"{_MARK}|{_CLITIC}|(?:(?!{_MARK}|{_CLITIC})\S)+")
_CLOSING = r"[])}>\"'»”’]*"
_FULL_STOP = re.compile(
    rf"(?<![.\s])\.(?={_CLOSING}\s*$)|(?<![.\s])(?<!\b\w)(?<!\b[mds][rst])(?<!\bmrs)\.(?={_CLOSING}\s)"
)
"""The last one, and others that neither an initial nor a title ends with."""
_JOINED = re.compile(r"\b(can(?=not\b)|(?:gon|wan)(?=na\b)|got(?=ta\b)|(?:gim|lem)(?=me\b))")
ABSTENTIONS = ("no information available", "not mentioned")
"""What the official LoCoMo scorer takes for an abstention (category 5)."""

MULTI_HOP, TEMPORAL, OPEN_DOMAIN, SINGLE_HOP, ADVERSARIAL = 1, 2, 3, 4, 5
CATEGORIES: Mapping[int, str] = {
    MULTI_HOP: "multi-hop",
    TEMPORAL: "temporal",
    OPEN_DOMAIN: "open-domain",
    SINGLE_HOP: "single-hop",
    ADVERSARIAL: "adversarial",
}
"""LoCoMo's own numbers and names; other projects permute the names, so always print the number."""


def normalise_squad(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def normalise_locomo(text: str) -> str:
    return " ".join(_ARTICLES_AND.sub(" ", text.replace(",", "").lower().translate(_PUNCTUATION)).split())


def tokens_locomo(text: str) -> list[str]:
    return [stem(word) for word in normalise_locomo(text).split()]


def tokens_mem0(text: str) -> list[str]:
    return text.lower().translate(_MEM0_BLANKS).split()


def f1_of(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over token counts."""
    common = sum((Counter(predicted) & Counter(gold)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(predicted), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def f1_squad(answer: str, gold: str) -> float:
    predicted, wanted = normalise_squad(answer).split(), normalise_squad(gold).split()
    if not predicted or not wanted:
        return float(predicted == wanted)
    return f1_of(predicted, wanted)


def f1_mem0(answer: str, gold: str) -> float:
    if not answer.strip() or not gold.strip():
        return 0.0
    predicted, wanted = set(tokens_mem0(answer)), set(tokens_mem0(gold))
    return f1_of(sorted(predicted), sorted(wanted)) if predicted and wanted else 0.0


def f1_locomo(answer: str, gold: str, category: int | None = None) -> float:
    """The official scorer: category 1 splits both sides at commas and averages each gold part's best match, category 3
    takes the gold before the first `;`, category 5 asks for an abstention, everything else is plain stemmed F1."""
    if category == ADVERSARIAL:
        return float(abstains(answer))
    if category == OPEN_DOMAIN:
        gold = gold.split(";")[0].strip()
    if category == MULTI_HOP:
        parts = [part.strip() for part in answer.split(",")]
        golds = [part.strip() for part in gold.split(",")]
        return sum(max(f1_of(tokens_locomo(p), tokens_locomo(g)) for p in parts) for g in golds) / len(golds)
    return f1_of(tokens_locomo(answer), tokens_locomo(gold))


def tokens_treebank(text: str) -> list[str]:
    """Penn Treebank words, as NLTK's `word_tokenize` makes them: a full stop is a token at the end of a sentence only,
    `,` and `:` unless a digit follows, `'s` and `n't` are words of their own, hyphens hold words together. Where
    sentences end is told from the dots, without NLTK's trained model."""
    return _TREEBANK.findall(_JOINED.sub(r"\1 ", _FULL_STOP.sub(" .", text.lower())))


def bleu1(answer: str, gold: str) -> float:
    """Sentence BLEU with weights (1, 0, 0, 0): clipped unigram precision times the brevity penalty. Without a common
    word it is 0, as NLTK has it, whose smoothing (method 1) helps only longer n-grams."""
    predicted, wanted = tokens_treebank(answer), tokens_treebank(gold)
    common = sum((Counter(predicted) & Counter(wanted)).values())
    if not common:
        return 0.0
    penalty = 1.0 if len(predicted) > len(wanted) else math.exp(1 - len(wanted) / len(predicted))
    return penalty * common / len(predicted)


def em_squad(answer: str, gold: str) -> float:
    return float(normalise_squad(answer) == normalise_squad(gold))


def em_set(answer: str, gold: str) -> float:
    return float(set(normalise_locomo(answer).split()) == set(normalise_locomo(gold).split()))


def em_mem0(answer: str, gold: str) -> float:
    return float(answer.strip().lower() == gold.strip().lower())


def gold_recall(answer: str, gold: str) -> float:
    """Share of the gold's tokens that the answer holds: rises with any right long answer, unlike F1."""
    wanted = Counter(tokens_locomo(gold))
    return sum((wanted & Counter(tokens_locomo(answer))).values()) / max(sum(wanted.values()), 1)


def gold_held(text: str, golds: Sequence[str]) -> float:
    """Share of the tokens of one gold answer, the one that the text holds most of."""
    return max(gold_recall(text, gold) for gold in golds)


def abstains(answer: str) -> bool:
    """Whether the official scorer would read the answer as "nobody said so". memkit's own `unknown` counts as well; to
    say nothing at all does not."""
    low = answer.lower().strip()
    return any(phrase in low for phrase in ABSTENTIONS) or low.rstrip(".") == "unknown"


def stale_answer(answer: str, stale: Sequence[str], gold: Sequence[str]) -> float:
    """Whether the answer says, in whole words, what it must not, and nothing that is right. One that abstains says
    nothing: "not mentioned" would else hold the wrong answer "no"."""
    said = f" {normalise_squad(answer)} "

    def says(form: str) -> bool:
        words = normalise_squad(form)
        return bool(words) and f" {words} " in said

    return float(not abstains(answer) and any(map(says, stale)) and not any(map(says, gold)))


DIALECTS: Mapping[str, Callable[[str, str], float]] = {
    "f1_squad": f1_squad,
    "f1_mem0": f1_mem0,
    "bleu1": bleu1,
    "em_squad": em_squad,
    "em_set": em_set,
    "em_mem0": em_mem0,
    "gold_recall": gold_recall,
}


def score_answer(answer: str, gold: Sequence[str], category: int | None = None) -> dict[str, float]:
    """Every dialect for one answer; of several gold forms the best counts. Category 5 has only its abstention, which
    the peers leave out altogether; an answerable question that is refused shows in `abstained`."""
    abstained = float(abstains(answer))
    if category == ADVERSARIAL or not gold:
        return {"f1_locomo": abstained, "abstained": abstained, "words": float(len(answer.split()))}
    best = {name: max(metric(answer, form) for form in gold) for name, metric in DIALECTS.items()}
    best["f1_locomo"] = max(f1_locomo(answer, form, category) for form in gold)
    return best | {"abstained": abstained, "words": float(len(answer.split()))}
