"""`filters={...}`: typed, literal, bounded; the same answer in Python and through LanceDB."""

from __future__ import annotations

import ast
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memkit
from memkit.errors import InvalidFilter, InvalidInput, InvalidTime
from memkit.filters import COLUMNS, MAX_TERMS, MAX_VALUES, OPERATORS, parse_filters
from memkit.models import MemoryRecord
from memkit.store import ProjectedRow, Projection
from memkit.store.compile import compile_condition
from tests.store._rows import START, open_projection, row

RECORD = MemoryRecord(
    id="m_1",
    text="hello",
    speaker="Ana",
    at=START,
    trust=0.5,
    revision=3,
    seq=9,
    created_at=START,
    metadata={
        "n": 1,
        "yes": True,
        "none": None,
        "tag": "x",
        "deep": {"er": {"est": 2.5}},
        "list": ["x"],
        "day": "2024-05-08",
    },
)

HOLDS: list[dict[str, Any]] = [
    {}, {"speaker": "Ana"}, {"speaker": {"$ne": "Bob"}}, {"speaker": {"$in": ["Ana", "Bob"]}},
    {"speaker": {"$in": {"Ana"}}},
    {"trust": {"$gte": 0.5, "$lt": 0.6}}, {"revision": 3}, {"revision": 3.0}, {"trainable": True}, {"seq": {"$gt": 8}},
    {"at": START}, {"at": START.astimezone(timezone(timedelta(hours=2)))}, {"at": "2024-05-08T15:56:00+02:00"},
    {"at": {"$gt": "2024-05-08T00:00:00Z"}}, {"expires_at": None}, {"expires_at": {"$ne": START}},
    {"at": {"$ne": None}},
    {"metadata.n": 1}, {"metadata.n": 1.0}, {"metadata.yes": True}, {"metadata.none": None},
    {"metadata.tag": {"$in": ["x", 1]}},
    {"metadata.deep.er.est": {"$gt": 2, "$lt": 3}}, {"metadata.gone": {"$ne": 1}}, {"metadata.gone.too": {"$ne": None}},
    {"metadata.n": {"$ne": True}}, {"metadata.yes": {"$ne": 1}}, {"metadata.list": {"$ne": "x"}},
    {"metadata.day": {"$gte": "2024-01-01", "$lt": "2025-01-01"}},
]  # fmt: skip

FAILS: list[dict[str, Any]] = [
    {"speaker": "ana"},
    {"speaker": "Ana "},
    {"speaker": {"$in": []}},
    {"metadata.n": True},
    {"metadata.yes": 1},
    {"metadata.n": "1"},
    {"metadata.gone": None},
    {"metadata.gone": {"$lt": 5}},
    {"metadata.tag": {"$gt": 1}},
    {"metadata.n": {"$in": [True, "1"]}},
    {"metadata.deep": 1},
    {"metadata.tag.x": "x"},
    {"metadata.list": "x"},
    {"expires_at": {"$gt": START}},
    {"speaker": "Ana", "revision": 4},
    {"metadata.yes": {"$gt": 0}},
    {"trainable": False},
]

REFUSED: list[Any] = [
    [], "speaker", 7, {"user_id": "bob"}, {"vector": 1}, {"deleted": False}, {1: 2}, {"speaker": {"$regex": "x"}},
    {"speaker": {"eq": "x"}}, {"speaker": {}}, {"speaker": ["Ana"]}, {"speaker": 1}, {"speaker": None}, {"trust": "1"},
    {"trust": True}, {"trainable": 1}, {"trainable": {"$gt": True}}, {"at": 5}, {"seq": {"$lt": None}},
    {"trust": float("nan")},
    {"metadata": {"a": 1}}, {"metadata.": 1}, {"metadata.a..b": 1}, {"metadata." + "a." * 16 + "b": 1},
    {"metadata.a": [1]},
    {"metadata.a": {"$in": "abc"}}, {"metadata.a": {"$in": [[1]]}}, {"metadata.a": {"$gt": True}}, {"metadata.a": b"x"},
    {"speaker": "\ud800"}, {"metadata.\ud800": 1}, {"speaker": {"$in": ["x"] * (MAX_VALUES + 1)}},
    {f"metadata.k{n}": n for n in range(MAX_TERMS + 1)}, {"id) OR (1": 1}, {"speaker": {("$eq",): 1}},
]  # fmt: skip


@pytest.mark.parametrize("filters", HOLDS, ids=str)
def test_holds(filters: dict[str, Any]) -> None:
    assert parse_filters(filters).matches(RECORD)


@pytest.mark.parametrize("filters", FAILS, ids=str)
def test_fails(filters: dict[str, Any]) -> None:
    assert not parse_filters(filters).matches(RECORD)


@pytest.mark.parametrize("filters", REFUSED, ids=lambda value: ascii(value)[:40])
def test_refused_with_what_is_allowed(filters: Any) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filters(filters)
    assert "speaker" in str(caught.value)
    assert "$gte" in str(caught.value)


@pytest.mark.parametrize("value", [datetime(2024, 1, 1), "2024-01-01T00:00:00", "yesterday"])
def test_times_need_an_offset(value: Any) -> None:
    with pytest.raises(InvalidTime):
        parse_filters({"at": {"$gt": value}})


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3) | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(OPERATORS) | st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*COLUMNS, "metadata.n", "metadata.deep.er"]) | st.text(), junk, max_size=4))
def test_any_input_is_a_condition_or_a_typed_refusal(filters: dict[str, Any]) -> None:
    try:
        condition = parse_filters(filters)
    except InvalidInput:
        return
    assert condition.matches(RECORD) in (True, False)


# -- through LanceDB -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[ProjectedRow], Any]:
    root = tmp_path_factory.mktemp("filters")
    store = open_projection(root)
    rows = [
        row(
            n,
            speaker=["Ana", "ana", "Bob", ""][n % 4],
            trust=n / 10,
            revision=n % 5,
            trainable=n % 2 == 0,
            kind=["fact", "episode"][n % 2],
            at=START + timedelta(hours=n),
            session_id=f"s{n % 3}",
            expires_at=None if n % 3 else START + timedelta(days=n),
        )
        for n in range(1, 41)
    ]
    store.apply(rows, 40)
    import lancedb

    return rows, lancedb.connect(str(root / "lance")).open_table("memories")


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "speaker": st.sampled_from(["Ana", "ana", "Bob", "", "x"]),
    "kind": st.sampled_from(["fact", "episode"]),
    "trust": st.integers(-1, 5) | st.floats(0, 4, allow_nan=False),
    "revision": st.integers(-1, 6) | st.just(2.5),
    "seq": st.integers(0, 41) | st.just(2**70),
    "at": st.integers(-2, 42).map(lambda h: START + timedelta(hours=h)),
    "expires_at": st.none()
    | st.just(datetime(1, 1, 1, tzinfo=UTC))
    | st.integers(0, 41).map(lambda d: START + timedelta(days=d)),
    "session_id": st.sampled_from(["s0", "s1", "S1"]),
}


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    filters: dict[str, Any] = {}
    for column in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True)):
        operator = draw(st.sampled_from([one for one in OPERATORS if one != "$contains"]))  # of no column
        value = VALUES[column].filter(lambda v, op=operator: v is not None or op in ("$eq", "$ne", "$in"))
        filters[column] = {operator: draw(st.lists(value, max_size=3) if operator == "$in" else value)}
    return filters


@given(filters=conditions())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lancedb_never_hides_a_match(table: tuple[list[ProjectedRow], Any], filters: dict[str, Any]) -> None:
    rows, handle = table
    condition = parse_filters(filters)
    pushed, complete = compile_condition(condition)
    query = handle.search().where(pushed) if pushed is not None else handle.search()
    found = set(query.select(["id"]).to_arrow().column("id").to_pylist())
    matching = {each.memory_id for each in rows if each.record is not None and condition.matches(each.record)}
    assert matching <= found
    if complete:
        assert found - {"__wm__"} == matching


PIECES = [
    "'",
    '"',
    "\\",
    "--",
    ";",
    "*",
    "%",
    "_",
    "`",
    "\0",
    "\n",
    " OR 1=1",
    "$1",
    "{}",
    "NULL",
    "é",
    "🦀",
    "\u202e",
    "x",
    " ",
]


@pytest.mark.slow
def test_six_hundred_hostile_strings_match_only_themselves(tmp_path: Path) -> None:
    hostile = [
        (PIECES[n % 20] + PIECES[n // 20 % 20] * (n % 3) + PIECES[n * 7 % 20])[: 1 + n % 9] + str(n) * (n % 2)
        for n in range(3000)
    ]
    names = sorted(set(hostile))[:600]
    assert len(names) == 600
    store: Projection = open_projection(tmp_path)
    users = [name.replace("\0", "0") + "\t" * n for n, name in enumerate(names)]
    rows = [row(n, users[n], speaker=name, seq=n + 1) for n, name in enumerate(names)]
    store.apply(rows, 600)
    store.maintain(force=True)
    import lancedb

    handle = lancedb.connect(str(tmp_path / "lance")).open_table("memories")
    for n, name in enumerate(names):
        assert [(bank.user_id, record.speaker) for bank, record in store.slice(users[n]).records] == [(users[n], name)]
        pushed, complete = compile_condition(parse_filters({"speaker": name}))
        assert complete
        assert handle.search().where(pushed).select(["speaker"]).to_arrow().column("speaker").to_pylist() == [name]


def test_no_text_is_spliced_into_a_query() -> None:
    """`where`, `delete`, `update`, … in the store take expressions or constants, never an f-string, % or .format."""
    guarded = {"where", "delete", "update", "count_rows", "when_matched_update_all", "to_sql", "func"}
    for path in (Path(memkit.__file__).parent / "store").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in guarded):
                continue
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                spliced = [
                    n
                    for n in ast.walk(argument)
                    if isinstance(n, ast.JoinedStr | ast.BinOp) or (isinstance(n, ast.Attribute) and n.attr == "format")
                ]
                assert not spliced, f"{path.name}:{node.lineno}"
            assert node.func.attr != "to_sql", f"{path.name}:{node.lineno}: expressions stay typed"
