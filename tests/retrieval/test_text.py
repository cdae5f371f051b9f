"""Stems and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.text.stems import stem
from memkit.text.words import denies, terms, words


@pytest.mark.parametrize(
    ("same", "other"),
    [
        ("adopt adopts adopted adopting adoption", "adapt"),
        ("paint paints painting painted", "pain"),
        ("run running runs ran", "rung"),
        ("hope hoped hoping hopes", "hop"),
        ("happy happiness", "happen"),
        ("go goes went gone going", "god"),
        ("buy bought buys buying", "by"),
        ("child children", "chill"),
        ("live lives lived living", "life"),
        ("study studies studied studying", "stud"),
        ("city cities", "cite"),
        ("general generally", "generous"),
        ("organization organize organizing", "orange"),
        ("national nationally nation", "native"),
        ("die dies died dying", "dye"),
        ("mother mom mum mommy", "moth"),
    ],
)
def test_forms_of_a_word_are_one_term(same: str, other: str) -> None:
    stems = {stem(word) for word in same.split()}
    assert len(stems) == 1
    assert stem(other) not in stems


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("consistency", "consist"),
        ("knightly", "knight"),
        ("hopefulness", "hope"),
        ("agreed", "agre"),
        ("vietnamization", "vietnam"),
        ("sky", "sky"),
        ("news", "news"),
        ("added", "add"),
        ("evening", "evening"),
        ("proceed", "proceed"),
    ],
)
def test_published_examples(word: str, expected: str) -> None:
    assert stem(word) == expected


@given(st.text(max_size=30))
def test_any_text_has_words_and_terms(text: str) -> None:
    assert all(words(text))
    assert len(terms(text)) <= len(words(text))


@pytest.mark.parametrize(
    ("text", "is_denied"),
    [
        ("Trabalho numa padaria no Porto", False),
        ("No quiero café", True),
        ("Han bor med sin bror", False),
        ("Vivo sin coche", True),
        ("Mis padres han cenado sin gluten", True),
        ("No em agrada el peix", True),
        ("ngày mai mình đi Huế", False),
        ("Non bevo mai vino", True),
        ("Moro no Porto", False),
        ("Wir haben ne Wohnung", False),
        ("Me ne ha dato due", False),
        ("Isst du gern Ei?", False),
        ("Minä en syö lihaa", True),
        ("thee en koffie", False),
        ("ich hab ne Katze", False),
        ("je n'ai pas de chat", True),
        ("I don't eat meat", True),
        ("我不吃肉", True),
    ],
)
def test_a_denial_of_one_language_is_another_word_elsewhere(text: str, is_denied: bool) -> None:
    assert denies(text) is is_denied


def test_words_of_many_scripts() -> None:
    assert words("Caroline's café didn’t close") == ["caroline", "cafe", "did", "close"]
    assert words("我喜欢猫") == ["我喜", "喜欢", "欢猫"]
    assert words("猫 ＡＢＣ Straße") == ["猫", "abc", "strasse"]
    assert words("Привет, мир!") == ["привет", "мир"]
    assert words("कुत्ते का नाम") == ["कुत्ते", "का", "नाम"]
    assert words("مُحَمَّد كتــاب שָׁלוֹם") == ["محمد", "كتاب", "שלום"]
    assert words("서울에 살아요") == ["서울", "울에", "살아", "아요"]
    assert len({*terms("сестра сестру сестры")}) == 1
    assert terms("What did the dogs do?") == ["dog"]
