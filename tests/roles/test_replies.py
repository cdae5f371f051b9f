"""Replies as models really write them: repaired where nothing is lost, refused as a whole where something is."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import BadReply, OpRejected
from memkit.models import Bank, MemoryRecord, Turn
from memkit.roles import Answerer, Extractor, Fact, Fused, Manager, Prompt, Shown, reask_message, reask_messages
from tests.mutators import SHAPES, Shape, mutations

AT = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)
TURNS = (
    Turn("t1", "i", Bank("u"), 0, "user", "I adopted a dog named Buddy yesterday. I may visit Ben.", AT, speaker="Ana"),
    Turn("t2", "i", Bank("u"), 1, "user", "My flat is in Oslo, near the Royal park.", AT, speaker="Ben"),
)
FACT = Fact("Ana adopted another dog named Scout.", ("t1",), "Ana", AT)
SHOWN = (
    Shown(1, MemoryRecord("m_one", "Ana has a car.", at=AT), 0.5),
    Shown(2, MemoryRecord("m_two", "Ana has a dog.", at=AT), 0.4),
)

ROLES: dict[str, Any] = {
    role.name: role for role in (Extractor("", "json"), Manager("", "json"), Fused("", "json"), Answerer("", "json"))
}
PROMPTS: dict[str, Prompt] = {
    "extractor": ROLES["extractor"].render(TURNS),
    "manager": ROLES["manager"].render(FACT, SHOWN),
    "fused": ROLES["fused"].render(TURNS, SHOWN),
    "answerer": ROLES["answerer"].render("How many dogs does Ana have?", SHOWN, AT),
}


def parse(role: str, reply: str):
    return ROLES[role].parse(reply, PROMPTS[role])


def meaning(shape: Shape, reply: str, cut: bool = False) -> Any:
    """What a reply comes to. Backslashes do not count: a broken escape leaves one behind, or takes one away."""
    value = ROLES[shape.role].parse(reply, PROMPTS[shape.role], cut=cut).value
    if shape.role == "extractor":
        return [(fact.text.replace("\\", ""), fact.source_turns) for fact in value]
    if shape.role == "answerer":
        return (value.text.replace("\\", ""), value.memory_ids)
    return [(one.action, one.memory_id, (one.text or "").replace("\\", ""), one.source_turns) for one in value]


def refusal(role: str, reply: str) -> str:
    with pytest.raises(BadReply) as caught:
        parse(role, reply)
    return caught.value.details["class"]


def survey(count: int, seed: int) -> Counter[str]:
    """Read `count` mutated replies; what came of them."""
    clean = {shape.name: meaning(shape, shape.text) for shape in SHAPES}
    outcome: Counter[str] = Counter()
    for mutation in mutations(count, seed):
        try:
            read = meaning(mutation.shape, mutation.reply, mutation.cut)
        except BadReply as error:
            read = error.details["class"]  # a refusal names its class
        whole = clean[mutation.shape.name]
        if mutation.repairable:
            outcome["repairable"] += 1
            outcome["recovered"] += read == whole
        elif isinstance(read, list) and not mutation.shape.compact and len(read) < len(whole):
            outcome["partial"] += 1
    return outcome


def test_mutated_replies_are_read_whole_or_refused_whole():
    outcome = survey(1_008, seed=1)
    assert outcome["partial"] == 0
    assert outcome["recovered"] >= 0.95 * outcome["repairable"] > 0


@pytest.mark.slow
def test_ten_thousand_mutated_replies():
    outcome = survey(10_080, seed=2)
    assert outcome["partial"] == 0
    assert outcome["recovered"] >= 0.95 * outcome["repairable"] > 0


def test_clean_replies_need_no_repair():
    for shape in SHAPES:
        if shape.name in ("facts", "operations", "fused", "answer"):
            assert parse(shape.role, shape.text).repairs == ()


@pytest.mark.parametrize(
    ("reply", "repair"),
    [
        ('```json\n{"facts": [{"turn": 1, "fact": "x y"}]}\n```', "fence"),
        ('Sure!\n{"facts": [{"turn": 1, "fact": "x y"}]}', "prose"),
        ("{'facts': [{'turn': 1, 'fact': 'x y'}]}", "single_quotes"),
        ('{"facts": [{"turn": 1, "fact": "x y"},]}', "trailing_comma"),
        ('{"facts": [{"turn": 1, "fact": "x y"}]', "unclosed"),
        ('{"facts": [{"turn": 1, "fact": "x y"} {"turn": 2, "fact": "z"}]}', "missing_comma"),
        ('{facts: [{turn: 1, fact: "x y"}]}', "bare_key"),
        ('{"facts": [{"turn": 1, "fact": "x "y""}]}', "inner_quote"),
        ('{"facts": [{"turn": 1, "fact": "x y"}]} // done', "prose"),
        ('{"items": [{"turn": 1, "fact": "x y"}]}', "renamed_key"),
        ('[{"turn": 1, "fact": "x y"}]', "bare_array"),
        ('{"turn": 1, "fact": "x y"}', "bare_item"),
        ('{"result": {"facts": [{"turn": 1, "fact": "x y"}]}}', "wrapped"),
        ('{"arguments": "{\\"facts\\": [{\\"turn\\": 1, \\"fact\\": \\"x y\\"}]}"}', "encoded_twice"),
        ('{"facts": ["Ana has a dog"]}', "string_item"),
        ('{"facts": [{"fact": "Ana has a dog"}]}', "turn_inferred"),
        ('{"facts": [{"turn": "1", "fact": "x y"}]}', "string_number"),
        ('{"facts": [{"turn": 1, "fact": "x y"}, {"turn": 1, "fact": "X y."}]}', "repeated_item"),
        ('{"facts": [{"turn": 1, "fact": "x\\u202e y"}]}', "control_chars"),
    ],
)
def test_each_repair_is_named(reply, repair):
    parsed = parse("extractor", reply)
    assert repair in parsed.repairs
    assert parsed.value


@pytest.mark.parametrize(
    ("role", "reply", "kind"),
    [
        ("manager", '{"operations": [{"op": "DELETE", "id": 7}]}', "unknown_handle"),
        ("manager", '{"operations": [{"op": "DELETE", "id": "m_two"}]}', "unknown_handle"),
        ("manager", '{"operations": [{"op": "NOOP", "id": 7}]}', "unknown_handle"),
        ("manager", '{"operations": [{"op": "UPDATE", "id": -1, "text": "x"}]}', "unknown_handle"),
        ("manager", '{"operations": [{"op": "UPDATE", "id": true, "text": "x"}]}', "unknown_handle"),
        ("manager", "UPDATE 9 x", "unknown_handle"),
        (
            "manager",
            '{"operations": [{"op": "UPDATE", "id": 1, "text": "x"}, {"op": "DELETE", "id": 1}]}',
            "target_twice",
        ),
        ("manager", "UPDATE 1 x\nUPDATE 1 y", "target_twice"),
        ("manager", '{"operations": [{"op": "ADD", "text": ""}]}', "empty_text"),
        ("manager", '{"operations": [{"op": "ADD", "text": " \\u200b\\u0000 "}]}', "empty_text"),
        ("manager", '{"operations": [{"op": "DESTROY", "id": 1}]}', "unknown_op"),
        ("manager", '{"operations": [{"op": "DELETE"}]}', "no_target"),
        ("manager", '{"operations": [{"id": 1, "text": "x"}]}', "no_op"),
        ("manager", '{"operations": [7]}', "wrong_type"),
        ("manager", '{"operations": [{"op": "ADD", "op": "DELETE", "id": 1}]}', "key_twice"),
        ("manager", '{"operations": [{"op": "ADD", "text": 7}]}', "wrong_type"),
        ("fused", '{"operations": [{"op": "ADD", "text": "x", "turn": 3}]}', "unknown_turn"),
        ("extractor", '{"facts": [{"turn": 0, "fact": "x"}]}', "unknown_turn"),
        ("extractor", "", "empty"),
        ("extractor", "I'm sorry, I can't do that.", "no_items"),
        ("extractor", '{"facts": [{"turn": 1, "fact": "x y"}, {"turn": 1, "fa', "truncated"),
        ("extractor", '{"facts": [{"turn": 1, "fact": "x y"}', "truncated"),
        ("extractor", '{"facts": [{"turn": 1 x "fact": "x"}, {"turn": 1, "fact": "y"}]}', "broken"),
        (
            "extractor",
            '{"facts": [' + ",".join(json.dumps({"turn": 1, "fact": f"f{n}"}) for n in range(41)) + "]}",
            "too_many",
        ),
        ("answerer", '{"memories": [3], "answer": "x"}', "unknown_handle"),
        ("answerer", '{"memories": [1], "answer": ""}', "empty_text"),
        ("answerer", '{"memories": [1], "answer": "x"}{"memories": [1], "answer": "y"}', "several_answers"),
        ("answerer", "Maybe two.", "no_items"),
    ],
)
def test_what_cannot_be_meant_is_refused(role, reply, kind):
    assert refusal(role, reply) == kind


def test_ten_thousand_operations_are_refused_and_five_hundred_repetitions_are_one():
    many = ",".join(json.dumps({"op": "ADD", "text": f"fact {n}"}) for n in range(10_000))
    assert refusal("manager", f'{{"operations": [{many}]}}') == "too_many"
    same = ",".join(['{"op": "ADD", "text": "the same fact"}'] * 500)
    assert len(parse("manager", f'{{"operations": [{same}]}}').value) == 1


def test_a_memory_that_was_shown_cut_is_not_rewritten():
    role = Manager("", "json")
    prompt = role.render(FACT, [Shown(1, MemoryRecord("m", "long " * 200, at=AT))])
    with pytest.raises(BadReply) as caught:
        role.parse('{"operations": [{"op": "UPDATE", "id": 1, "text": "short"}]}', prompt)
    assert caught.value.details["class"] == "cut_target"
    assert not Manager().render(FACT, prompt.view.shown).grammar.matches("UPDATE 1 short")
    assert role.parse('{"operations": [{"op": "NOOP", "id": 1}]}', prompt).value[0].memory_id == "m"


def test_drafts_carry_ids_and_sources():
    (draft,) = parse("manager", "UPDATE 2 Ana has two dogs, Buddy and Scout.").value
    assert (draft.action, draft.memory_id, draft.source_turns, draft.at, draft.speaker) == (
        "update",
        "m_two",
        ("t1",),
        AT,
        "Ana",
    )
    (added,) = parse("manager", "ADD").value
    assert added.text == FACT.text
    (fused,) = parse("fused", "ADD 2 Ben lives in Oslo.").value
    assert (fused.text, fused.source_turns, fused.speaker) == ("Ben lives in Oslo.", ("t2",), "Ben")


@pytest.mark.parametrize("reply", ["NOOP", "noop", "NONE", '{"operations": []}', "No-op.", '{"op": "none"}'])
def test_nothing_to_do_is_one_noop(reply):
    (draft,) = parse("manager", reply).value
    assert (draft.action, draft.memory_id) == ("noop", None)


def test_what_mem0_marks_as_unchanged_is_left_alone():
    reply = (
        '{"memory": [{"id": "1", "text": "Ana has a car.", "event": "NONE"},'
        ' {"id": "5", "text": "Ana has a dog named Scout.", "event": "ADD"}]}'
    )
    (draft,) = parse("manager", reply).value
    assert (draft.action, draft.text) == ("add", "Ana has a dog named Scout.")


@pytest.mark.parametrize(
    ("reply", "text", "used", "abstained"),
    [
        ("USE 1 2\nANSWER two dogs", "two dogs", (1, 2), False),
        ("USE NONE\nANSWER unknown", "unknown", (), True),
        ("I looked at memory 1.\n\n**Answer:** two dogs", "two dogs", (), False),
        ('{"memories": "1, 2", "answer": 2}', "2", (1, 2), False),
        ('{"answer": "two", "memories": [{"nope": 1}]}', None, (), False),
        ("```\nUSE: m1\nAnswer: two\ndogs\n```", "two dogs", (1,), False),
    ],
)
def test_answers(reply, text, used, abstained):
    if text is None:
        assert refusal("answerer", reply) == "unknown_handle"
        return
    draft = parse("answerer", reply).value
    assert (draft.text, draft.used, draft.abstained) == (text, used, abstained)
    assert draft.memory_ids == tuple(PROMPTS["answerer"].view.shown[number - 1].record.id for number in used)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(ROLES)),
    st.lists(
        st.sampled_from(['{"', '":', '"', "'", "{", "}", "[", "]", ",", ":", "\\", "\n", "ADD ", "UPDATE 1 ", "ANSWER ",
                         "facts", "operations", "op", "text", "1", "null", "NONE", "```", "//", "/*", "\x00", "\ud800"])
        | st.text(max_size=5),
        max_size=40,
    ),
)  # fmt: skip
def test_any_reply_is_read_or_refused(role, parts):
    try:
        parse(role, "".join(parts))
    except BadReply as error:
        reask_message(error)


def test_reading_takes_linear_time():
    hostile = [
        "[" * 100_000,
        '{"a":' * 40_000,
        '{"a":"' + '" ' * 50_000,
        '{"a":"' + "\\" * 100_001,
        "{" * 100_000,
        "[1" + ",/" * 50_000,
        '{"facts":[' + '{"turn":1,"fact":"x"},' * 5_000 + "]}",
        "ADD x\n" * 25_000,
        "{'a': '" + "',a" * 40_000,
        '{"a"' + " " * 100_000 + "x",
        "\n" * 100_000 + "x",
        "\"'" * 50_000,
        "1 a\n" * 25_000,
    ]
    started = time.thread_time()
    for reply in hostile:
        for role in ROLES:
            try:
                parse(role, reply)
            except BadReply:
                continue
    assert time.thread_time() - started < 8, "13 replies of up to 240 kB, read by four roles"


def test_a_re_ask_quotes_the_error_and_little_of_the_reply():
    with pytest.raises(BadReply) as caught:
        parse("manager", '{"operations": [{"op": "DELETE", "id": "' + "9" * 5_000 + '"}]}')
    message = reask_message(caught.value)
    assert message.role == "user"
    assert "was shown" in message.content
    assert "1, 2" in message.content
    assert len(message.content) < 600
    said, again = reask_messages("x" * 50_000, caught.value)
    assert (said.role, again) == ("assistant", message)
    assert len(said.content) <= 1_000
    assert reask_messages("", caught.value)[0].content


def test_a_re_ask_shows_the_reply_as_it_was_written():
    wrong = OpRejected("3 deletions; the cap is 2", fix="UPDATE what is over")
    said, again = reask_messages('{"operations": [\n{"op": "DELETE"}]}\u202e', wrong)
    assert said.content == '{"operations": [\n{"op": "DELETE"}]}\\u202e'
    assert "(UPDATE what is over)" in again.content
