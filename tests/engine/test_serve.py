"""Which of the rows that a question finds are served, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memkit import Memory
from memkit.engine.serve import serve, with_sources
from memkit.models import MemoryRecord, to_json
from memkit.retrieval import BankIndex, Query, rank
from memkit.text.content import carries


def first(path: Path, said: list[str], question: str) -> str:
    with Memory(path / "s") as memory:
        for text in said:
            memory.add(text, user_id="ana", infer=False)
        return memory.search(question, user_id="ana", k=3)[0].text


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (
            "The capital of Fantasia is Lirum.",
            "The capital of Fantasia is Port Ode.",
            "What is the capital of Fantasia?",
        ),
        ("My dentist is Dr Wu in Leeds.", "my dentist is dr patel now, in leeds too", "who is my dentist?"),
        ("J'habite à Lyon.", "J'habite maintenant à Nantes.", "Où est-ce que j'habite ?"),
        ("我住在上海。", "我现在住在成都。", "我住在哪里？"),
        ("Ankara'da oturuyorum.", "Artık İzmir'de oturuyorum.", "Nerede oturuyorum?"),
        ("Мій телефон — Самсунг.", "Мій новий телефон — Піксель.", "Який у мене телефон?"),
    ],
)
def test_of_two_statements_about_one_thing_the_newer_comes_first(
    older: str, newer: str, question: str, tmp_path: Path
) -> None:
    between = "Nothing else happened today."
    assert first(tmp_path / "one", [older, between, newer], question) == newer
    assert first(tmp_path / "other", [newer, between, older], question) == older


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Kim plays the sport of rugby.", "Lou plays the sport of tennis.", "Which sport does Kim play?"),
        ("我的猫叫咪咪。", "我的狗叫旺财。", "我的猫叫什么？"),
        ("My sister lives in Bonn.", "I told Max that my sister lives in Bonn.", "Where does my sister live?"),
    ],
    ids=["of somebody else", "of another animal", "said again"],
)
def test_what_does_not_contradict_comes_as_it_fits(older: str, newer: str, question: str, tmp_path: Path) -> None:
    assert first(tmp_path, [older, newer], question) == older


def test_what_a_turn_says_beside_a_fact_that_stands_for_it_is_served(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("my husband tom hates coriander. he's from Galway", user_id="ana")
        found = memory.search("husband tom hates coriander, from Galway", user_id="ana")
        assert "Galway" in str([hit.text for hit in found])


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (
            "The user moved the weekly planning meeting with the design team.",
            "We moved the weekly planning meeting with the design team to 9.",
        ),
        (
            "The user went hiking in the mountains with old friends from school.",
            "I went hiking in the mountains with old school friends and Tom",
        ),
        ("The user eats peanuts and cashews at work.", "I don't eat peanuts and cashews at work."),
        ("User mag Nüsse im Müsli.", "ich mag keine Nüsse im Müsli"),
    ],
    ids=["a number", "a name", "a negation", "a negation in German"],
)
def test_a_fact_that_lacks_a_name_a_number_or_a_negation_does_not_stand_for_the_words(fact: str, words: str) -> None:
    assert not carries(fact, words)


def test_a_fact_that_says_all_that_the_words_say_stands_for_them() -> None:
    assert carries(
        "The user's dog Rex is 3 years old and not trained.", "my dog Rex isn't trained, he's 3 years old btw"
    )


def test_a_fact_that_is_a_part_of_the_words_leaves_them_whole() -> None:
    part = "a rescue greyhound called Duchess, five years old, picked up on Saturday"
    words = MemoryRecord(id="t1", text=f"well, we did a thing! {part} 😅", kind="turn", source_turns=("t1",), seq=1)
    fact = MemoryRecord(id="m1", text=part, source_turns=("t1",), seq=2)
    retold = replace(fact, text="The user has a rescue greyhound, Duchess, five years old, picked up on Saturday.")
    assert carries(fact.text, words.text)

    def served(one: MemoryRecord) -> list[str]:
        return [found.record.id for found in serve(BankIndex.build([words, one], None), Query("the greyhound Duchess"))]

    assert served(fact) == ["t1"]
    assert served(retold)[0] == "m1"
    assert set(served(replace(fact, revision=2))) >= {"m1"}


def test_what_is_said_again_in_the_same_words_takes_one_place_as_it_was_said_last(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        for day in (1, 2, 3):
            memory.add("The ferry was a dream!", user_id="ana", at=datetime(2026, 5, day, tzinfo=UTC))
        memory.add("THE FERRY  was a dream!", user_id="ana", at=datetime(2026, 5, 4, tzinfo=UTC))
        memory.add("We took the ferry to Bergen.", user_id="ana", at=datetime(2026, 5, 5, tzinfo=UTC))
        hits = [hit.memory for hit in memory.search("How was the ferry?", user_id="ana", kinds=["turn"])]
    assert {(one.text, one.at.day) for one in hits if one.at} == {
        ("THE FERRY  was a dream!", 4),
        ("We took the ferry to Bergen.", 5),
    }
    assert len(hits) == 2


def test_the_windows_of_a_long_turn_take_one_place_among_the_hits(tmp_path: Path) -> None:
    filler = " ".join(f"The garden needs water and care in week {number}, as gardens do." for number in range(60))
    with Memory(tmp_path / "s") as memory:
        long = memory.add(filler, user_id="ana").turns[0].turn_id
        memory.add("My garden has a pear tree.", user_id="ana")
        hits = memory.search("what does the garden need?", user_id="ana", k=5)
    assert [hit.memory.source_turns for hit in hits].count((long,)) == 1
    assert any("pear" in hit.text for hit in hits)


def test_a_fact_brings_the_sentences_it_was_drawn_from_as_long_as_the_bank_has_them() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    ducks = "I walked along the canal and fed the ducks there. " * 12
    words = MemoryRecord(
        id="t1", text=f"{ducks}We adopted a dog at the harbour.", kind="turn", source_turns=("t1",), seq=1
    )
    fact = MemoryRecord(id="m1", text="Ana has a dog.", source_turns=("t1",), seq=2)
    (found,) = rank(BankIndex.build([fact], None), Query("dog"))
    both = with_sources(BankIndex.build([words, fact], None), [found], now)
    assert [one.record.id for one in both] == ["m1", "t1"]
    assert both[1].record.text.endswith("We adopted a dog at the harbour.")
    assert len(both[1].record.text) <= 250
    ended = replace(words, expires_at=now - timedelta(days=1))
    for left in ([fact], [ended, fact]):
        assert with_sources(BankIndex.build(left, None), [found], now) == [found]


def test_what_a_language_model_wrote_stands_above_words_that_fit_as_well(tmp_path: Path) -> None:
    def writes(messages: list[dict[str, str]]) -> str:
        said = messages[-1]["content"]
        if "Lyon" not in said.partition("NEW turns:")[2]:
            return to_json({"operations": []})
        fact = "Ana's new flat is in Lyon."
        return to_json({"operations": [{"op": "ADD", "id": None, "text": fact, "turn": 1}]})

    with Memory(tmp_path / "s", model=writes) as memory:
        for text in ("my flat is nice", "it's Lyon, signed today!!"):
            memory.add(text, user_id="ana")
        assert memory.search("Which city is my flat in?", user_id="ana")[0].text == "Ana's new flat is in Lyon."
        ranked = [hit.text for hit in memory.search("Which city is my flat in?", user_id="ana")]
    with Memory(tmp_path / "s") as memory:
        assert [hit.text for hit in memory.search("Which city is my flat in?", user_id="ana")] == ranked
