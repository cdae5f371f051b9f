"""Which memories a manager is shown: those that the new words may change, and those that the words before them are
about; and the standing ones. "No, I meant Bergen" is near to nothing; what it corrects was drawn from the EARLIER
turns.

What the EARLIER turns bring, and what stands, is looked up once, for all calls of a decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate

from memkit.engine.bank import LiveBank
from memkit.engine.big_bank import BigBank
from memkit.models import MemoryRecord, Turn
from memkit.ops import EDITION
from memkit.retrieval import RANKINGS, TO_MANAGERS, RankerWeights, Scored
from memkit.roles import Shown
from memkit.roles.layout import CONTEXT_CHARS, memory_line
from memkit.roles.recalled import strip_recalled
from memkit.seams.embedder import Embedder

_LINE = 40
"""Letters of a memory's line, where it is short."""
_STANDING_SHARE = 6
"""What always matters has one in so many places of a list, as in a context."""


class Shortlist:
    def __init__(
        self,
        earlier: Sequence[Turn],
        embedder: Embedder,
        *,
        now: datetime,
        weights: RankerWeights | None = None,
        edition: int = EDITION,
    ) -> None:
        self._earlier, self._embedder, self._now = tuple(earlier), embedder, now
        self._weights = weights or (RANKINGS[1][0] if edition < 6 else TO_MANAGERS)
        self._edition = edition
        self._brought: list[Scored] | None = None
        self._always: list[Scored] | None = None

    def pick(
        self, live: LiveBank | BigBank, texts: Sequence[str], *, each: int, room: int, chars: int | None = None
    ) -> tuple[Shown, ...]:
        """`room` memories, or as many as their lines fit into `chars` (None: no more than `room`, and nothing because
        it stands: as local models were trained). A bank that fits is shown whole; of a larger one, what always matters
        has a sixth and comes first, so that no long line cuts it off. Half is for what is nearest to the new `texts`
        (the best `each` of every text first), the rest for what the EARLIER turns bring; what one of them does not
        need, the other has."""
        if self._edition == 1:
            return _numbered(_best(self._nearest(live, texts, each))[:room])
        rows = self._nearest(live, texts, max(room, (chars or 0) // _LINE) + 1)
        new = _once([*_best([row[:each] for row in rows]), *_best(rows)])
        room = max(room, _how_many_fit(new, chars or 0))
        if len(new) <= room:
            return _numbered(new)
        half, scored = (room + 1) // 2, {one.record.id: one for one in new}
        if self._brought is None:
            self._brought = self._bring(live, room) if self._earlier else []
        if self._always is None:
            stands = self._edition > 5 and chars is not None
            self._always = self._standing(live, texts)[: room // _STANDING_SHARE] if stands else []
        always, brought = (
            [scored.get(one.record.id, one) for one in _by_now(live, found)] for found in (self._always, self._brought)
        )
        return _numbered(_once([*always, *new[:half], *brought, *new[half:]])[:room])

    def _standing(self, live: LiveBank | BigBank, texts: Sequence[str]) -> list[Scored]:
        return [Scored(one, 0.0, {}) for one in live.standing("\n".join(texts), self._embedder, now=self._now)]

    def _bring(self, live: LiveBank | BigBank, room: int) -> list[Scored]:
        """What was drawn from the EARLIER turns; where that is little, also what is near to their words."""
        drawn = self._drawn(live)[:room]
        if len(drawn) < room // 2:
            drawn += self._nearest(live, [_words(self._earlier)], room)[0]
        return drawn

    def _drawn(self, live: LiveBank | BigBank) -> list[Scored]:
        """The memories that were drawn from the EARLIER turns, those of the latest turn first."""
        place = {turn.turn_id: place for place, turn in enumerate(self._earlier)}

        def latest(record: MemoryRecord) -> tuple[int, int, str]:
            return max(place.get(turn, -1) for turn in record.source_turns), record.seq, record.id

        drawn = sorted(filter(self._may_be_shown, live.drawn_from(self._earlier)), key=latest, reverse=True)
        return [Scored(record, 0.0, {}) for record in drawn]

    def _may_be_shown(self, record: MemoryRecord) -> bool:
        return record.kind == "fact" and (record.expires_at is None or record.expires_at > self._now)

    def _nearest(self, live: LiveBank | BigBank, texts: Sequence[str], k: int) -> list[list[Scored]]:
        return live.candidates(texts, self._embedder, k=k, now=self._now, weights=self._weights)


def _by_now(live: LiveBank | BigBank, found: Sequence[Scored]) -> list[Scored]:
    """As the bank has them by now: the call before may have changed them."""
    records = live.by_now([one.record for one in found])
    return [replace(one, record=record) for one, record in zip(found, records, strict=True) if record is not None]


def _how_many_fit(scored: Sequence[Scored], chars: int) -> int:
    ends = accumulate(len(memory_line(one, weekday=True)) + 1 for one in _numbered(scored))
    return sum(end <= chars for end in ends)


def _words(turns: Sequence[Turn]) -> str:
    """As far as a prompt shows them."""
    return "\n".join(strip_recalled(turn.text)[:CONTEXT_CHARS] for turn in turns)


def _best(rows: Iterable[Sequence[Scored]]) -> list[Scored]:
    """Each memory once, by its best score."""
    return _once(sorted((one for row in rows for one in row), key=lambda one: (-one.score, one.record.seq)))


def _once(scored: Iterable[Scored]) -> list[Scored]:
    first: dict[str, Scored] = {}
    for one in scored:
        first.setdefault(one.record.id, one)
    return list(first.values())


def _numbered(scored: Sequence[Scored]) -> tuple[Shown, ...]:
    return tuple(Shown(n, one.record, one.score, one.signals) for n, one in enumerate(scored, start=1))
