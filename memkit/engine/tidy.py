"""Consolidation at rest: what a bank holds twice, and what one of its memories says against another. Pure, as `decide`.

A fact is put before the manager once more, as if it had just been said, beside the older ones that are near to it in
the whole bank; when it was said, so many others were not there, or not shown. What the manager answers is checked as
any reply, and more strictly: nothing is merged into a text that does not say all that it says, by whose words it is may
not change, and what stands is neither rewritten nor ended.

Of words, sentences are let go that the same person says again later: the later ones are found, as they were said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import dropwhile

from memkit.engine.call import ModelCall, ask_until_readable
from memkit.engine.decide import Decided, Task, new_call
from memkit.engine.drive import Steps
from memkit.engine.origins import label_shown
from memkit.engine.served_with import ServedWith
from memkit.engine.words import lives_on, words_that_end
from memkit.errors import Conflict, ModelError, NotFound, OpRejected
from memkit.models import MemoryRecord, OpDraft
from memkit.ops import Context, check_batch, resolve
from memkit.retrieval import Scored
from memkit.roles import Fact, Manager, Shown
from memkit.seams.embedder import Embedder
from memkit.text.content import content
from memkit.text.passages import sentences
from memkit.text.times import time_phrases
from memkit.text.words import denies, words

_LOOKED_AT = 4
"""So many times the memories that are shown are looked at: what is of another origin or speaker is none of them."""
_ALIKE = 0.5
"""Share of the words of the shorter that two facts have in common, where they may be about the same."""
_OLD = timedelta(days=1)
"""Words that are younger may still be talked about."""
_SAYS_SOMETHING = 3
"""Terms of words that are let go because they are a part of later ones: "July 5" answers another question there."""
_RIVALS = 50
"""Later words that are looked at for each, where they have a clause in common."""
_CLAUSE_END = re.compile(r"[.,;:!?…()\n\u2013\u2014\u3001\u3002\uff0c\uff01\uff1f\u060c\u061f\u0964]+")
_OPENING = "ok okay so and but well oh hey hi hello wow yeah yes again also btw anyway ps"
_OPENERS = frozenset(_OPENING.split())
"""Words that open a clause and say nothing."""
_ASKS = re.compile(r"[?\uff1f\u061f]")


# ---- facts -----------------------------------------------------------------------------------------------------------


def settle(record: MemoryRecord, task: Task, served: ServedWith, embedder: Embedder) -> Steps[Decided]:
    """What becomes of one fact beside the older ones of its bank. Nothing is asked where none is near. `task` has no
    turns: nobody is speaking."""
    near = _find_near(record, task, served, embedder)
    calls: list[ModelCall] = []
    if not near:
        return Decided([], calls, task.now)
    manager = Manager(served.instructions, served.style("manager"), served.wording("manager"))
    listed = [Shown(n, one.record, one.score, one.signals) for n, one in enumerate(near, start=1)]
    prompt = manager.render(_as_fact(record), label_shown(listed))
    call = new_call(task, prompt, prompt.view.shown, calls)
    shown = {one.record.id: one.record for one in near if any(one.record.id == s.record.id for s in call.candidates)}
    context = Context(
        task.bank, call.decision_id, task.live.seq + 1, task.now, record.at or task.now, "tidy", task.edition
    )

    def check(asked: list[OpDraft]) -> None:
        check_batch(asked, shown, task.live.memories, served.guard, edition=task.edition)
        drafts = [replace(one, decision_id=call.decision_id) for one in _at_rest(asked, record, shown)]
        resolve(task.live.state, drafts, context)
        call.drafts = tuple(drafts)

    try:
        yield from ask_until_readable(call, manager.parse, served.reasks, check)
    except (ModelError, OpRejected, Conflict, NotFound) as error:
        return Decided([], calls, task.now, error=error)
    ended = [shown[one.memory_id] for one in call.drafts if one.action == "delete" and one.memory_id in shown]
    return Decided([*call.drafts, *_about_words(ended, record, task, call.decision_id)], calls, task.now)


def in_order(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    """As they were said."""
    return sorted(records, key=_said)


def _said(record: MemoryRecord) -> tuple[float, int]:
    return (record.at.timestamp() if record.at is not None else 0.0, record.seq)


def _find_near(record: MemoryRecord, task: Task, served: ServedWith, embedder: Embedder) -> list[Scored]:
    k = _LOOKED_AT * max(1, served.candidates)
    (rows,) = task.live.candidates([record.text], embedder, k=k, now=task.now, weights=task.weights)
    older = [one for one in rows if one.record.id != record.id and _said(one.record) < _said(record)]
    return [one for one in older if _is_of(one.record, record) and _is_alike(one.record, record)][: served.candidates]


def _is_of(one: MemoryRecord, other: MemoryRecord) -> bool:
    """Whether two are told by the same, are found by the same filters and last as long: one can stand for both."""
    names = ("kind", "origin", "speaker", "expires_at", "trainable")
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and dict(one.metadata) == dict(other.metadata)


def _is_alike(one: MemoryRecord, other: MemoryRecord) -> bool:
    ours, theirs = content(one.text), content(other.text)
    return len(ours & theirs) >= _ALIKE * min(len(ours), len(theirs)) > 0


def _as_fact(record: MemoryRecord) -> Fact:
    return Fact(
        record.text,
        record.source_turns,
        record.speaker,
        record.at,
        record.session_id,
        record.origin,
        record.trainable,
    )


def _at_rest(asked: Sequence[OpDraft], record: MemoryRecord, shown: Mapping[str, MemoryRecord]) -> list[OpDraft]:
    """The drafts that the reply stands for, where the fact is there already. An ADD leaves both as they are."""
    drafts: list[OpDraft] = []
    merged = False
    for one in asked:
        target = shown.get(one.memory_id or "")
        if target is None or (target.standing and one.action != "noop"):
            continue
        if one.action == "delete":
            drafts.append(OpDraft("delete", target.id, origin=record.origin, expected_revision=target.revision))
        elif not merged and (text := _merged_text(one, record, target)):
            drafts += _merge(record, target, text)
            merged = True
    return drafts


def _merged_text(asked: OpDraft, record: MemoryRecord, target: MemoryRecord) -> str:
    """What the two say as one; "" where neither says all that the other says, so that both stay."""
    if asked.action == "noop":
        said = [text for text in (target.text, record.text) if all(lives_on(o.text, text) for o in (record, target))]
        return said[0] if said and not (target.standing and said[0] != target.text) else ""
    text = asked.text or record.text
    if not lives_on(record.text, text):
        raise OpRejected(
            "the text leaves out what the new fact says",
            why="the fact is merged into it, and would be lost",
            fix="write all that the fact says into it, or ADD",
            rule="left_out",
        )
    return text


def _merge(record: MemoryRecord, target: MemoryRecord, text: str) -> list[OpDraft]:
    """The newer ends first: content is unique in a bank."""
    stands = record.standing and not target.standing
    kept = OpDraft(
        "noop" if text == target.text and not stands else "update",
        target.id,
        None if text == target.text else text,
        record.source_turns,
        at=record.at,
        speaker=record.speaker,
        session_id=record.session_id,
        origin=record.origin,
        standing=True if stands else None,
        expected_revision=target.revision,
    )
    return [OpDraft("delete", record.id, origin=record.origin, expected_revision=record.revision), kept]


def _about_words(ended: Sequence[MemoryRecord], record: MemoryRecord, task: Task, decision_id: str) -> list[OpDraft]:
    """What is over is not found in words any more, as when it is decided at once."""
    if not ended:
        return []
    new = set(record.source_turns)
    said = task.live.words_said({turn for one in ended for turn in one.source_turns} | new)
    return words_that_end(ended, said, new=new, written=[record.text], decision_id=decision_id)


# ---- words -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SaidAgain:
    row: MemoryRecord
    left: str
    """What of it is said nowhere else; "" where nothing is."""
    later: tuple[MemoryRecord, ...]

    def drafts(self) -> list[OpDraft]:
        """The later words join the turns of the earlier ones: what is forgotten of these is found in those."""
        row = self.row
        own = OpDraft("delete", row.id, origin=row.origin, expected_revision=row.revision)
        if self.left:
            own = replace(own, action="update", text=self.left, content_salt=row.id, at=row.at)
        joins = (
            OpDraft("noop", one.id, source_turns=row.source_turns, at=row.at, origin=one.origin) for one in self.later
        )
        return [own, *joins]


@dataclass(frozen=True, slots=True)
class _InClauses:
    """A row as it is compared: its sentences, each in clauses."""

    row: MemoryRecord
    sentences: list[str]
    clauses: list[list[str]]

    @classmethod
    def of(cls, row: MemoryRecord, text: str) -> _InClauses:
        found = sentences(text)
        return cls(row, found, [_clauses(one) for one in found])

    @property
    def flat(self) -> list[str]:
        return [clause for one in self.clauses for clause in one]

    def find_run(self, later: list[str]) -> range:
        """The longest run of whole sentences whose clauses stand in `later` one behind the other."""
        best = range(0)
        for start, first in enumerate(self.clauses):
            for at, clause in enumerate(later if first else ()):
                end = start
                while end < len(self.clauses) and later[at : at + len(self.clauses[end])] == self.clauses[end]:
                    at, end = at + len(self.clauses[end]), end + 1
                if clause == first[0] and end - start > len(best):
                    best = range(start, end)
        return best

    def tell(self, places: Iterable[int]) -> str:
        return " ".join(self.sentences[place] for place in places)


_Known = dict[tuple[object, ...], list[tuple[MemoryRecord, list[str]]]]
"""Who says a clause → the later rows that have it, each with what it says in clauses."""


def said_again(rows: Iterable[MemoryRecord], now: datetime) -> list[SaidAgain]:
    """Whole sentences whose clauses somebody says again later, one behind the other and with nothing between them, and
    that neither ask nor deny where the later words do not. "Yesterday" is another day each time."""
    found: list[SaidAgain] = []
    known: _Known = {}
    for row in reversed(in_order(rows)):
        own = _InClauses.of(row, row.text)
        who = (row.speaker, row.origin, row.expires_at, row.trainable)
        later = list[MemoryRecord]()
        while (again := _find_later(own, known, who, now)) is not None:
            later.append(again[0])
            own = _InClauses.of(row, again[1])
        if later:
            found.append(SaidAgain(row, " ".join(own.sentences), tuple({one.id: one for one in later}.values())))
        for clause in dict.fromkeys(own.flat):
            rivals = known.setdefault((*who, clause), [])
            if len(rivals) < _RIVALS:
                rivals.append((row, own.flat))
    return found


def _find_later(
    own: _InClauses, known: _Known, who: tuple[object, ...], now: datetime
) -> tuple[MemoryRecord, str] | None:
    """The later words that say most of a row, and what they do not say of it."""
    row, best = own.row, None
    if row.at is None or now - row.at < _OLD:
        return None
    for other, clauses in (one for first in own.clauses if first for one in known.get((*who, first[0]), ())):
        run = own.find_run(clauses)
        if not run or (best is not None and len(run) <= len(best[1])) or not _is_of(row, other):
            continue
        if _says_again(own.tell(run), row, other, is_all=own.flat == clauses) and _may_shorten(own, run, other):
            best = other, run
    if best is None:
        return None
    return best[0], own.tell(place for place in range(len(own.sentences)) if place not in best[1])


def _may_shorten(own: _InClauses, run: range, other: MemoryRecord) -> bool:
    """What stands goes whole, for words that stand."""
    return not own.row.standing or (other.standing and len(run) == len(own.sentences))


def _says_again(said: str, row: MemoryRecord, later: MemoryRecord, *, is_all: bool) -> bool:
    """`said`: the part of the row that the later words say."""
    if not is_all and len(content(said)) < _SAYS_SOMETHING:
        return False
    if bool(_ASKS.search(said)) != bool(_ASKS.search(later.text)) or denies(said) != denies(later.text):
        return False
    assert row.at is not None
    day = row.at.date()
    is_relative = len(time_phrases(said, day)) > len(time_phrases(said, None))
    return later.at is not None and (later.at.date() == day or not is_relative)


def _clauses(text: str) -> list[str]:
    found = (" ".join(dropwhile(_OPENERS.__contains__, words(part))) for part in _CLAUSE_END.split(text))
    return [clause for clause in found if clause]
