"""Whose words an operation rests on, whatever the reply says of it.

A reply names the turn that it draws from, and a model that obeys the text of a tool names the user's. So an operation
has the origin of the turn that it names where that turn says it, and else the weakest origin of all that was in the
call. What is weaker than a memory adds beside it: an update becomes an ADD, a deletion nothing; both are held, to be
released by whoever may."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from memkit.models import JSON, MemoryRecord, OpDraft, Origin, Turn
from memkit.ops import EDITION
from memkit.ops.origin import OUTSIDE, PERSON, strength
from memkit.roles.base import Shown
from memkit.roles.recalled import strip_recalled
from memkit.text.passages import sentences
from memkit.text.requests import asks, asks_to_forget
from memkit.text.times import time_phrases
from memkit.text.words import denies, terms

_WRITTEN = frozenset(terms("user users user's im ive"))
"""What managers write where people say "I"."""
_HALF = 0.5
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_THOUSANDS = re.compile(r"(?<=\d)[,.](?=\d{3}(?!\d))")


@dataclass(frozen=True, slots=True)
class Held:
    """What a reply asked for and did not get."""

    draft: OpDraft
    why: str

    def to_json(self) -> JSON:
        one = self.draft
        return {
            "action": one.action,
            "memory_id": one.memory_id,
            "text": one.text,
            "origin": one.origin,
            "source_turns": list(one.source_turns),
            "why": self.why,
        }


def with_labels(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns as a prompt shows them: what a tool says under somebody's name does not look like theirs."""
    return tuple(
        replace(one, speaker=_label(one.speaker, one.origin)) if one.speaker and _is_outside(one.origin) else one
        for one in turns
    )


def label_shown(shown: Sequence[Shown]) -> list[Shown]:
    """The same of memories, and of those that name nobody."""
    return [
        replace(one, record=replace(one.record, speaker=_label(one.record.speaker, one.record.origin)))
        if _is_outside(one.record.origin)
        else one
        for one in shown
    ]


def by_origin(
    drafts: Sequence[OpDraft],
    turns: Sequence[Turn],
    earlier: Sequence[Turn],
    shown: Mapping[str, MemoryRecord],
    *,
    edition: int = EDITION,
) -> tuple[list[OpDraft], list[Held]]:
    """The drafts as they may be applied, and those that may not."""
    weak = _Weak.of([*turns, *earlier], shown.values(), edition)
    kept: list[OpDraft] = []
    held: list[Held] = []
    for draft in drafts:
        target = shown.get(draft.memory_id or "")
        named = [turn for turn in turns if turn.turn_id in draft.source_turns] or list(turns)
        if named:
            draft = replace(draft, speaker=named[-1].speaker if draft.source_turns else draft.speaker)
        if (
            weak is not None
            and strength(draft.origin) == PERSON
            and not _OwnWords(named, [*turns, *earlier], shown.values(), weak).says(draft, target)
        ):
            draft = replace(draft, origin=weak.origin)
        if target is not None and draft.action != "noop" and strength(draft.origin) < strength(target.origin):
            held.append(Held(draft, f"text from a {draft.origin} may not {draft.action} what a {target.origin} said"))
            draft = replace(draft, action="add" if draft.action == "update" else "noop", memory_id=None)
        kept.append(draft)
    return kept, held


def origin_of_lesson(draft: OpDraft, turns: Sequence[Turn], known: Collection[MemoryRecord]) -> Origin:
    """Whose words a lesson of a run rests on: those of a tool or a document where the reply names their turn, or where
    the text has a word that only they said; else the agent's. One word makes the difference between a lesson and its
    opposite, so it is not asked who said most."""
    outside = [turn for turn in turns if strength(turn.origin) == OUTSIDE]
    if any(turn.turn_id in draft.source_turns for turn in outside):
        return outside[0].origin
    trusted = [one.text for one in (*turns, *known) if strength(one.origin) != OUTSIDE]
    own = frozenset(term for text in trusted for term in terms(text))
    foreign = frozenset(term for turn in outside for term in terms(turn.text)) - own
    return "assistant" if foreign.isdisjoint(terms(draft.text or "")) else outside[0].origin


def _is_outside(origin: Origin) -> bool:
    return origin in ("tool", "document")


def _label(speaker: str, origin: Origin) -> str:
    return f"{speaker[:28]} ({origin})" if speaker and speaker != origin else origin


@dataclass(frozen=True, slots=True)
class _Weak:
    """What a call shows that no person said."""

    origin: Origin
    """The weakest."""
    terms: frozenset[str]
    denies: bool
    is_partner: bool = False
    """It is an assistant alone, who asks, and says again what it was told."""

    @classmethod
    def of(cls, turns: Sequence[Turn], records: Collection[MemoryRecord], edition: int) -> _Weak | None:
        found: list[tuple[Origin, str]] = [(one.origin, one.text) for one in (*turns, *records)]
        found = [one for one in found if strength(one[0]) < PERSON]
        if not found:
            return None
        origin = min(found, key=lambda one: strength(one[0]))[0]
        is_partner = edition > 6 and strength(origin) != OUTSIDE
        said = [text for _, text in found]
        if is_partner:
            said = [one for text in said for one in sentences(text) if not asks(one)]
        return cls(
            origin,
            frozenset(term for text in said for term in _terms(text, is_partner)),
            any(denies(text) for text in said),
            is_partner,
        )


class _OwnWords:
    """What persons say in a call: not what they ask, where a tool or a document could answer it, nor what was put into
    their turns from the memory. A fact is often drawn from several turns and names one, so all of them are looked at;
    only what ends a memory must stand in the turns that are named."""

    def __init__(
        self, named: Sequence[Turn], turns: Sequence[Turn], records: Collection[MemoryRecord], weak: _Weak
    ) -> None:
        text = " ".join(strip_recalled(turn.text) for turn in turns if strength(turn.origin) == PERSON)
        self._outside = strength(weak.origin) == OUTSIDE
        self._partner = weak.is_partner
        said = [one for one in sentences(text) if not self._outside or not asks(one)]
        ending = " ".join(strip_recalled(turn.text) for turn in named if strength(turn.origin) == PERSON)
        self._weak, self._forgets = weak, asks_to_forget(ending)
        ends = [one for one in sentences(ending) if not asks(one)]
        self._ending = self._words(*ends)
        self._ending_denies = any(denies(one) for one in ends)
        self._terms = self._words(*said)
        self._denies = any(denies(one) for one in said)
        names = {term for turn in turns for term in terms(turn.speaker)}
        self._known = self._words(*(one.text for one in records if strength(one.origin) == PERSON)) | names

    def says(self, draft: OpDraft, target: MemoryRecord | None) -> bool:
        if draft.action == "noop":
            return True
        before = self._words(target.text) if target is not None else frozenset[str]()
        mine = target is not None and strength(target.origin) == PERSON
        text = draft.text or ""
        new = self._words(text) - _WRITTEN - (before if mine else frozenset())
        new -= _of_dates(text) if self._partner else frozenset()
        if draft.action == "delete" or (draft.action == "update" and not new):
            return self._ends(before)
        own = new & self._terms
        foreign = (new - own - (self._known if self._partner else frozenset())) & self._weak.terms
        if len(foreign) > len(own) or (self._outside and not foreign.isdisjoint(_exact(text) - self._known)):
            return False
        flips = denies(text) and not (target is not None and denies(target.text))
        if flips and self._weak.denies and not self._denies:
            return False
        strict = draft.action == "update" and self._outside
        return not strict or len(own) >= _HALF * len(new)

    def _words(self, *texts: str) -> frozenset[str]:
        return frozenset(term for text in texts for term in _terms(text, self._partner))

    def _ends(self, before: frozenset[str]) -> bool:
        """Whether the words end what a memory says. Where a tool or a document speaks of it too, they must say so."""
        if self._forgets:
            return True
        about = not before.isdisjoint(self._ending)
        spoken_of = self._outside and not before.isdisjoint(self._weak.terms)
        return about and (self._ending_denies or not spoken_of)


def _terms(text: str, spelt_alike: bool) -> list[str]:
    """`spelt_alike`: whoever writes down "the 23rd" and "1750" as an assistant does ("23 March", "$1,750") took them
    from the one who said them first."""
    return terms(_THOUSANDS.sub("", _ORDINAL.sub("", text)) if spelt_alike else text)


def _of_dates(text: str) -> frozenset[str]:
    """The words of dates: a manager counts them from when a turn was said."""
    return frozenset(term for one in time_phrases(text, None) for term in _terms(one.words, spelt_alike=True))


def _exact(text: str) -> frozenset[str]:
    """Numbers, and names that no sentence begins with: what no other word can stand for."""
    words = text.split()
    marked = [
        word for place, word in enumerate(words) if any(map(str.isdigit, word)) or (place and word != word.lower())
    ]
    return frozenset(terms(" ".join(marked)))
