"""What was drawn from turns that are to be destroyed: which ops, which memories, whose words say the same. Pure.

A memory goes whole where its first words came from them, or where others built on words that did. Where nothing was
built on them it goes back to what it said before. What merely names such a turn (it was said again, it ended a memory)
holds none of its words, and stays: nothing that was ended comes back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace

from memkit.models import Bank, MemoryRecord, Op, Turn
from memkit.text.passages import sentences
from memkit.text.words import terms

_NO_CONTENT = frozenset(terms("user users user's"))
_ECHO_SHARE = 0.34
"""Share of the terms that only the destroyed turns say, from which on an assistant's turn repeats them."""
_RUN = 5
"""Words in a row by which a text that was copied is known."""
_TOKEN = re.compile(r"\w+")
_ESCAPE = re.compile(r'\\+[ntr"]')


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A memory that goes back to what it said."""

    bank: Bank
    ground: MemoryRecord
    """The state that its last op that stays left."""
    image: MemoryRecord
    """What it says from now on, with the highest revision that was ever given to it."""


@dataclass(slots=True)
class Drawn:
    ops: set[int] = field(default_factory=set[int])
    """Sequence numbers of the ops that go."""
    memories: dict[str, int] = field(default_factory=dict[str, int])
    """Memory id → the first of its ops that goes."""
    back: list[TakenBack] = field(default_factory=list[TakenBack])


def drawn_from(
    ops: Iterable[Op], turns: Set[str], *, memories: Collection[str] = (), also: Collection[int] = ()
) -> Drawn:
    """`ops`: all of a user. `memories` go whole. `also`: ops that repeat words of the turns, whatever they name."""
    found, chains = Drawn(), dict[str, list[Op]]()
    for op in ops:
        if op.memory_id is not None:
            chains.setdefault(op.memory_id, []).append(op)
        elif not turns.isdisjoint(op.source_turns):
            found.ops.add(op.seq)
    starts = {key: 0 if key in memories else _first_drawn(chain, turns, also) for key, chain in chains.items()}
    taken = {
        (chain[-1].bank, chain[-1].after.content_hash)
        for key, chain in chains.items()
        if starts[key] is None and chain[-1].after is not None
    }
    for memory_id, start in starts.items():
        if start is None:
            continue
        chain = chains[memory_id]
        back = None if memory_id in memories else _stands_again(chain, start, turns, also)
        if back is None or taken & (contents := {(back.bank, r.content_hash) for r in (back.ground, back.image)}):
            start = 0  # nothing to go back to, or another memory says the same by now
        else:
            found.back.append(back)
            taken |= contents
        found.memories[memory_id] = chain[start].seq
        found.ops |= {op.seq for op in chain[start:]}
    return found


def _first_drawn(chain: Sequence[Op], turns: Set[str], also: Collection[int]) -> int | None:
    """Place of the first op whose words came from the turns; the same words as before came from elsewhere."""
    said: list[object] = []
    for place, op in enumerate(chain):
        if op.after is None:
            continue
        if _content(op.after) not in said:
            if op.seq in also or not turns.isdisjoint(op.source_turns):
                return place
            said.append(_content(op.after))
    return None


def _stands_again(chain: Sequence[Op], start: int, turns: Set[str], also: Collection[int]) -> TakenBack | None:
    """What the memory says without what came from the turns; None where that is not known."""
    now, before = chain[-1].after, chain[start].before
    if now is None or before is None:
        return None
    said = [_content(op.after) for op in chain[:start] if op.after is not None]
    built_on = any(op.seq not in also and turns.isdisjoint(op.source_turns) for op in chain[start:])
    image = now if _content(now) in said else None if built_on else before
    if image is None:
        return None
    given = max(one.revision for op in chain for one in (op.before, op.after) if one is not None)
    sources = tuple(turn for turn in image.source_turns if turn not in turns)
    return TakenBack(chain[0].bank, before, replace(image, revision=given, source_turns=sources))


def _content(record: MemoryRecord) -> object:
    return record.text, dict(record.metadata)


# -- the same words elsewhere ----------------------------------------------------------------------------------------


def echoes(said: Sequence[Turn], gone: Set[str]) -> set[str]:
    """Turns of assistants and tools that repeat what only the turns `gone` had said before: in the same session by any
    name or much of the words, elsewhere (where a memory of it was served) by what is not said by chance. `said`: all
    turns of the user, in order."""
    own = Only.of(
        [turn.text for turn in said if turn.turn_id in gone],
        [turn.text for turn in said if turn.turn_id not in gone and turn.role == "user"],
    )
    heard, found = set[tuple[Bank, str]](), set[str]()
    for turn in said:
        talk = turn.bank, turn.session_id
        if turn.turn_id in gone:
            heard.add(talk)
        elif heard and turn.role != "user":
            repeats = own.repeated_by if talk in heard else own.told_by
            if repeats(turn.text):
                found.add(turn.turn_id)
    return found


def repeating(ops: Iterable[Op], said: Sequence[Turn], gone: Set[str], since: int) -> set[int]:
    """Ops from `since` on by which a manager wrote a name or a number that only the turns `gone` have said. A model
    that was shown them may put them into a memory of other turns."""
    own = Only.of([t.text for t in said if t.turn_id in gone], [t.text for t in said if t.turn_id not in gone])
    kept = {turn.turn_id for turn in said} - gone
    return {
        op.seq
        for op in ops
        if op.seq >= since
        and op.cause == "decision"
        and op.after is not None
        and op.after.kind in ("fact", "lesson")
        and op.source_turns
        and kept.issuperset(op.source_turns)
        and own.named_in(op.after.text)
    }


@dataclass(frozen=True, slots=True)
class Only:
    """What some texts say and others do not."""

    terms: frozenset[str]
    names: frozenset[str]
    """Terms with a digit, or with a capital that no sentence begins with."""
    codes: frozenset[str]
    """Terms with a digit that are too long to be met by chance."""
    runs: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, texts: Sequence[str], others: Sequence[str]) -> Only:
        elsewhere = {term for text in others for term in terms(text)} | _NO_CONTENT
        own = {term for text in texts for term in terms(text)} - elsewhere
        tokens = [_TOKEN.findall(sentence) for text in texts for sentence in sentences(text)]
        numbers = {token for row in tokens for token in row if len(token) > 2 and any(map(str.isdigit, token))}
        marked = numbers | {token for row in tokens for token in row[1:] if token != token.lower()}
        return cls(
            frozenset(own),
            frozenset(own & {term for token in marked for term in terms(token)}),
            frozenset(own & {term for token in numbers if len(token) > 3 for term in terms(token)}),
            frozenset({run for text in texts for run in _runs(text)} - {run for text in others for run in _runs(text)}),
        )

    def named_in(self, text: str) -> bool:
        return not self.names.isdisjoint(terms(text))

    def repeated_by(self, text: str) -> bool:
        """An echo: a name or a number of theirs, or much of what they say."""
        said = self.terms & set(terms(text))
        return not self.names.isdisjoint(said) or len(said) > _ECHO_SHARE * len(self.terms)

    def told_by(self, text: str) -> bool:
        """A long code of theirs, or a short one beside another of their words."""
        said = self.terms & set(terms(text))
        codes = self.codes & said
        return bool(codes) and (len(said) > 1 or any(len(code) > 5 or not code.isdigit() for code in codes))

    def quoted_in(self, text: str) -> bool:
        """Whether a prompt or a reply, full of words of others, shows them."""
        return not self.codes.isdisjoint(terms(text)) or not self.runs.isdisjoint(_runs(text))

    def touched_by(self, text: str) -> bool:
        """Whether a question, an answer or a comment has a word of theirs."""
        return not self.terms.isdisjoint(terms(text)) or not self.runs.isdisjoint(_runs(text))


def _runs(text: str) -> Iterable[tuple[str, ...]]:
    tokens = _TOKEN.findall(_ESCAPE.sub(" ", text).casefold())
    return zip(*(tokens[place:] for place in range(_RUN)), strict=False)
