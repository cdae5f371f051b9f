"""Golden cases, worked out by hand from each dialect's definition; stems are those of NLTK's `PorterStemmer()`."""

from __future__ import annotations

import math

import pytest

from memkit_train.metrics import scores as m
from memkit_train.metrics.porter import stem


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("ties", "tie"), ("cats", "cat"), ("feed", "feed"),
        ("agreed", "agre"),
        ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"), ("sing", "sing"), ("conflated", "conflat"),
        ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss"),
        ("failing", "fail"), ("filing", "file"), ("happy", "happi"), ("sky", "sky"), ("relational", "relat"),
        ("conditional", "condit"), ("digitizer", "digit"), ("operator", "oper"), ("hopefulness", "hope"),
        ("formalize", "formal"), ("electrical", "electr"), ("goodness", "good"), ("revival", "reviv"),
        ("adjustment", "adjust"), ("adoption", "adopt"), ("probate", "probat"), ("rate", "rate"), ("cease", "ceas"),
        ("controlling", "control"), ("roll", "roll"),
    ],
)  # fmt: skip
def test_porter_agrees_with_the_paper_s_examples(word, expected):
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("skies", "sky"), ("dying", "die"), ("lying", "lie"), ("tying", "tie"), ("news", "news"),
        ("innings", "inning"), ("outing", "outing"), ("cannings", "canning"), ("howe", "howe"), ("proceed", "proceed"),
        ("exceed", "exceed"), ("succeed", "succeed"), ("dies", "die"), ("flies", "fli"), ("died", "die"),
        ("tried", "tri"), ("try", "tri"), ("fly", "fli"), ("by", "by"), ("say", "say"), ("enjoy", "enjoy"),
        ("enjoyment", "enjoy"), ("using", "use"), ("used", "use"), ("us", "us"), ("possibly", "possibl"),
        ("probably", "probabl"), ("radically", "radic"), ("rational", "ration"), ("hopefully", "hope"),
        ("geology", "geolog"), ("theology", "theolog"), ("apologies", "apolog"), ("syzygy", "syzygi"), ("yyy", "yyy"),
    ],
)  # fmt: skip
def test_stems_are_those_of_nltk_where_it_departs_from_the_paper(word, expected):
    assert stem(word) == expected


def test_a_word_of_many_letters_y_has_a_stem():
    assert stem("y" * 5_000 + "ing").startswith("yy")


def test_f1_squad():
    # answer tokens {two, dogs}, gold {two, dogs, and, cat}: 2 of 2 and 2 of 4
    assert m.f1_squad("Two dogs.", "two dogs and a cat") == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert m.f1_squad("the", "a") == 1.0  # both normalise to nothing
    assert m.f1_squad("yes yes yes", "yes") == pytest.approx(2 * (1 / 3) * 1 / (4 / 3))  # repeats count once


def test_f1_locomo_by_category():
    assert m.f1_locomo("adopting dogs", "adopted a dog", m.SINGLE_HOP) == 1.0  # stems, articles
    # category 1: each gold part takes its best match: (1 + 0) / 2
    assert m.f1_locomo("painting, hiking", "painting, pottery", m.MULTI_HOP) == 0.5
    assert m.f1_locomo("Oslo", "Oslo; she says so in June", m.OPEN_DOMAIN) == 1.0
    assert m.f1_locomo("That was not mentioned.", "ignored", m.ADVERSARIAL) == 1.0
    assert m.f1_locomo("Oslo", "ignored", m.ADVERSARIAL) == 0.0
    assert m.f1_locomo("7 May, 2023", "7 May 2023", m.TEMPORAL) == 1.0


def test_f1_mem0_is_over_sets_and_keeps_articles():
    assert m.f1_mem0("the the dog", "the dog") == 1.0
    assert m.f1_mem0("a dog", "the dog") == 0.5
    assert m.f1_mem0("", "dog") == 0.0


def test_bleu1():
    assert m.bleu1("two dogs", "two dogs") == 1.0
    assert m.bleu1("two dogs", "two dogs and one cat") == pytest.approx(math.exp(1 - 5 / 2))
    assert m.bleu1("two two two", "two dogs") == pytest.approx(1 / 3)
    assert m.bleu1("self-care", "self care") == 0.0
    assert m.bleu1("unknown", "Oslo") == 0.0  # as sentence_bleu: smoothing is for longer n-grams


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes; it's self-care.", "yes ; it 's self-care ."),
        ("I don't, cannot wait...", "i do n't , can not wait ..."),
        ("at 5:30 for $1,200 (about 20%)", "at 5:30 for $ 1,200 ( about 20 % )"),
        ("7 May, 2023", "7 may , 2023"),
        ("Dr. J. Fox left. He's gone", "dr. j. fox left . he 's gone"),
        ("the '16 finals", "the ' 16 finals"),
        ('the U.S. and "Charlotte\'s Web"', 'the u.s. and " charlotte \'s web "'),
        ("others' dogs", "others ' dogs"),
        ("gonna go—now", "gon na go — now"),
    ],
)
def test_words_of_bleu_are_those_of_nltk(text, expected):
    assert m.tokens_treebank(text) == expected.split(" ")


def test_exact_matches():
    assert m.em_squad("The Dog!", "dog") == 1.0
    assert m.em_mem0("The Dog!", "dog") == 0.0
    assert m.em_mem0(" Dog ", "dog") == 1.0
    assert m.em_set("cat and dog", "dog, cat") == 1.0
    assert m.em_squad("cat and dog", "dog cat") == 0.0


def test_gold_recall_does_not_punish_length():
    assert m.gold_recall("as far as I can tell she moved to Oslo in May", "Oslo, May") == 1.0
    assert m.gold_recall("Oslo", "Oslo, May") == 0.5


TWENTY = [
    ("Oslo", "Oslo"),
    ("in Oslo", "Oslo"),
    ("Oslo, Norway", "Oslo"),
    ("", "Oslo"),
    ("Bergen", "Oslo"),
    ("two dogs", "2 dogs"),
    ("dogs", "two dogs"),
    ("the dog", "a dog"),
    ("running and chess", "chess, running"),
    ("7 May 2023", "May 7, 2023"),
    ("last week", "7 May 2023"),
    ("unknown", "Oslo"),
    ("adopted", "adopting"),
    ("She lives in Oslo.", "Oslo"),
    ("nurse", "a nurse"),
    ("Yes", "yes"),
    ("Rex; Milo", "Rex, Milo"),
    ("pottery, camping, painting", "pottery, painting, camping, swimming"),
    ("counseling", "Psychology, counseling"),
    ("an apple a day", "apple"),
]


def test_twenty_answers_side_by_side():
    """Dialects disagree, in known directions, and stay within [0, 1]."""
    for answer, gold in TWENTY:
        scores = m.score_answer(answer, (gold,), m.SINGLE_HOP)
        assert all(0 <= value <= 1 for name, value in scores.items() if name != "words"), (answer, gold, scores)
        assert scores["em_squad"] <= scores["f1_squad"]
        assert scores["em_mem0"] <= scores["em_squad"]
    by_name = {pair: m.score_answer(*[pair[0], (pair[1],), m.SINGLE_HOP]) for pair in TWENTY}
    assert by_name["adopted", "adopting"]["f1_locomo"] == 1.0
    assert by_name["adopted", "adopting"]["f1_squad"] == 0.0
    assert by_name["running and chess", "chess, running"]["em_set"] == 1.0
    assert by_name["the dog", "a dog"]["f1_mem0"] == 0.5


def test_the_best_gold_form_counts_and_abstention_is_seen():
    assert m.score_answer("NYC", ("New York", "NYC"))["em_squad"] == 1.0
    assert m.score_answer("unknown", ("Oslo",))["abstained"] == 1.0
    assert m.score_answer("unknown", ())["f1_locomo"] == 1.0
    assert m.score_answer("", ())["f1_locomo"] == 0.0, "no answer is no abstention"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Rome", 1.0),
        ("in Rome, I think", 1.0),
        ("Not mentioned.", 0.0),
        ("unknown", 0.0),
        ("chrome", 0.0),
        ("first Rome, now Oslo", 0.0),
        ("No.", 1.0),
        ("No information available", 0.0),
        ("nothing of it", 0.0),
    ],
)
def test_a_stale_answer_is_said_in_whole_words(answer, expected):
    assert m.stale_answer(answer, ("Rome", "no", "!"), ("Oslo",)) == expected
