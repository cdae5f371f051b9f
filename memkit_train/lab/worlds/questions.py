"""Questions with exact answers from a dated history: current, lists, counts, owners, as-of, two hops, unanswerable."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memkit_train.lab.worlds import language
from memkit_train.lab.worlds.language import COUNTS, MANY, Phrasebook
from memkit_train.lab.worlds.model import Question

if TYPE_CHECKING:
    from memkit_train.lab.worlds.generate import History

_ASKED = ("city", "job", "food", "pets", "hobbies", "plan")
_DATED = ("city", "job", "food")
_MIX = {"single": 5.0, "list": 3.0, "unknown": 2.0, "owner": 1.0, "count": 1.0, "hop": 1.5, "asof": 1.5}

_ABSTAINED = frozenset({"", "unknown", "none", "i don't know", "not mentioned", "no information available"})

_Draft = tuple[str, str, tuple[str, ...], tuple[str, str], tuple[str, ...], datetime | None, tuple[str, str] | None]
"""(kind, text, answer, key, evidence, as_of, via)"""


def ask(
    history: History,
    people: Sequence[str],
    book: Phrasebook,
    rng: random.Random,
    at: datetime,
    count: int,
    prefix: str,
    *,
    past: bool = False,
) -> tuple[Question, ...]:
    """Up to `count` different questions that the history answers (or provably does not). `past`: as-of too."""
    asker = _Asker(history, people, book, rng)
    kinds = {kind: weight for kind, weight in _MIX.items() if past or kind != "asof"}
    out: list[Question] = []
    seen: set[tuple[object, ...]] = set()
    for _ in range(count * 8):
        if len(out) == count:
            break
        (kind,) = rng.choices(list(kinds), list(kinds.values()))
        draft = asker.makers[kind](asker)
        if draft is None:
            continue
        kind, text, answer, key, evidence, as_of, via = draft
        identity = (kind, key, as_of, via)
        if identity in seen:
            continue
        seen.add(identity)
        stale = tuple(value for value in dict.fromkeys(history.past.get(key, ())) if value not in answer)
        out.append(Question(f"{prefix}{len(out) + 1}", text, kind, answer, at, as_of, evidence, key, via, stale))
    return tuple(out)


class _Asker:
    def __init__(self, history: History, people: Sequence[str], book: Phrasebook, rng: random.Random) -> None:
        self.history, self.people, self.book, self.rng = history, people, book, rng

    def _text(self, kind: str, subject: str = "", value: str = "", day: str = "") -> str:
        template = self.book.question(self.rng, kind)
        return template.replace("{s}", subject).replace("{v}", value).replace("{d}", day)

    def _evidence(self, key: tuple[str, str]) -> tuple[str, ...]:
        sources = self.history.sources.get(key, {})
        values = self.history.now.get(key, ())
        found = [sources[value] for value in values] or ([sources[""]] if "" in sources else [])
        return tuple(dict.fromkeys(found))

    def single(self) -> _Draft | None:
        known = [key for key in self.history.now if key[1] not in MANY]
        if not known:
            return None
        key = self.rng.choice(known)
        text = self._text(key[1], key[0])
        return "single", text, self.history.now[key], key, self._evidence(key), None, None

    def listing(self) -> _Draft | None:
        known = [key for key in self.history.now if key[1] in MANY]
        if not known:
            return None
        key = self.rng.choice(known)
        return "list", self._text(key[1], key[0]), self.history.now[key], key, self._evidence(key), None, None

    def count(self) -> _Draft | None:
        known = [key for key in self.history.now if key[1] in MANY]
        if not known:
            return None
        key = self.rng.choice(known)
        answer = (COUNTS[len(self.history.now[key])],)
        return "count", self._text(f"count:{key[1]}", key[0]), answer, key, self._evidence(key), None, None

    def unknown(self) -> _Draft | None:
        """Never said, or retracted: retracted ones first, they are what a forgetful manager gets wrong."""
        empty = [(s, a) for s in self.people for a in _ASKED if (s, a) not in self.history.now]
        ended = [key for key in empty if key in self.history.past]
        if not empty:
            return None
        key = self.rng.choice(ended if ended and self.rng.random() < 0.7 else empty)
        return "unknown", self._text(key[1], key[0]), (), key, self._evidence(key), None, None

    def owner(self) -> _Draft | None:
        known = [(key, value) for key, values in self.history.now.items() if key[1] == "pets" for value in values]
        if not known:
            return None
        key, value = self.rng.choice(known)
        evidence = (self.history.sources[key][value],)
        return "owner", self._text("owner", value=value), (key[0],), (value, "owner"), evidence, None, None

    def hop(self) -> _Draft | None:
        owned = [(key, value) for key, values in self.history.now.items() if key[1] == "pets" for value in values]
        routes = [
            (key, value, target)
            for key, value in owned
            for target in ((key[0], attribute) for attribute in _DATED)
            if target in self.history.now
        ]
        if not routes:
            return None
        key, value, target = self.rng.choice(routes)
        evidence = tuple(dict.fromkeys((self.history.sources[key][value], *self._evidence(target))))
        text = self._text(f"hop:{target[1]}", value=value)
        return "hop", text, self.history.now[target], target, evidence, None, (value, "owner")

    def asof(self) -> _Draft | None:
        """Asks for a day on which an attribute that changed since had another value."""
        spans: list[tuple[tuple[str, str], datetime, datetime, tuple[str, ...], str]] = []
        for index, change in enumerate(self.history.changes):
            if change.key[1] not in _DATED or not change.values:
                continue
            after = (later for later in self.history.changes[index + 1 :] if later.key == change.key)
            later = next((one for one in after if one.values != change.values), None)
            if later is not None and (later.at - change.at) >= timedelta(days=3):
                spans.append((change.key, change.at, later.at, change.values, change.ref))
        if not spans:
            return None
        key, start, end, values, ref = self.rng.choice(spans)
        day = (start + timedelta(days=self.rng.randint(1, max(1, (end - start).days - 1)))).replace(hour=0, minute=0)
        text = self._text(f"asof:{key[1]}", key[0], day=language.day_name(day))
        return "asof", text, values, key, (ref,), day, None

    makers: dict[str, Callable[..., _Draft | None]] = {  # noqa: RUF012 - a constant table of methods
        "single": single,
        "list": listing,
        "count": count,
        "unknown": unknown,
        "owner": owner,
        "hop": hop,
        "asof": asof,
    }


def matches(question: Question, answer: str) -> bool:
    """Whether `answer` says exactly the expected values, in any order, and nothing else."""
    said = " ".join(answer.strip().strip(".").split())
    if not question.answer:
        return said.lower() in _ABSTAINED
    wanted = {value.lower() for value in question.answer}
    return {value.lower() for value in language.split_values(said)} == wanted
