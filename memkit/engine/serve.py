"""What a read serves of a bank: the best rows, nothing twice.

A fact is the index of the words that it was drawn from, and the present state of what they say. Where both would be
served: a fact that says all that the words say, and not as a part of them, stands for them; one that was rewritten
since comes before them; and one that says nothing beyond words that fit the question better is left out beside them. Of
two rows that say nearly the same, the newer comes first: people seldom say that they change their minds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memkit.models import MemoryRecord, normalise
from memkit.retrieval import BankIndex, Query, RankerWeights, Scored, rank
from memkit.retrieval.context import OUTSIDE_SHARE, is_outside
from memkit.retrieval.query import RowCondition
from memkit.retrieval.weights import DEFAULT
from memkit.text.content import carries, content, shares
from memkit.text.passages import excerpt
from memkit.text.words import is_unspaced

_LOOKED_THROUGH, _MORE = 4, 20
"""Rows looked at for each that is served, and beyond: what is said twice, and other windows of a turn, make room."""
_WITH_SOURCES, _EXCERPT, _WINDOWS = 5, 240, 8
"""Facts that bring their words, letters of the excerpt, windows of a long turn that are looked through for it."""
_ALIKE, _OF_QUESTION, _LOOKED_AT = 0.5, 2, 24
"""Two of the best rows are about the same thing where the shorter has this share of its words in common with the other,
so many words of the question (or all that the best rows have of it) among them."""


Reorder = Callable[[Sequence[Scored]], list[Scored]]


def serve(
    index: BankIndex, query: Query, weights: RankerWeights = DEFAULT, reorder: Reorder | None = None
) -> list[Scored]:
    """The best rows for a question, best first. reorder: looks at the ranked rows before anything is left out."""
    scored = rank(index, replace(query, k=_LOOKED_THROUGH * query.k + _MORE), weights)
    scored = scored if reorder is None else reorder(scored)
    return newest_first(_once(_unrepeated(_best_windows(scored))), content(query.text))[: query.k]


def serve_people(
    index: BankIndex, query: Query, weights: RankerWeights = DEFAULT, reorder: Reorder | None = None
) -> list[Scored]:
    """The same, and where what nobody said (tools, documents) is among it, the best of what people said behind it: a
    block or an answer has room for both, however much was planted."""
    best = serve(index, query, weights, reorder)
    if not any(is_outside(one.record) for one in best):
        return best
    known = {one.record.id for one in best}
    said = serve(index, replace(query, condition=_ByPeople(query.condition)), weights, reorder)
    return [*best, *(one for one in said if one.record.id not in known)]


def within_quota(scored: Sequence[Scored], room: int) -> list[Scored]:
    """The best `room` rows; what nobody said has a fifth of the places, or those that people leave."""
    people = sum(not is_outside(one.record) for one in scored)
    left = max(room // OUTSIDE_SHARE, room - people)
    kept: list[Scored] = []
    for one in scored:
        outside = is_outside(one.record)
        if len(kept) < room and (left or not outside):
            kept.append(one)
            left -= outside
    return kept


@dataclass(frozen=True, slots=True)
class _ByPeople:
    condition: RowCondition | None

    def matches(self, record: MemoryRecord) -> bool:
        return not is_outside(record) and (self.condition is None or self.condition.matches(record))


def _unrepeated(scored: Sequence[Scored]) -> list[Scored]:
    """What somebody said several times in the same words, once: as it was said last, in the best place of them."""
    places: dict[tuple[str, str], int] = {}
    out: list[Scored] = []
    for one in scored:
        record = one.record
        key = (record.speaker, " ".join(record.text.casefold().split()))
        place = places.setdefault(key, len(out)) if record.kind == "turn" else len(out)
        if place == len(out):
            out.append(one)
        elif _time(record) > _time(out[place].record):
            out[place] = one.in_place_of(out[place])
    return out


def _best_windows(scored: Sequence[Scored]) -> list[Scored]:
    """Of the windows of a long turn, the best: the others would take the places of other turns."""
    seen: set[str] = set()
    return [one for one in scored if not (one.record.kind == "turn" and _seen(one.record.source_turns[0], seen))]


def _seen(turn_id: str, seen: set[str]) -> bool:
    found = turn_id in seen
    seen.add(turn_id)
    return found


def with_sources(index: BankIndex, scored: Sequence[Scored], now: datetime) -> list[Scored]:
    """The same, the best facts each followed by an excerpt of the words it was last drawn from, where they say more."""
    out: list[Scored] = []
    served = {turn for one in scored if one.record.kind == "turn" for turn in one.record.source_turns}
    left = _WITH_SOURCES
    for one in scored:
        out.append(one)
        turn = one.record.source_turns[-1] if one.record.kind == "fact" and one.record.source_turns else None
        if left and turn is not None and turn not in served:
            left -= 1
            served.add(turn)
            source = _source(index, one.record, now)
            if source is not None and not carries(one.record.text, source.text):
                out.append(replace(one, record=source))
    return out


def _source(index: BankIndex, fact: MemoryRecord, now: datetime) -> MemoryRecord | None:
    """What the bank still has of the turn, as far as it is about the fact."""
    turn = fact.source_turns[-1]
    ids = {turn, *(f"{turn}.{number}" for number in range(1, _WINDOWS))}
    rows = index.rows.pick(index.rows.rows_of(ids))
    windows = [row for row in rows if row.kind == "turn" and (row.expires_at is None or row.expires_at > now)]
    if not windows:
        return None
    wanted = content(fact.text)
    best = max(windows, key=lambda row: len(wanted & content(row.text)))
    return replace(best, text=excerpt(best.text, wanted, _EXCERPT))


def newest_first(scored: Sequence[Scored], asked: frozenset[str]) -> list[Scored]:
    """Of rows that say nearly the same about what is asked, the newest in the place of the best."""
    asked &= frozenset[str]().union(*(content(one.record.text) for one in scored[:_LOOKED_AT]))
    out: list[Scored] = []
    times: list[tuple[float, int]] = []  # of `out`; every pair is compared, so each time is made once
    for one in scored[:_LOOKED_AT]:
        time = _time(one.record)
        older = (at for at, other in enumerate(times) if time > other)
        place = next((at for at in older if _replaces(one.record, out[at].record, asked)), len(out))
        out.insert(place, one.in_place_of(out[place]) if place < len(out) else one)
        times.insert(place, time)
    return [*out, *scored[_LOOKED_AT:]]


def _replaces(new: MemoryRecord, old: MemoryRecord, asked: frozenset[str]) -> bool:
    """Whether the newer of two says another thing about the same."""
    if (new.origin, new.speaker) != (old.origin, old.speaker):
        return False
    one, other, asked = _signs(content(new.text)), _signs(content(old.text)), _signs(asked)
    wanted = asked & other
    if len(wanted) < min(_OF_QUESTION, len(asked)) or not wanted or not wanted <= one or one <= other or other <= one:
        return False  # one that says all that the other says does not contradict it
    return len(one & other) >= _ALIKE * min(len(one), len(other))


def _signs(words: frozenset[str]) -> frozenset[str]:
    """Pairs of scripts without blanks change with the word beside them ("我住", "现在住"): their signs do not."""
    return frozenset(sign for word in words for sign in (word if is_unspaced(word) else (word,)))


def _time(record: MemoryRecord) -> tuple[float, int]:
    return (record.at.timestamp() if record.at is not None else 0.0, record.seq)


def _once(scored: Sequence[Scored]) -> list[Scored]:
    """Of a fact and the words that it was drawn from, in the better place of the two: the fact where it says all
    that the words say; the words where the fact says less; the fact first where it was rewritten since; else both."""
    facts, words = _by_turn(scored, "fact"), _by_turn(scored, "turn")
    if not facts or not words:
        return list(scored)
    served: dict[str, Scored] = {}
    for one in scored:
        record = one.record
        turns = facts if record.kind == "turn" else words if record.kind == "fact" else {}
        beside = [other for turn in record.source_turns for other in turns.get(turn, ())]
        first, stands = _beside(one, beside)
        for other in first:
            served.setdefault(other.record.id, other.in_place_of(max(one, other, key=lambda each: each.score)))
        if stands:
            served.setdefault(record.id, one)
    return list(served.values())


def _beside(one: Scored, beside: Sequence[Scored]) -> tuple[list[Scored], bool]:
    """What is served before `one`, given the words of a fact or the facts of words; and whether `one` is served."""
    if one.record.kind == "fact":
        saying = [words for words in beside if _says_no_more(one.record, words.record)]
        return saying[:1], not saying
    carrying = [fact for fact in beside if _stands_for(fact.record, one.record)]
    newer = [fact for fact in beside if _supersedes(fact.record, one.record)]
    return [*carrying, *newer], not carrying


def _by_turn(scored: Sequence[Scored], kind: str) -> dict[str, list[Scored]]:
    found: dict[str, list[Scored]] = {}
    for one in scored:
        if one.record.kind == kind:
            for turn in one.record.source_turns:
                found.setdefault(turn, []).append(one)
    return found


def _says_no_more(fact: MemoryRecord, words: MemoryRecord) -> bool:
    """Facts name who said "I"."""
    said = f"{words.speaker} {words.text}" if words.speaker else words.text
    return fact.revision == 1 and shares(said, fact.text) and not _stands_for(fact, words)


def _stands_for(fact: MemoryRecord, words: MemoryRecord) -> bool:
    """Whether a fact says all that the words say, in words of its own: a part of them leaves out the rest."""
    own, said = normalise(fact.text), normalise(words.text)
    is_part = fact.revision == 1 and own != said and own in said
    return not is_part and carries(fact.text, words.text)


def _supersedes(fact: MemoryRecord, words: MemoryRecord) -> bool:
    """Whether a fact has been rewritten since these words, and still is about what they say."""
    later = fact.revision > 1 and fact.source_turns[-1] not in words.source_turns
    return later and not content(fact.text).isdisjoint(content(words.text))
