"""Which spans time phrases mean, asked on Wednesday 18 October 2023."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import date
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.text.calendars import AROUND_TODAY, LANGUAGES
from memkit.text.times import expand, time_phrases
from memkit.text.words import words

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
        ("the day after tomorrow", "2023-10-20", "2023-10-20"),
        ("the last day", "2023-10-17", "2023-10-17"),
        ("this day", "2023-10-18", "2023-10-18"),
        ("the next day", "2023-10-19", "2023-10-19"),
        ("last Friday", "2023-10-13", "2023-10-13"),
        ("last weekend", "2023-10-14", "2023-10-15"),
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
        ("2023/05/07", "2023-05-07", "2023-05-07"),
        ("7.5.2023", "2023-05-07", "2023-05-07"),
        ("Wer kam am 3. Mai 2023?", "2023-05-03", "2023-05-03"),
        ("3. okt. 2022", "2022-10-03", "2022-10-03"),
        ("seit dem 3. Mai 2023", "2023-05-03", "9999-12-31"),
        ("vom 3. Mai 2023 bis 5. Mai 2023", "2023-05-03", "2023-05-05"),
        ("le 1er avril 2023", "2023-04-01", "2023-04-01"),
        ("¿qué pasó el 3 de mayo de 2023?", "2023-05-03", "2023-05-03"),
        ("3 мая 2023 года", "2023-05-03", "2023-05-03"),
        ("3 Mayıs 2023'te", "2023-05-03", "2023-05-03"),
        ("ב-3 במאי 2023", "2023-05-03", "2023-05-03"),
        ("٣ مايو ٢٠٢٣", "2023-05-03", "2023-05-03"),
        ("३ मई २०२३ को", "2023-05-03", "2023-05-03"),
        ("ngày 3 tháng 5 năm 2023", "2023-05-03", "2023-05-03"),
        ("我2023年5月3日去的", "2023-05-03", "2023-05-03"),
        ("２０２３年五月三日に", "2023-05-03", "2023-05-03"),
        ("2023년 5월에", "2023-05-01", "2023-05-31"),
        ("วันที่ 3 พฤษภาคม 2023", "2023-05-03", "2023-05-03"),
        ("昨天你说了什么", "2023-10-17", "2023-10-17"),
        ("지난주에는", "2023-10-09", "2023-10-15"),
        ("בשבוע שעבר", "2023-10-09", "2023-10-15"),
        ("l'an dernier", "2022-01-01", "2022-12-31"),
        ("de\u0301cembre 2022", "2022-12-01", "2022-12-31"),
    ],
)
def test_phrase_to_span(text: str, first: str, last: str) -> None:
    assert spans(text) == [(first, last)]


def test_days_and_months_without_a_year_recur() -> None:
    assert ("2022-05-07", "2022-05-07") in spans("on 7 May")
    assert ("2023-05-07", "2023-05-07") in spans("on 7 May")
    assert ("2022-07-01", "2022-07-31") in spans("in July")
    assert ("2022-12-01", "2023-02-28") in spans("in the winter")
    assert spans("am 7. Mai") == spans("5月7日") == spans("on 7 May")
    assert spans("im April") == spans("em abril") == spans("в апреле") == spans("4월에") == spans("in April")


def test_other_languages_say_what_their_english_says() -> None:
    for english, lines in AROUND_TODAY.items():
        for phrase in " ".join(lines.split()).split(", "):
            for said in map(" ".join, product(*(word.split("|") for word in phrase.split()))):
                assert spans(said) == spans(english), said


def test_a_month_is_the_same_month_in_every_language() -> None:
    for names in LANGUAGES.values():
        for number, forms in enumerate(names.months.split(), start=1):
            for form in forms.split("|"):
                assert spans(f"3 {form} 2022") == [(f"2022-{number:02}-03",) * 2], form


def test_a_phrase_is_given_as_the_text_has_it() -> None:
    said = "İpek, was war am 3. Mai 2023, 昨天, last week oder letzte Woche?"
    phrases = [phrase.words for phrase in time_phrases(said, TODAY)]
    assert phrases == ["3. Mai 2023", "昨天", "last week", "letzte Woche"]


def test_a_long_list_of_times_is_read_pair_by_pair() -> None:
    assert [phrase.words for phrase in time_phrases("May 2022 to June 2022 to July 2022", TODAY)] == [
        "May 2022 to June 2022",
        "July 2022",
    ]


NO_TIMES = """
    What may I do? | They march on | April is my sister | spring for dinner | 30 February 2023 | 8 dogs | कल
    this yearning | the last daylight | this weekly plan | chips with mayo | Марта и Вера | hier ist es
    guten Morgen | mất 3 tháng | 3个月 | 31.31.23
"""


@pytest.mark.parametrize("text", ["", *re.split(r" \| |\n", NO_TIMES.strip())])
def test_no_time_is_read_where_none_is_meant(text: str) -> None:
    assert spans(text) == []


def test_relative_phrases_need_a_now() -> None:
    assert spans("yesterday, last week or in May 2023", today=None) == [("2023-05-01", "2023-05-31")]


_PIECES = """
    last next this day night past May may 7 30 31 7th 2023 2023-05 9999 0000-13-40 0 summer week weeks ago 999 years
    before since until between and to - . , / ' the a couple of few yesterday tomorrow seit dem bis 3. Mai letzte Woche
    de mayo del año 5月 三十日 2023年 昨天 5월 지난주 tháng năm ngày ٣ مايو اللي فات במאי שנה मई पिछले साल พฤษภาคม
    İ ſ ß ﷺ 👩\u200d🚀
"""
PIECES = st.sampled_from([*_PIECES.split(), " ", "\u00a0", "\u0301", "\u0327", "\ud800"]) | st.text(max_size=3)
TEXTS = st.builds(str.join, st.sampled_from(["", " "]), st.lists(PIECES))


@given(TEXTS, st.dates())
def test_any_text_on_any_day_is_read_without_failing(text: str, today: date) -> None:
    words(text)
    phrases = time_phrases(text, today)
    assert time_phrases(text, None) is not None
    for span in expand(phrases, today.toordinal(), today.toordinal()):
        assert 1 <= span.first <= span.last
    assert all(phrase.words.removeprefix("since ").split(" to ")[0] for phrase in phrases)


def test_letters_that_fold_into_others_are_read_as_those() -> None:
    assert spans("einst im Auguſt 2020") == [("2020-08-01", "2020-08-31")]


def read_times(text: str) -> None:
    phrases = time_phrases(text, TODAY)
    expand(phrases, TODAY.toordinal() - 900, TODAY.toordinal())


def cpu(read: Callable[[str], object], text: str) -> float:
    """The least of a few runs."""
    times: list[float] = []
    for _ in range(3):
        start = time.thread_time()
        read(text)
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize(
    "piece",
    [
        *("May ", "in May 2023 ", "May to ", "last  ", " ", "19/", "a'"),
        *("3 de mayo de ", "2023年5月3日", "어제 ", "\u0301\u0327"),
    ],
)
@pytest.mark.parametrize("read", [read_times, words])
def test_eight_times_the_text_takes_about_eight_times_the_work(read: Callable[[str], object], piece: str) -> None:
    """By CPU time and against itself; what looks at the text again for each of its words takes 64 times."""
    short = piece * (6_000 // len(piece))
    assert cpu(read, short * 8) < 24 * cpu(read, short) + 0.002
