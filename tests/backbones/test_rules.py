"""The rule baseline, end to end: turns are said one after the other, and this is what the bank then holds."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.backbones.rules import RuleBackbone
from memkit.errors import OpRejected
from memkit.models import Bank, MemoryRecord, Turn
from memkit.ops import BankState, Context, apply
from memkit.roles import Answerer, Extractor, Fact, Fused, Manager, Shown, reask_messages
from memkit.seams.backbone import Backbone, GenRequest

DAY = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)
RULES = RuleBackbone()


def turn(text: str, number: int = 1, speaker: str = "Ana", role: str = "user") -> Turn:
    return Turn(f"t{number}", f"i{number}", Bank("u"), 0, role, text, DAY + timedelta(days=number - 1), speaker=speaker)


def reply(prompt) -> str:
    (answer,) = RULES.generate([GenRequest(prompt)])
    assert prompt.grammar.matches(answer.text), answer.text
    return answer.text


def remember(*texts: str, fused: bool = False) -> BankState:
    """Say each text as a turn of its own; the whole bank is shown to each decision."""
    bank = BankState()
    for number, text in enumerate(texts, start=1):
        for drafts in (_fused if fused else _split)(turn(text, number), bank):
            at = DAY + timedelta(days=number - 1)
            bank, _ = apply(bank, drafts, Context(Bank("u"), f"d{bank.seq}", bank.seq + 1, at, at))
    return bank


def _shown(bank: BankState) -> list[Shown]:
    return [Shown(handle, record) for handle, record in enumerate(bank, start=1)]


def _split(said: Turn, bank: BankState):
    extractor, manager = Extractor(), Manager()
    prompt = extractor.render([said])
    for number, fact in enumerate(extractor.parse(reply(prompt), prompt).value):
        assert number == 0 or len(bank) == 0, "one fact per turn in these tests, unless the bank is empty"
        asked = manager.render(fact, _shown(bank))
        yield manager.parse(reply(asked), asked).value


def _fused(said: Turn, bank: BankState):
    role = Fused("", "compact")
    prompt = role.render([said], _shown(bank))
    yield role.parse(reply(prompt), prompt).value


def texts(bank: BankState) -> list[str]:
    return [record.text for record in bank]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("said", "held"),
    [
        # a second dog is an update that keeps the first
        (
            ["I adopted a dog named Buddy.", "I adopted another dog named Scout."],
            ["Ana adopted a dog named Buddy and another dog named Scout."],
        ),
        (
            ["I have a dog named Buddy.", "We got a second pet, a cat named Luna!"],
            ["Ana has a dog named Buddy and a second pet, a cat named Luna."],
        ),
        # two things that can both be true
        (["I like turtles.", "I'm allergic to turtles."], ["Ana likes turtles.", "Ana is allergic to turtles."]),
        # a paraphrase changes nothing
        (["I like hiking.", "I really enjoy hiking!"], ["Ana likes hiking."]),
        (["I adopted a dog named Buddy.", "I have a dog named Buddy"], ["Ana adopted a dog named Buddy."]),
        # a plan that happened
        (
            ["I'm planning to visit Japan.", "I visited Japan yesterday."],
            ["Ana visited Japan on 8 May 2023."],
        ),
        # no longer
        (["I have a car.", "I no longer have a car."], []),
        (["I have a red bike.", "Btw, I sold my bike."], []),
        (["I work at Google.", "I quit my job at Google"], []),
        (
            ["I adopted a dog named Buddy.", "I adopted another dog named Scout.", "I gave away Buddy."],
            ["Ana adopted another dog named Scout."],
        ),
        (["I like jazz and rock.", "I no longer like jazz."], ["Ana likes rock."]),
        # single-valued attributes: the new value counts, the old one is told
        (["I live in Oslo.", "I moved from Oslo to Bergen"], ["Ana moved from Oslo to Bergen."]),
        (["I live in Oslo.", "I moved to Bergen today."], ["Ana moved to Bergen on 9 May 2023 (before: Oslo)."]),
        (["I work at Google.", "I now work at Stripe."], ["Ana now works at Stripe (before: Google)."]),
        (["My name is Ana.", "I changed my name to Kim."], ["Ana changed their name to Kim."]),
        (
            ["My favourite colour is blue.", "My favourite colour is red."],
            ["Ana's favourite colour is red (before: blue)."],
        ),
        (
            ["My favourite colour is blue.", "My favourite food is pizza."],
            ["Ana's favourite colour is blue.", "Ana's favourite food is pizza."],
        ),
        # a finer statement replaces a coarse one
        (["I have a dog.", "I have a dog named Buddy."], ["Ana has a dog named Buddy."]),
        # somebody else's home is not the speaker's
        (
            ["I live in Oslo.", "My sister Maria lives in Rome."],
            ["Ana lives in Oslo.", "Ana's sister Maria lives in Rome."],
        ),
        # the same kind of event on another day is another event
        (
            ["I went hiking yesterday.", "I went hiking yesterday."],
            ["Ana went hiking on 7 May 2023.", "Ana went hiking on 8 May 2023."],
        ),
    ],
)
def test_what_the_bank_holds_after_a_conversation(said, held, fused):
    assert sorted(texts(remember(*said, fused=fused))) == sorted(held)


def test_an_update_keeps_the_memory_and_joins_its_sources():
    bank = remember("I adopted a dog named Buddy.", "I adopted another dog named Scout.")
    (record,) = bank
    assert record.revision == 2
    assert record.source_turns == ("t1", "t2")


@pytest.mark.parametrize(
    "chatter",
    [
        "Hey Mel! Good to see you! How have you been?",
        "Thanks, I'm so happy for you!",
        "What's the capital of Norway?",
        "If I won the lottery I'd buy a boat.",
        "I'm the queen of England, just kidding",
        "Write me a poem about cats.",
        "I agree. I think so too.",
        "You should visit Rome some day.",
        "",
        "\x00 \u202e 👩‍🔬",
    ],
)
def test_chatter_is_not_remembered(chatter):
    assert reply(Extractor().render([turn(chatter)])) == "NONE"


@pytest.mark.parametrize("role", ["assistant", "system", "tool"])
def test_only_people_are_listened_to(role):
    assert reply(Extractor().render([turn("I live in Oslo.", speaker="", role=role)])) == "NONE"


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("I ran a marathon last Friday with my brother", "Ana ran a marathon on 5 May 2023 with their brother."),
        ("Tomorrow I fly to Rome", "On 9 May 2023 Ana flies to Rome."),
        ("I moved here three years ago", "Ana moved here in 2020."),
        ("I got married last week", "Ana got married in the week before 8 May 2023."),
        ("Please remember that I'm allergic to nuts.", "Ana is allergic to nuts."),
        ("My mail is ana@example.com", "Ana's mail is ana@example.com."),
        ("I don't eat meat because I love animals", "Ana doesn't eat meat.\n1 Ana loves animals."),
    ],
)
def test_facts_are_dated_and_in_the_third_person(said, fact):
    assert reply(Extractor().render([turn(said)])) == f"1 {fact}"


def test_an_unnamed_speaker_is_the_user():
    assert reply(Extractor().render([turn("I adopted a dog named Buddy.", speaker="")])) == (
        "1 User adopted a dog named Buddy."
    )


def test_answers_come_from_memories_with_their_handles():
    bank = remember("I adopted a dog named Buddy.", "I live in Oslo.", "My favourite colour is blue.")
    role = Answerer()

    def ask(question: str):
        prompt = role.render(question, _shown(bank), DAY)
        return role.parse(reply(prompt), prompt).value

    assert "Buddy" in ask("Which pets does Ana have?").text
    home = ask("Where does Ana live?")
    assert home.text == "Ana lives in Oslo."
    assert len(home.memory_ids) == 1
    unknown = ask("What instrument does she play?")
    assert unknown.abstained
    assert unknown.used == ()


@given(st.lists(st.text(max_size=200), min_size=1, max_size=3), st.text(max_size=20))
def test_any_text_gives_a_valid_reply_to_every_role(said, name):
    turns = [turn(text, number, speaker=name) for number, text in enumerate(said, start=1)]
    shown = _shown(remember("I adopted a dog named Buddy.", "I live in Oslo."))
    for role, prompt in (
        (extractor := Extractor(), extractor.render(turns)),
        (fused := Fused("", "compact"), fused.render(turns, shown)),
        (answerer := Answerer(), answerer.render(said[0], shown)),
    ):
        assert not role.parse(reply(prompt), prompt).repairs


def test_an_update_never_becomes_a_copy_of_another_memory():
    bank = remember("I like jazz and rock.", "My brother likes rock.", "I like rock")
    shown = [*_shown(bank), Shown(9, MemoryRecord("m9", "Ana likes rock."))]
    assert reply(Manager().render(Fact("Ana no longer likes jazz."), shown)) == "NOOP 9"


def test_a_re_ask_is_answered_with_what_no_bank_refuses():
    shown = _shown(remember("I live in Oslo."))
    fact = Fact("Ana lives in Bergen.")
    prompt = Manager().render(fact, shown)
    assert reply(prompt).startswith("UPDATE 1")
    again = replace(prompt, messages=prompt.messages + reask_messages("UPDATE 1", OpRejected("not allowed")))
    assert reply(again) == "ADD"


def test_it_is_a_backbone_deterministic_and_fast():
    assert isinstance(RULES, Backbone)
    shown = _shown(remember("I adopted a dog named Buddy.", "I live in Oslo.", "I like jazz and rock."))
    prompt = Fused("", "compact").render([turn("I adopted another dog named Scout and I moved to Bergen.")], shown)
    first = reply(prompt)
    started = time.thread_time()
    for _ in range(100):
        assert reply(prompt) == first
    assert (time.thread_time() - started) / 100 < 0.005, "a decision takes a fraction of a millisecond"
    (answer,) = RULES.generate([GenRequest(prompt)])
    assert {"token_ids", "logprobs", "sampled_logprobs", "prompt_ids"} <= set(answer.missing)


def test_a_hostile_turn_costs_linear_time():
    started = time.thread_time()
    for text in (" " * 200_000, "I and " * 40_000, "a," * 100_000, "I have a dog named " * 10_000, "." * 200_000):
        reply(Extractor().render([turn(text)]))
    assert time.thread_time() - started < 3


def test_a_word_too_long_to_fit_is_cut_and_not_left_out_of_what_it_was_said_for():
    (kept,) = remember("My favourite site is https://example.com/" + "a/" * 400)
    assert kept.text.startswith("Ana's favourite site is https://example.com/a/")
