"""Which spans time phrases mean, asked on Wednesday 18 October 2023."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.text.times import expand, time_phrases

TODAY = date(2023, 10, 18)


def spans(text: str, today: date | None = TODAY) -> list[tuple[str, str]]:
    bounds = date(2022, 3, 1).toordinal(), date(2023, 9, 1).toordinal()
    found = expand(time_phrases(text, today), *bounds)
    return [(str(date.fromordinal(span.first)), str(date.fromordinal(span.last))) for span in found]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What happened in May 2023?", "2023-05-01", "2023-05-31"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-07"),
        ("the party of 7 May 2023", "2023-05-07", "2023-05-07"),
        ("2023-05-07", "2023-05-07", "2023-05-07"),
        ("during 2022", "2022-01-01", "2022-12-31"),
        ("in the summer of 2022", "2022-06-01", "2022-08-31"),
        ("winter 2022", "2022-12-01", "2023-02-28"),
        ("last summer", "2023-06-01", "2023-08-31"),
        ("last winter", "2022-12-01", "2023-02-28"),
        ("yesterday", "2023-10-17", "2023-10-17"),
        ("the day before yesterday", "2023-10-16", "2023-10-16"),
        ("last Friday", "2023-10-13", "2023-10-13"),
        ("on Monday", "2023-10-16", "2023-10-16"),
        ("last week", "2023-10-09", "2023-10-15"),
        ("last month", "2023-09-01", "2023-09-30"),
        ("next month", "2023-11-01", "2023-11-30"),
        ("last December", "2022-12-01", "2022-12-31"),
        ("two weeks ago", "2023-10-01", "2023-10-07"),
        ("a couple of days ago", "2023-10-16", "2023-10-16"),
        ("in the past 3 months", "2023-07-20", "2023-10-18"),
        ("between May 2023 and July 2023", "2023-05-01", "2023-07-31"),
        ("since May 2023", "2023-05-01", "9999-12-31"),
        ("before May 2023", "0001-01-01", "2023-04-30"),
        ("until May 2023", "0001-01-01", "2023-05-31"),
    ],
)
def test_phrase_to_span(text: str, first: str, last: str) -> None:
    assert spans(text) == [(first, last)]


def test_days_and_months_without_a_year_recur() -> None:
    assert ("2022-05-07", "2022-05-07") in spans("on 7 May")
    assert ("2023-05-07", "2023-05-07") in spans("on 7 May")
    assert ("2022-07-01", "2022-07-31") in spans("in July")
    assert ("2022-12-01", "2023-02-28") in spans("in the winter")


@pytest.mark.parametrize(
    "text",
    ["What may I do?", "They march on", "April is my sister", "spring for dinner", "30 February 2023", "", "8 dogs"],
)
def test_no_time_is_read_where_none_is_meant(text: str) -> None:
    assert spans(text) == []


def test_relative_phrases_need_a_now() -> None:
    assert spans("yesterday, last week or in May 2023", today=None) == [("2023-05-01", "2023-05-31")]


_TEXT = "last next this in on between and to from May 7 30 31 2023 9999 0 summer week weeks ago 99 years before since"
WORDS = st.sampled_from(_TEXT.split())


@given(st.lists(WORDS, max_size=12), st.dates())
def test_any_text_on_any_day_is_read_without_failing(words: list[str], today: date) -> None:
    for span in expand(time_phrases(" ".join(words), today), today.toordinal(), today.toordinal()):
        assert span.first <= span.last


def test_letters_that_fold_into_others_are_read_without_failing() -> None:
    assert time_phrases("einst im Auguſt 2020", TODAY) == ()
