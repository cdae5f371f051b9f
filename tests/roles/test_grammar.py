"""The reply grammars: what they accept, that they stay small, and that a mask may be shared between states."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.roles.grammar import UNBOUNDED, alt, lit, repeat, seq, text

NUMBERED = repeat(seq(alt(*(str(n) for n in range(1, 13))), " ", text(20), "\n"), 1, 3)
LINES = alt("NONE", NUMBERED)


@pytest.mark.parametrize(
    ("reply", "valid"),
    [
        ("NONE", True),
        ("NON", False),
        ("NONE ", False),
        ("1 a\n", True),
        ("12 two digits\n1 x\n", True),
        ("13 too high\n", False),
        ("1  leading blank\n", False),
        ("1 trailing \n", False),
        ("1 \n", False),
        ("1 " + "a" * 20 + "\n", True),
        ("1 " + "a" * 21 + "\n", False),
        ("1 a\n2 b\n3 c\n", True),
        ("1 a\n2 b\n3 c\n4 d\n", False),
        ("1 tab\there\n", False),
        ("1 override \u202e\n", False),
        ("1 ümläut 👩\u200d🔬\n", True),
    ],
)
def test_a_grammar_accepts_its_language_and_nothing_else(reply, valid):
    assert LINES.matches(reply) is valid


@given(st.text(alphabet="ab \n\x00é", max_size=12))
def test_text_is_what_its_description_says(candidate):
    described = (
        1 <= len(candidate) <= 8
        and candidate == candidate.strip(" ")
        and not any(char in "\n\x00" for char in candidate)
    )
    assert text(8).matches(candidate) is described


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 9))
def test_repeat_counts(low, extra, times):
    assert repeat("ab", low, low + extra).matches("ab" * times) is (low <= times <= low + extra)


def test_repeat_without_an_upper_bound_needs_a_handful_of_states():
    grammar = seq(lit("<"), repeat(alt("a", "bc")), lit(">"))
    assert grammar.matches("<" + "abca" * 500 + ">")
    assert grammar.walk(grammar.start, "<" + "a" * 500) == grammar.walk(grammar.start, "<" + "a" * 7)


@given(st.text(alphabet="1 aé\nNOE", max_size=15), st.text(alphabet="1 aé\nN", max_size=6))
def test_states_of_one_shape_treat_short_strings_alike(prefix, continuation):
    """The promise that token masks are cached on."""
    grammar = seq(alt("1", "11"), " ", text(4000), "\n", repeat(seq(text(3), "\n"), 0, 2))
    state = grammar.walk(grammar.start, "1 " + prefix)
    if state is None:
        return
    longer = grammar.walk(grammar.start, "1 aaaa" + prefix)
    if longer is None or grammar.shape(longer)[0] != grammar.shape(state)[0]:
        return
    if len(continuation) >= min(grammar.shape(state)[1], grammar.shape(longer)[1]):
        return
    one, other = grammar.walk(state, continuation), grammar.walk(longer, continuation)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert grammar.accepting(one) == grammar.accepting(other)


def test_a_long_text_has_few_shapes_and_its_states_are_built_on_demand():
    grammar = seq("ADD ", text(100_000))
    state = grammar.start
    shapes: set[int] = set()
    for char in "ADD " + "word " * 1_999 + "end":
        following = grammar.step(state, char)
        assert following is not None
        state = following
        shapes.add(grammar.shape(state)[0])
    assert grammar.accepting(state)
    assert len(shapes) < 10
    assert grammar.shape(grammar.start)[1] == UNBOUNDED


@given(st.text(alphabet="NOE12 a\n", max_size=25))
def test_no_dead_ends_and_the_shortest_completion_is_reachable(reply):
    state = LINES.walk(LINES.start, reply)
    if state is None:
        return
    left = LINES.shortest(state)
    assert (left == 0) == LINES.accepting(state)
    if left:
        following = [LINES.step(state, char) for char in "NOE12 a\n"]
        assert any(other is not None and LINES.shortest(other) == left - 1 for other in following)


def test_a_grammar_travels_and_is_known_by_its_language():
    LINES.matches("1 a\n")
    copy = pickle.loads(pickle.dumps(LINES))  # noqa: S301 (our own bytes)
    assert copy == LINES
    assert hash(copy) == hash(LINES)
    assert copy.key == LINES.key != NUMBERED.key
    assert copy.matches("NONE")


def test_what_cannot_be_a_language_is_refused():
    for build in (lambda: alt(), lambda: text(0), lambda: repeat("a", 2, 1), lambda: repeat(repeat("a", 0, 1))):
        with pytest.raises(ValueError):
            build()
