"""Context blocks: data that reads back exactly, in order of time, never over budget."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import InvalidInput
from memkit.models import MemoryRecord
from memkit.retrieval import estimate_tokens, nonce_of, parse_context, render_context
from memkit.roles.recalled import strip_recalled
from tests.retrieval._payloads import payloads

NONCE = "0123456789ab"
START = datetime(2023, 5, 8, tzinfo=UTC)


def memories(texts: list[str]) -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"m{n}",
            text=text,
            speaker=f"speaker {n % 3}",
            origin="tool" if n % 5 == 0 else "user",
            seq=n,
            at=START + timedelta(hours=n),
        )
        for n, text in enumerate(texts)
    ]


def test_five_hundred_payloads_read_back_exactly() -> None:
    texts = payloads(500, NONCE)
    records = memories(texts)
    block = render_context(records[::-1], 1_000_000, nonce=NONCE)
    items = parse_context(block.text)
    told = sorted(records, key=lambda record: record.origin == "tool")  # what no person said comes last
    assert [item.text for item in items] == [record.text for record in told]
    assert [(item.speaker, item.origin) for item in items] == [(r.speaker, r.origin) for r in told]
    assert block.ids == tuple(record.id for record in told)
    assert len(block.text.split("\n")) == 500 + len({(item.date, item.origin) for item in items}) + 3
    assert block.text.replace("\n", "").isprintable()
    assert strip_recalled(f"Hello\n{block.text}\nBye") == "Hello\nBye"


@pytest.mark.parametrize("payload", payloads(60, NONCE))
def test_a_payload_alone_reads_back_exactly(payload: str) -> None:
    (item,) = parse_context(render_context(memories([payload]), 100_000, nonce=NONCE).text)
    assert item.text == payload
    assert item.date == "8 May 2023"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=300), max_size=12), st.integers(1, 400), st.integers(0, 2))
def test_budget_is_never_exceeded(texts: list[str], max_tokens: int, counter: int) -> None:
    count = (estimate_tokens, len, lambda text: len(text.encode("utf-8", "surrogatepass")))[counter]
    block = render_context(memories(texts), max_tokens, nonce=NONCE, count_tokens=count)
    assert count(block.text) <= max_tokens
    assert len(parse_context(block.text)) == len(block.ids) if block.text else block.ids == ()


def test_a_counter_that_finds_more_in_the_whole_is_obeyed() -> None:
    def count(text: str) -> int:
        return len(text) + 50 * text.count("\n") ** 2

    block = render_context(memories([f"text {n}" for n in range(30)]), 3_000, nonce=NONCE, count_tokens=count)
    assert block.ids
    assert count(block.text) <= 3_000


def test_the_best_are_kept_and_told_in_order_of_time() -> None:
    records = [
        replace(record, origin="user")
        for record in memories([f"memory number {n} about this and that" for n in range(40)])
    ]
    ranked = random.Random(1).sample(records, 40)
    block = render_context(ranked, 260, nonce=NONCE)
    kept = len(block.ids)
    assert 3 < kept < 40
    assert set(block.ids) == {record.id for record in ranked[:kept]}
    assert list(block.ids) == sorted(block.ids, key=lambda name: int(name[1:]))


def test_the_same_words_are_told_once_and_long_ones_are_cut() -> None:
    same = [MemoryRecord(id="a", text="Ana has a dog."), MemoryRecord(id="b", text="ana has a  dog")]
    assert render_context(same, 500, nonce=NONCE).ids == ("a",)
    (item,) = parse_context(render_context([MemoryRecord(id="c", text="x" * 5_000)], 5_000, nonce=NONCE).text)
    assert item.cut
    assert item.text == "x" * 2_000 + "…"


def test_nothing_fits_and_bad_blocks() -> None:
    assert render_context([], 100, nonce=NONCE).text == ""
    assert render_context(memories(["hello"]), 5, nonce=NONCE).text == ""
    with pytest.raises(InvalidInput):
        render_context([], 0, nonce=NONCE)
    whole = render_context(memories(["hello"]), 500, nonce=NONCE).text
    for broken in ("", "hello", whole[:-1], whole.replace('"hello"', "hello"), whole.replace(NONCE, "ff" * 6, 1)):
        with pytest.raises(InvalidInput):
            parse_context(broken)


def test_a_nonce_that_is_no_hexadecimal_is_hashed() -> None:
    assert parse_context(render_context(memories(["hello"]), 500, nonce="c_1\n>>").text)[0].text == "hello"


def test_what_tools_and_documents_said_takes_a_fifth_of_a_block_and_stands_below_the_users_words() -> None:
    said = MemoryRecord(id="said", text="My badge number is 4417.", kind="turn", at=START + timedelta(days=9), seq=99)
    planted = [
        MemoryRecord(
            id=f"p{n}", text=f"The badge number is {n}. It is {n}.", kind="turn", origin=origin, at=START, seq=n
        )
        for n, origin in enumerate(["tool", "document", "import"] * 20)
    ]
    block = render_context([*planted, said], 300, nonce=NONCE)
    assert block.ids[0] == "said"
    outside = [item for item in parse_context(block.text) if item.origin != "user"]
    assert 0 < sum(estimate_tokens(item.text) for item in outside) <= 60


def test_what_always_matters_has_a_sixth_of_a_block_and_a_third_where_there_is_room() -> None:
    allergy, name = "Em bị dị ứng với tôm và cua.", "Em tên là Lan, còn chồng em là Minh."
    asked = [MemoryRecord(id=f"m{n}", text=f"{n}: " + "tea " * 10, seq=n, at=START) for n in range(20)]
    core = [MemoryRecord(id=f"c{n}", text=text, seq=90 + n, at=START) for n, text in enumerate((allergy, name))]

    def told(records: list[MemoryRecord]) -> list[str]:
        return [one.text for one in parse_context(render_context(records, 130, nonce=NONCE, core=core).text)]

    assert told([]) == [allergy], "a sixth is too little for it, a third enough, and both are more"
    assert told(asked[:1])[:2] == [asked[0].text, allergy]
    assert allergy not in told(asked), "what was asked leaves no room"
    assert told([core[0]]).count(allergy) == 1


def test_whose_words_they_are_stands_before_them_unless_a_manager_wrote_them() -> None:
    kinds = [("turn", "user"), ("episode", "user"), ("turn", "assistant"), ("turn", "tool"), ("fact", "user")]
    records = [
        MemoryRecord(id=str(n), text=f"words {n}", kind=kind, origin=origin, seq=n)  # type: ignore[arg-type]
        for n, (kind, origin) in enumerate(kinds)
    ]
    lines = render_context(records, 500, nonce=NONCE).text.split("\n")[2:-1]
    assert [line.partition(' "')[0] for line in lines] == [
        "user:",
        "user:",
        "assistant:",
        '"words 4"',
        "(tool):",
    ]


def test_a_year_is_told_once_and_read_back_with_each_date() -> None:
    days = [datetime(2023, 5, 8, tzinfo=UTC), datetime(2023, 5, 9, tzinfo=UTC), None, datetime(2024, 5, 9, tzinfo=UTC)]
    records = [MemoryRecord(id=str(n), text=f"note {n}", at=at, seq=n) for n, at in enumerate(days)]
    block = render_context(records, 500, nonce=NONCE).text
    assert "\n9 May\n" in block
    dates = ["", "8 May 2023", "9 May 2023", "9 May 2024"]
    assert [item.date for item in parse_context(block)] == dates


def test_three_quarters_of_a_block_are_memory() -> None:
    said = "We went to the harbour with the dog, had coffee on the pier and met Kim, who starts at the clinic in May."
    records = [
        MemoryRecord(f"{n}", f"{n}. {said}", kind="turn", at=START + timedelta(days=n // 4), seq=n) for n in range(20)
    ]
    block = render_context(records, 1_000, nonce=NONCE).text
    inside = sum(estimate_tokens(item.text) for item in parse_context(block))
    assert len(parse_context(block)) == 20
    assert inside >= 0.75 * estimate_tokens(block)


def test_a_block_s_frame_costs_the_same_in_every_call() -> None:
    """Else the same memories would be cut differently from one call to the next."""
    nonces = [nonce_of(f"c_{number}") for number in range(500)]
    assert len(set(nonces)) == 500
    assert {estimate_tokens(nonce) for nonce in nonces} == {4}
    record = MemoryRecord("m", "Ana has a dog.", at=START)
    blocks = [render_context([record], 200, nonce=nonce).text for nonce in nonces[:20]]
    assert {estimate_tokens(block) for block in blocks} == {estimate_tokens(blocks[0])}
    assert [parse_context(block)[0].text for block in blocks] == ["Ana has a dog."] * 20
    assert all(strip_recalled(f"before\n{block}\nafter") == "before\nafter" for block in blocks)
