"""Whom and what the memories of a bank name: one entity under its names, and the memories that are about it.

A pure function of the records. What a single text only hints at (`memkit.text.names`) is borne out by the others: a
capital that is written small as often elsewhere is none of a name, and a small word beside one for kin is a name where
it comes again. A name that two bear is one entity: words alone do not tell them apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from memkit.models import Entity, EntityKind, MemoryRecord
from memkit.retrieval.context import is_outside
from memkit.text.content import carries
from memkit.text.little_words import OWN
from memkit.text.names import Name, find_names, is_german, refers, spell, stands_as
from memkit.text.relations import BEHIND, PEOPLE
from memkit.text.words import fold, is_unspaced

_AGAIN = 2
"""Memories that must hold a name of which no single text is sure."""
_RARELY = 4
"""One in so many of its texts may have it where names do not stand."""
_BACK = 1
"""So many of the turns before may name whom a "she" means."""
_ROLES = ("user", "assistant", "system", "tool")
_GLUED = "לבמוהשולبف"
"""Letters that Hebrew and Arabic write together with the word behind them."""


def gather_entities(records: Sequence[MemoryRecord]) -> list[Entity]:
    """Those that most memories name first, then those that were named first. Only the words of people name somebody."""
    told = _told(records)
    return _gather(told, _Pages(told))


def choose_about(records: Sequence[MemoryRecord], asked: str) -> list[MemoryRecord]:
    """The memories that name it, call it by what it is, or go on about it ("she"), as they were said. Also where it is
    no entity that was recognised: a word is enough to ask by."""
    told = _told(records)
    pages = _Pages(told)
    entities = _gather(told, pages)
    entity = find_entity(entities, asked)
    keys = {fold(name) for name in entity.names} if entity else {" ".join(spell(asked))}
    named = {record.id for key in keys for record in pages.find(key)}
    if entity is not None:
        named |= set(_called(told, entity, entities)) | set(_meant(told, named, entities))
    return _unrepeated([one for one in told if one.id in named])


def find_entity(entities: Iterable[Entity], asked: str) -> Entity | None:
    """The one that goes by that name, or, where no other does, by a part of it or by what it is ("my sister")."""
    key, found = fold(asked).strip(), list(entities)
    for one in found:
        if key in map(fold, one.names):
            return one
    last = spell(asked)[-1:]
    near = [
        one
        for one in found
        if last and last[0] in (*one.relations, *(word for name in one.names for word in spell(name)))
    ]
    return near[0] if len(near) == 1 else None


def _gather(told: Sequence[MemoryRecord], pages: _Pages) -> list[Entity]:
    clues: dict[str, _Clues] = defaultdict(_Clues)
    german = _AGAIN * sum(is_german(record.text) for record in told) > len(told) // _RARELY
    for record in told:
        for name in find_names(record.text) if record.origin == "user" or not german else ():
            clues[name.key].add(name, by_user=record.origin == "user")
        if (speaker := _speaker(record)) and record.kind in ("turn", "episode"):
            clues[speaker].add(Name(record.speaker, speaker, sure=True, cased=True, kind="person"), by_user=True)
    held = {key: pages.find(key) for key in clues}
    small = _Small(told)
    known = [key for key, one in clues.items() if _is_borne_out(key, one, held[key], small)]
    found = [_entity(group, clues, held) for group in _grouped(known)]
    places = {record.id: place for place, record in enumerate(told)}
    return sorted(found, key=lambda one: (-len(one.memories), places[one.memories[0]], one.name))


@dataclass(slots=True)
class _Clues:
    spellings: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[EntityKind] = field(default_factory=Counter[EntityKind])
    relations: Counter[str] = field(default_factory=Counter[str])
    sure: bool = False
    owned: bool = False
    hints: int = 0
    """Places where users say it beside kin."""
    cased: int = 0
    echoed: int = 0
    """Times that users, and that others, write it with a capital inside a sentence."""
    he_or_she: int = 0

    def add(self, name: Name, *, by_user: bool) -> None:
        self.spellings[name.text] += 1
        self.he_or_she += name.he_or_she
        if not by_user:
            self.echoed += name.cased
            return
        self.kinds[name.kind] += name.kind != "other"
        if name.relation and not (name.relation[-1] == "s" and fold(name.relation[:-1]) in PEOPLE):
            self.relations[fold(name.relation)] += 1
        self.sure |= name.sure
        self.owned |= name.owned
        self.hints += not name.cased
        self.cased += name.cased


def _told(records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    """What people said, and what was made of it, in the order of time."""
    kept = [one for one in records if not is_outside(one) and one.kind not in ("chunk", "lesson")]
    return sorted(kept, key=_time)


def _speaker(record: MemoryRecord) -> str:
    return "" if record.speaker in _ROLES else fold(record.speaker)


class _Pages:
    """Records by the words in them."""

    def __init__(self, told: Sequence[MemoryRecord]) -> None:
        self._told, self._by_word = told, defaultdict[str, list[int]](list)
        for place, record in enumerate(told):
            for word in {*spell(record.text), _speaker(record)}:
                self._by_word[word].append(place)

    @cached_property
    def _folded(self) -> list[str]:
        return [fold(f"{record.speaker} {record.text}") for record in self._told]

    def find(self, key: str) -> list[MemoryRecord]:
        """Those that hold a folded name: as it is, with the s of a genitive, or glued to a preposition."""
        if is_unspaced(key):
            return [record for record, text in zip(self._told, self._folded, strict=True) if key in text]
        *before, last = key.split() or [""]
        forms = [last, *((last + "s", *(letter + last for letter in _GLUED)) if len(last) > 2 else ())]
        places = {place for form in forms for place in self._by_word.get(form, ())}
        for word in before:
            places.intersection_update(self._by_word.get(word, ()))
        if before:
            places = {place for place in places if _in_a_row(before, forms, spell(self._told[place].text))}
        return [self._told[place] for place in sorted(places | set(self._by_word.get(key, ())))]


def _in_a_row(before: list[str], forms: list[str], words: tuple[str, ...]) -> bool:
    size = len(before)
    return any(words[at + size] in forms and list(words[at : at + size]) == before for at in range(len(words) - size))


def _is_borne_out(key: str, clues: _Clues, held: Sequence[MemoryRecord], small: _Small) -> bool:
    """Assistants write names with a capital and words without; users as they please."""
    by_user, first = [record for record in held if record.origin == "user"], key.split()[0]
    if not by_user or small.by_others[first] > clues.echoed:
        return False
    if clues.sure or (clues.echoed and not small.by_others[first]):
        return True
    if clues.cased and clues.cased >= small.by_users[first]:
        return True
    if len({_said_at(record) for record in by_user}) < _AGAIN:
        return False
    if not key[0].islower():
        return True  # of a script without capitals
    stands = [stands_as(key, record.text) for record in by_user]
    as_name, as_other = (sum(one) for one in zip(*stands, strict=True))
    hinted = clues.hints + clues.cased > 0
    return hinted and _RARELY * as_other <= len(by_user) and (clues.owned or as_name > 0)


class _Small:
    """How often words are written without a capital."""

    def __init__(self, told: Iterable[MemoryRecord]) -> None:
        self.by_users, self.by_others = Counter[str](), Counter[str]()
        for record in told:
            words = (word.strip(".,!?;:()\"'*") for word in record.text.split())
            counts = self.by_users if record.origin == "user" else self.by_others
            counts.update(fold(word) for word in words if word[:1].islower())


def _said_at(record: MemoryRecord) -> str:
    """A fact and the turn that it was drawn from say a thing once."""
    return record.source_turns[0] if record.source_turns else record.id


def _grouped(known: Iterable[str]) -> list[list[str]]:
    """A first or last name and the one full name that has it are one."""
    keys = sorted(known)
    full: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        parts = key.split()
        for part in {parts[0], parts[-1]} if len(parts) > 1 else ():
            full[part].append(key)
    groups: dict[str, list[str]] = {}
    for key in keys:
        head = full[key][0] if len(full[key]) == 1 else key
        groups.setdefault(head, []).append(key)
    return list(groups.values())


def _entity(keys: Sequence[str], clues: dict[str, _Clues], held: dict[str, list[MemoryRecord]]) -> Entity:
    spellings, kinds, relations = Counter[str](), Counter[EntityKind](), Counter[str]()
    for key in keys:
        spellings += clues[key].spellings
        kinds += clues[key].kinds
        relations += clues[key].relations
    records = sorted((one for key in keys for one in held[key]), key=_time)
    best = max(spellings, key=lambda name: (spellings[name], not name.islower(), name))
    kind: EntityKind = kinds.most_common(1)[0][0] if kinds else "other"
    if not kinds and 2 * sum(clues[key].he_or_she for key in keys) >= spellings.total():
        kind = "person"
    names = {fold(name): name for name in (*spellings, best)}
    ids = tuple(dict.fromkeys(one.id for one in records))
    return Entity(best, kind, (best, *(one for one in names.values() if one != best)), tuple(relations), ids)


def _called(told: Sequence[MemoryRecord], entity: Entity, entities: Sequence[Entity]) -> Iterator[str]:
    """Memories that call it by what it alone is: "my sister"."""
    own = [one for one in entity.relations if sum(one in other.relations for other in entities) == 1]
    for record in told if own else ():
        words = spell(record.text)
        said = {after for before, after in pairwise(words) if before in OWN} | (BEHIND & frozenset(words))
        if not said.isdisjoint(own) or any(is_unspaced(one) and one in record.text for one in own):
            yield record.id


def _meant(told: Sequence[MemoryRecord], named: Collection[str], entities: Sequence[Entity]) -> Iterator[str]:
    """Turns that name nobody and say "she", shortly behind one that names this one and nobody else."""
    naming = Counter(memory for one in entities if one.kind != "place" for memory in one.memories)
    said = [one for one in told if one.kind in ("turn", "episode") and one.origin == "user"]
    for at, record in enumerate(said):
        if naming[record.id] or record.id in named or not refers(record.text):
            continue
        back = [one for one in said[max(at - _BACK, 0) : at] if one.session_id == record.session_id]
        last = next((one for one in reversed(back) if naming[one.id] or one.id in named), None)
        if last is not None and last.id in named and naming[last.id] <= 1:
            yield record.id


def _unrepeated(records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    """Without the words that a fact beside them says in full, and the facts that say no more than their words."""
    by_turn = {one.source_turns[0]: one for one in records if one.kind == "turn" and one.source_turns}
    facts = [one for one in records if one.kind == "fact" and one.source_turns]
    left_out: set[str] = set()
    for fact in facts:
        words = by_turn.get(fact.source_turns[-1])
        if words is not None and carries(fact.text, words.text):
            left_out.add(words.id)
        elif words is not None and fact.revision == 1 and carries(words.text, fact.text):
            left_out.add(fact.id)
    return [one for one in records if one.id not in left_out]


def _time(record: MemoryRecord) -> tuple[float, int]:
    return (record.at.timestamp() if record.at is not None else 0.0, record.seq)
