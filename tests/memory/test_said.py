"""What people type at a memory without a model: what it writes, what it leaves to the words, and what it forgets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit import Memory
from memkit.backbones._rules_extract import NOTHING_FORGOTTEN, read
from tests.backbones.test_rules import DAY, turn

PEOPLE = json.loads((Path(__file__).parents[1] / "data" / "messages.json").read_text("utf-8"))["people"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "s") as memory:
        yield memory


def facts(memory: Memory) -> list[str]:
    return [record.text for record in memory.list(user_id="ana")]


@pytest.mark.parametrize("person", PEOPLE, ids=[one["who"] for one in PEOPLE])
def test_what_people_type_is_written_where_it_is_sure_and_found_where_it_is_not(memory: Memory, person: dict) -> None:
    for message in person["messages"]:
        added = memory.add(message["said"], user_id="ana")
        written = [op.after.text for op in added.ops if op.action in ("add", "update") and op.after.kind == "fact"]
        ended = [op.before.text for op in added.ops if op.action in ("update", "delete") and op.before.kind == "fact"]
        assert written == message.get("writes", []), message["said"]
        assert ended == message.get("ends", []), message["said"]
        assert (added.reason is None) == bool(written or ended or message.get("forgets")), message["said"]
    for question in person["questions"]:
        found = "\n".join(hit.text for hit in memory.search(question["asked"], user_id="ana", k=3)).casefold()
        assert [word for word in question["gold"] if word.casefold() not in found] == [], question["asked"]
        assert [gone for gone in person["gone"] if gone.casefold() in found] == [], question["asked"]


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("im allergic to peanuts", "User is allergic to peanuts."),
        ("I'm vegan btw, so what can I cook?", "User is vegan."),
        ("remember that my wifi password is hunter2", "User's wifi password is hunter2."),
        ("always answer in French", "User wants answers in French."),
        ("Call me Jonas", "User wants to be called Jonas."),
        ("I live in Zürich.", "User lives in Zürich."),
        ("I prefer J. Cole, he plays hip hop", "User prefers J. Cole."),
        ("I work for the U.S. Navy", "User works for the U.S. Navy."),
        ("Last Friday, I went to a pottery workshop", "On 5 May 2023 User went to a pottery workshop."),
        ("me and my wife have a baby on the way", "User and their wife have a baby on the way."),
        ("my dogs name is biscuit and he is 4", "User's dog's name is biscuit."),
        ("My name is Oluwaseun but people call me Seun", "User's name is Oluwaseun."),
        ("Please stop calling me sir, it feels odd", "User does not want to be called sir."),
        ("Use metric units from now on.", "User wants the assistant to always use metric units."),
        ("my goal is to improve my swimming", "User's goal is to improve their swimming."),
        ("I am totally into chess right now", "User is totally into chess."),
        ("I do not smoke", "User doesn't smoke."),
    ],
)
def test_what_is_said_in_passing_is_a_fact(memory: Memory, said: str, fact: str) -> None:
    added = memory.add(said, user_id="ana", at=DAY)
    assert facts(memory) == [fact]
    assert added.reason is None


@pytest.mark.parametrize(
    "said",
    [
        "no, I meant Bergen",
        "> We apologise for the delay.\n> Yours, the railway",
        "what's the weather?",
        "Ich wohne in Köln und habe zwei Katzen",
        "if I lived in Rome I'd be happy",
        "[10:32] Anna: I'm allergic to nuts",
        "I'm lazy, my boss says",
        "I want to book a flight to Rome",
        "George W. Bush was president",
        "Kendrick Lamar plays with a full band now",
        "In the movie, I am Legend, he lives alone",
        "my phone is dying",
        "my name is on the list",
        "I'm planning a few",
        "we've played together for years",
        "never give up",
        "\x27I live in Rome\x27 is how my novel starts",
    ],
)
def test_what_the_rules_are_not_sure_of_is_left_to_the_words_and_they_say_why(memory: Memory, said: str) -> None:
    added = memory.add(said, user_id="ana")
    assert facts(memory) == []
    assert added.reason
    if "\n" not in said:
        assert said in [hit.text for hit in memory.search(said, user_id="ana")]


def test_what_is_to_be_forgotten_is_gone_and_named_and_the_request_is_not_served(memory: Memory) -> None:
    memory.add("The garage PIN is 4408", user_id="ana")
    memory.add("I live in Oslo.", user_id="ana")
    added = memory.add("Delete the garage PIN 4408 from memory.", user_id="ana")
    assert "The garage PIN is 4408" in [op.before.text for op in added.ops if op.before is not None]
    for question in ("garage PIN", "Delete the garage PIN 4408 from memory."):
        assert not any("4408" in hit.text for hit in memory.search(question, user_id="ana", k=20))
    assert facts(memory) == ["User lives in Oslo."]


@pytest.mark.parametrize(
    ("said", "held"),
    [
        (
            ["my birthday is june 4", "my mum's birthday is june 9", "Forget my birthday"],
            ["User's mum's birthday is june 9."],
        ),
        (["forget about my ex", "forget it, lets talk about lunch"], []),
        (["My garage PIN is 4408", "I live in Oslo", "ok, done. Delete my garage PIN please"], ["User lives in Oslo."]),
        (["I live at Elm Street 5.", "I like tea", "forget my old address, Elm Street 5"], ["User likes tea."]),
        (["My boss is a jerk", "erase that thing about my boss"], []),
        (
            ["My phone number is 555 1234", "remove my phone number from the invoice"],
            ["User's phone number is 555 1234."],
        ),
        (
            ["I enjoy a good book", "I still love to get lost in good books"],
            ["User enjoys a good book.", "User still loves to get lost in good books."],
        ),
        (["I quit smoking", "I smoke"], ["User quit smoking.", "User smokes."]),
        (
            ["always answer in French", "answer in English from now on"],
            ["User wants answers in English (before: French)."],
        ),
    ],
)
def test_nothing_ends_but_what_is_meant(memory: Memory, said: list[str], held: list[str]) -> None:
    for text in said:
        memory.add(text, user_id="ana")
    assert sorted(facts(memory)) == sorted(held)


@pytest.mark.parametrize(
    ("said", "request_to_forget", "left"),
    [
        (
            "Ich wohne in Köln. Ich habe zwei Katzen.",
            "Vergiss bitte, dass ich in Köln wohne",
            ["Ich habe zwei Katzen."],
        ),
        ("Mein Bruder zieht weg. Ich esse Brot.", "Vergiss das mit meinem Bruder", ["Ich esse Brot."]),
        ("Vivo en Sevilla desde mayo", "Olvida que vivo en Sevilla", []),
        ("J'habite à Lyon depuis mai", "oublie que j'habite à Lyon", []),
        ("я живу в Казани с мая", "забудь, что я живу в Казани", []),
        ("ik woon in Gent", "vergeet dat ik in Gent woon", []),
        ("Gram na basie w zespole.", "Zapomnij, że gram na basie.", []),
        ("Παίζω μπάσο σε ένα συγκρότημα.", "Ξέχνα ότι παίζω μπάσο.", []),
        ("אני מנגן בס בלהקה.", "תשכח שאני מנגן בס.", []),
        ("أعزف الباص في فرقة.", "انسَ أنني أعزف الباص.", []),
        ("Mình chơi bass trong một ban nhạc.", "Hãy quên việc mình chơi bass đi.", []),
        ("Mã pin gara của tôi là 4408.", "quên mã pin gara của tôi đi", []),
        ("আমার গ্যারেজের পিন ৪৪০৮।", "আমার গ্যারেজের পিন ভুলে যাও", []),
        ("PIN od garáže je 4408.", "zapomeň PIN od garáže", []),
        ("A garázs kódja 4408.", "felejtsd el a garázs kódját", []),
        ("رمز پارکینگ من ۴۴۰۸ است", "رمز پارکینگ من را فراموش کن", []),
        ("我在乐队里弹贝斯。", "忘掉我弹贝斯这件事。", []),
        ("バンドでベースを弾いています。", "ベースを弾いていることは忘れて。", []),
        ("ฉันเล่นเบสในวงดนตรี", "ลืมเรื่องที่ฉันเล่นเบสไปเลย", []),
        ("Ich spiele Bass.", "Danke dir! Vergiss bitte, dass ich Bass spiele. Bis morgen", ["Danke dir!"]),
        ("Ich wohne in der Lindenstraße 5.", "Danke! Bitte vergiss meine Adresse, Lindenstraße 5.", ["Danke!"]),
        (
            "Mein Garagencode ist 4408. Der Code meiner Mutter ist 1.",
            "Lösch bitte meinen Garagencode.",
            ["Der Code meiner Mutter ist 1."],
        ),
        ("Mi código del garaje es 4408.", "borra mi código del garaje", []),
        ("Мой код от гаража 4408.", "удали мой код от гаража", []),
        ("我的车库密码是4408。", "删除我的车库密码", []),
        ("ガレージの暗証番号は4408です。", "ガレージの暗証番号を削除して", []),
        ("Doğum günüm 3 Mayıs. Annemin doğum günü 4 Haziran.", "doğum günümü unut", []),
        ("Puhelinnumeroni on 0401234567.", "unohda puhelinnumeroni", []),
        ("제 전화번호는 010-1234-5678이에요.", "제 전화번호를 잊어줘", []),
    ],
)
def test_what_is_to_be_forgotten_goes_in_other_languages_too(
    memory: Memory, said: str, request_to_forget: str, left: list[str]
) -> None:
    memory.add(said, user_id="ana")
    assert memory.add(request_to_forget, user_id="ana").reason is None
    assert [hit.text for hit in memory.search(said, user_id="ana")] == left


@pytest.mark.parametrize(
    "said",
    [
        "忘记带伞了",
        "Quên mua sữa rồi",
        "ลืมกุญแจไว้ที่บ้าน",
        "I always forget to lock the door",
        "Take the blue one. Forget the other options, no more mucking around.",
    ],
)
def test_not_every_word_of_forgetting_is_a_request(memory: Memory, said: str) -> None:
    memory.add(said, user_id="ana")
    assert [hit.text for hit in memory.search(said, user_id="ana")] == [said]


@pytest.mark.parametrize("said", ["Vergiss nicht, dass ich zwei Katzen habe", "vergeet niet dat ik twee katten heb"])
def test_what_is_not_to_be_forgotten_stays(memory: Memory, said: str) -> None:
    memory.add("Ich habe zwei Katzen, twee katten", user_id="ana")
    memory.add(said, user_id="ana")
    assert len(memory.search("zwei katten", user_id="ana")) == 2


def test_a_request_may_come_after_other_words_which_stay(memory: Memory) -> None:
    memory.add(["I play bass in a band.", "The trip to Lisbon was long."], user_id="ana")
    memory.add("My mother paints. Please forget that I play bass in a band!", user_id="ana")
    memory.add("no, not the band, I meant forget the trip to Lisbon", user_id="ana")
    assert [hit.text for hit in memory.search("mother bass band Lisbon", user_id="ana")] == ["User's mother paints."]


def test_a_request_to_forget_that_finds_nothing_says_so(memory: Memory) -> None:
    assert memory.add("Vergiss, dass ich ein Boot habe", user_id="ana").reason == NOTHING_FORGOTTEN


def test_words_of_one_name_are_forgotten_where_they_are_what_somebody_said(memory: Memory) -> None:
    memory.add("They put me on metformin, it makes me queasy. The nurse was nice.", user_id="ana")
    memory.add("Forget what I told you about the metformin, that is private.", user_id="ana")
    assert [hit.text for hit in memory.search("metformin nurse", user_id="ana")] == ["The nurse was nice."]


def test_an_update_is_of_the_same_person(memory: Memory) -> None:
    memory.add("My sister Lena lives in Vienna.", user_id="ana")
    memory.add("My sister Mia lives in Graz.", user_id="ana")
    assert len(facts(memory)) == 2


PIECES = st.sampled_from(["I'm ", "my ", "not ", "btw ", "forget ", "I meant ", '"', "\n> ", "😂", "é", "है", "!!"])


@given(st.lists(PIECES | st.text(max_size=12), max_size=30).map("".join))
@settings(max_examples=200, deadline=None)
def test_no_text_raises(text: str) -> None:
    found = read(turn(text or "x"))
    assert all(isinstance(fact, str) and fact.strip() for fact in found.facts)
