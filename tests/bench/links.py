"""Links: whom and what memories name, and whether questions that need several memories would gain by following names.

Set MEMKIT_TALKS and MEMKIT_LOCOMO; what is not set is left out, in a row that says so. `entities` is compared with the
names that people say in the talks (tests/data/names.tsv), on which its rules were made. A question counts where all its
evidence is among the ten best; "with an oracle's hop" adds to these every missing turn that names somebody whom a found
one names, too: more than a hop that only adds can find. A name that an eighth of the memories bear leads nowhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.embedders import make_embedder
from memkit.models import Entity, Turn
from memkit.results import Hit
from memkit.seams.embedder import Embedder
from memkit.text.content import carries
from memkit.text.words import fold
from tests.bench import _real_sets as sets
from tests.bench._real_talks import forms_of, holds, same, share, talks
from tests.bench._table import Row
from tests.bench.real import is_set

NAMES = Path(__file__).parents[1] / "data" / "names.tsv"
SINGLE_HOP, MULTI_HOP = 4, 1
"""LoCoMo's categories by its official code."""
GAIN = 6
"""Points by which a hop must raise the questions with several evidence turns."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: whether it needs several memories, whether all are among the ten best, and with an oracle's hop."""

    several: bool
    found: bool
    with_hop: bool


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    embedder = make_embedder("minilm")
    if is_set("MEMKIT_TALKS", rows):
        rows += _talks(embedder)
    if is_set("MEMKIT_LOCOMO", rows):
        asked = [
            one
            for talk in json.loads(Path(os.environ["MEMKIT_LOCOMO"]).read_text("utf-8"))
            for one in _locomo(talk, embedder)
        ]
        rows += _hops("LoCoMo", asked)
    return rows


def _talks(embedder: Embedder) -> list[Row]:
    asked: list[Asked] = []
    counts = {True: _Count(), False: _Count()}
    gold = _read_names()
    for talk in talks():
        with sets.memory(embedder) as memory:
            said: dict[str, Turn] = {}
            for turn in talk.turns:
                message = {"role": turn["role"], "content": turn["content"]}
                (said[turn["id"]],) = memory.add(
                    message, user_id=sets.USER, session_id=turn["session"], at=turn["at"]
                ).turns
            entities = memory.entities(user_id=sets.USER)
            counts[talk.english].add(entities, *gold[talk.name])
            linked = _linked(memory, entities)
            for one in talk.questions:
                evidence = [said[turn] for turn in one["evidence"] if turn in said]
                if one["answer"] is not None and evidence:
                    asked.append(_ask(memory, one, evidence, len(evidence) > 1, linked))
    rows: list[Row] = []
    for name, count in (("English", counts[True]), ("other languages", counts[False])):
        listed, found = 100 * count.right / count.listed, 100 * count.found / count.said
        note = f"n={count.listed}"
        rows.append(Row(f"talks, {name}: entities that are names", listed, "%", ">= 90", listed >= 90, note))
        rows.append(Row(f"talks, {name}: people and animals found", found, "%", "", True, f"n={count.said}"))
    return rows + _hops("talks", asked)


def _locomo(talk: Mapping[str, Any], embedder: Embedder) -> Iterator[Asked]:
    with sets.memory(embedder) as memory:
        said = sets.tell_locomo(memory, talk["conversation"], infer=True)
        linked = _linked(memory, memory.entities(user_id=sets.USER, limit=10_000))
        for one in talk["qa"]:
            evidence = [said[turn] for turn in one.get("evidence", ()) if turn in said]
            if one["category"] in (SINGLE_HOP, MULTI_HOP) and evidence:
                yield _ask(memory, one, evidence, one["category"] == MULTI_HOP, linked)


def _hops(name: str, asked: Sequence[Asked]) -> list[Row]:
    several, single = ([one for one in asked if one.several is kind] for kind in (True, False))
    now, then = share([one.found for one in several]), share([one.with_hop for one in several])
    alone = share([one.found for one in single])
    return [
        Row(f"{name}, several memories needed: all in the ten best", now, "%", "", True, f"n={len(several)}"),
        Row(f"{name}, the same with an oracle's hop", then, "%", f">= {now + GAIN:.1f}", then >= now + GAIN),
        Row(f"{name}, one memory needed: in the ten best", alone, "%", "", True, f"n={len(single)}"),
    ]


def _ask(
    memory: Memory, question: Mapping[str, Any], evidence: Sequence[Turn], several: bool, linked: _Linked
) -> Asked:
    hits = memory.search(question["question"], user_id=sets.USER, k=10)
    gold = forms_of(question["answer"])
    found = {turn.turn_id for turn in evidence if _is_found(turn, hits, gold)}
    missing = {turn.turn_id for turn in evidence} - found
    return Asked(several, not missing, missing <= linked.reached_from(found))


def _is_found(turn: Turn, hits: Iterable[Hit], gold: Sequence[str]) -> bool:
    """By its words, or by a memory that was drawn from it and says the same, or the answer."""
    return any(
        same(hit.text, turn.text)
        or (
            turn.turn_id in hit.memory.source_turns
            and (hit.memory.kind != "fact" or holds(hit.text, gold) or carries(hit.text, turn.text))
        )
        for hit in hits
    )


@dataclass(frozen=True, slots=True)
class _Linked:
    """The turns that each entity is named in."""

    turns: Sequence[frozenset[str]]

    def reached_from(self, found: set[str]) -> set[str]:
        return {turn for one in self.turns if not one.isdisjoint(found) for turn in one}


def _linked(memory: Memory, entities: Iterable[Entity]) -> _Linked:
    records = {one.id: one for one in memory.list(user_id=sets.USER, kinds=("fact", "turn"), limit=10_000)}
    most = max(len(records) // 8, 6)
    few = [one.memories for one in entities if len(one.memories) <= most]
    return _Linked([frozenset(turn for one in ids for turn in records[one].source_turns) for ids in few])


@dataclass(slots=True)
class _Count:
    """Entities: those listed, those of them that are names; people and animals that are said, and found."""

    listed: int = 0
    right: int = 0
    said: int = 0
    found: int = 0

    def add(self, entities: Iterable[Entity], beings: frozenset[str], others: frozenset[str]) -> None:
        known = [frozenset(map(fold, one.names)) for one in entities]
        self.listed += len(known)
        self.right += sum(not one.isdisjoint(beings | others) for one in known)
        self.said += len(beings)
        self.found += len(beings & frozenset[str]().union(*known))


def _read_names() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Talk → folded names of people and animals, and other names that users say."""
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for line in NAMES.read_text("utf-8").splitlines():
        talk, beings, others = line.split("\t")
        found[talk] = _folded(beings), _folded(others)
    return found


def _folded(names: str) -> frozenset[str]:
    return frozenset(fold(one.replace("_", " ")) for one in names.split())
