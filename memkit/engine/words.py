"""The words of a conversation beside what a manager makes of them: which are kept, and which end with a memory.

What was said stays findable as it was said: a turn is a row of its bank (`kind="turn"`) from the moment it is durable.
It is no memory: no manager is shown it, and it ends in three ways only. A memory that is ended takes with it the
sentences that said it, and what the assistant repeated of them; a request to forget is never served; and
`keep_turns="uncovered"` hides turns that a fact was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memkit.models import MemoryRecord, OpDraft, Turn
from memkit.roles.recalled import strip_recalled
from memkit.text.content import carries, shares
from memkit.text.forgetting import NO_CONTENT, SHARE, NamedWords, has_number, named_in
from memkit.text.passages import sentences, windows
from memkit.text.requests import before_request
from memkit.text.standing import stands
from memkit.text.words import denies, terms

_ROLES = frozenset({"user", "assistant", "tool"})
"""System and developer messages are the app's, and not said."""
_SOURCE_SHARE = 0.34
"""Share of a memory's terms that a sentence has where it says the same, in a turn that the memory was drawn from."""


def words_of(turns: Sequence[Turn], expires_at: datetime | None = None) -> list[OpDraft]:
    """The rows that keep what was said. A long turn becomes several, named after it (`t_7`, `t_7.1`, …)."""
    return [
        OpDraft(
            "add",
            memory_id=row_id(turn.turn_id, number),
            text=window,
            source_turns=(turn.turn_id,),
            kind="turn",
            metadata=turn.metadata,
            at=turn.at,
            speaker=turn.speaker or ("" if turn.role == "user" else turn.role),
            session_id=turn.session_id,
            origin=turn.origin,
            expires_at=expires_at,
            trainable=turn.trainable,
            standing=turn.role == "user" and turn.origin == "user" and stands(window),
            content_salt=row_id(turn.turn_id, number),
        )
        for turn in turns
        if turn.role in _ROLES
        for number, window in enumerate(windows(strip_recalled(turn.text)))
    ]


def rows_of(turn: Turn, get: Callable[[str], MemoryRecord | None]) -> list[MemoryRecord]:
    """The rows that still keep words of this turn."""
    ids = (draft.memory_id for draft in words_of([turn]))
    return [row for row_id in ids if row_id is not None and (row := get(row_id)) is not None]


def as_they_stand(
    turns: Sequence[Turn],
    get: Callable[[str], MemoryRecord | None],
    was_kept: Callable[[Turn], bool],
    now: datetime,
) -> tuple[Turn, ...]:
    """Earlier turns, as a prompt may show them: without what was ended of them since. `was_kept`: whether the words of
    a turn ever became rows; it is asked where some are not there."""
    found: list[Turn] = []
    for turn in turns:
        said = [draft.text for draft in words_of([turn])]
        rows = [row for row in rows_of(turn, get) if row.expires_at is None or row.expires_at > now]
        left = [row.text for row in rows]
        if left == said or not was_kept(turn):
            found.append(turn)
        elif left:
            found.append(replace(turn, text=" ".join(left)))
    return tuple(found)


def row_id(turn_id: str, number: int) -> str:
    return f"{turn_id}.{number}" if number else turn_id


def words_that_end(
    ended: Sequence[MemoryRecord],
    said: Iterable[MemoryRecord],
    *,
    new: Collection[str] = (),
    written: Sequence[str] = (),
    decision_id: str = "",
) -> list[OpDraft]:
    """What becomes of the words `said` in a bank when the memories `ended` end. `new`: turns that brought it about;
    they stay ("I sold the car"), unless they ask to forget. `written`: texts of memories that were written with it;
    sentences that live on in one of them stay."""
    drafts: list[OpDraft] = []
    gone, fresh = [_Ended(record) for record in ended], set(new)
    for row in said:
        if fresh.isdisjoint(row.source_turns):
            left = _without(row, gone, written)
        else:
            left = before_request(row.text)
        if left != row.text:
            drafts.append(_shortened(row, left, decision_id))
    return drafts


def lives_on(text: str, written: str) -> bool:
    """Whether a memory that was written says all that a text says: nothing of it has ended then."""
    return carries(written, text) and denies(written) == denies(text)


def is_merged(text: str, written: str) -> bool:
    """Whether a memory that was written tells most of what a text tells, and denies no more: they were made one, or
    that was brought up to date. The words of what it was stay, as those of any update."""
    return shares(written, text) and (denies(text) or not denies(written))


@dataclass(frozen=True, slots=True)
class Named(MemoryRecord):
    """What a request names, as if it were a memory that ends."""

    words: NamedWords | None = None


def asked_to_end(turns: Sequence[Turn]) -> list[Named]:
    """What the user's own requests name ("delete the PIN 4408 from memory")."""
    found = [(turn, named_in(turn.text)) for turn in turns if turn.role == "user"]
    return [Named("", words.text, session_id=turn.session_id, words=words) for turn, words in found if words]


def words_that_are_covered(
    drafts: Sequence[OpDraft], said: Iterable[MemoryRecord], new: Collection[str]
) -> list[OpDraft]:
    """The rows of new turns that a fact was drawn from."""
    covered = {turn for draft in drafts if draft.action in ("add", "update") for turn in draft.source_turns} & set(new)
    return [OpDraft("delete", row.id) for row in said if not covered.isdisjoint(row.source_turns)]


def _shortened(row: MemoryRecord, left: str, decision_id: str) -> OpDraft:
    if not left:
        return OpDraft("delete", row.id, decision_id=decision_id)
    return OpDraft("update", row.id, text=left, content_salt=row.id, decision_id=decision_id)


class _Ended:
    """A memory that ends, as its words are looked for."""

    def __init__(self, record: MemoryRecord) -> None:
        self.sources, self.session = frozenset(record.source_turns), record.session_id
        self.named = record.words if isinstance(record, Named) else None
        self.terms = self.named.terms if self.named else frozenset(terms(record.text)) - NO_CONTENT

    def find_shared(self, sentence: str) -> frozenset[str]:
        return self.named.find_shared(sentence) if self.named else self.terms & set(terms(sentence))


def _without(row: MemoryRecord, ended: Sequence[_Ended], written: Sequence[str]) -> str:
    """The text of `row` without the sentences that say what ended; those that say what was written stay."""
    kept = sentences(row.text)
    for one in ended:
        is_source = not one.sources.isdisjoint(row.source_turns)
        saying = [sentence for sentence in kept if _says(sentence, one, row, is_source)]
        if is_source and not saying:
            saying = kept  # said in other words: which of them is not known
        gone = {sentence for sentence in saying if not any(lives_on(sentence, text) for text in written)}
        kept = [sentence for sentence in kept if sentence not in gone]
    return " ".join(kept) if len(kept) < len(sentences(row.text)) else row.text


def _says(sentence: str, ended: _Ended, row: MemoryRecord, is_source: bool) -> bool:
    shared = ended.find_shared(sentence)
    if not shared:
        return False
    if row.origin == "assistant" and row.session_id == ended.session:
        return True  # an echo of what was said: nothing of the user's is lost with it
    if ended.named and row.origin == "user" and not ended.named.is_of_own(sentence):
        return False
    return has_number(shared) or len(shared) >= (_SOURCE_SHARE if is_source else SHARE) * len(ended.terms)
