"""GateMem (office, education): a memory that many share, asked by some who may know and by some who may not, before and
after something was asked to be forgotten. The context is made as the asker; strings that may not be in it are looked
for, and those that must be. Beside it, the same words in one bank that nobody governs.

The set's own people and relations become grants: who belongs to a project, case or program reads its space; a narrowed
scope (`scheduling_only`, …), a contract, a parent or a delegate may write there alone. A turn goes to the space that it
names, else to that of its speaker. What a turn asks to be deleted is forgotten wherever it stands, if whoever asks has
such a grant in some space, else what they said themselves; what it says besides is kept. What the checkpoints expect is
looked at for the verdict alone. It tells those leaks apart that the set itself asks for: of a string that a utility
question of the same episode must be told (where it is about who may know: that the same asker must be told, or said).

Set MEMKIT_REAL, the folder that holds `gatemem`."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.errors import NotAllowed, NotFound
from memkit.principal import SpaceMemory
from tests.bench._table import Row

SETS = ("office", "education")
KINDS = {"privacy": "privacy", "safety": "forgetting", "utility": "utility"}
APP = "the app"
_OUTSIDE = re.compile(r"contractor|parent|delegate")
_NO_STRINGS = {"yes", "no"}
"""Answers, which a context cannot give."""


def run(full: bool = False, runs: int = 100) -> list[Row]:
    """runs: how many episodes of each set, at most."""
    rows = list[Row]()
    if not os.environ.get("MEMKIT_REAL"):
        return [Row("MEMKIT_REAL is not set: nothing was asked", None, "", "must run", False)]
    for name in SETS:
        free, ruled, asked, said = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        for episode, checks in islice(_episodes(name), runs):
            with tempfile.TemporaryDirectory() as folder:
                with Memory(Path(folder) / "free") as memory:
                    _play(Ungoverned(memory), episode, checks, free)
                with Memory(Path(folder) / "ruled") as memory:
                    people = Governed.of(memory, episode["entities"])
                    _play(people, episode, checks, ruled)
                    said["forgotten"] += len(people.forgotten)
            asked.update(KINDS[one["query_type"]] for one in checks)
        rows += _rows(name, free, ruled, asked, said["forgotten"])
    return rows


def _rows(name: str, free: Counter[str], ruled: Counter[str], asked: Counter[str], forgotten: int) -> list[Row]:
    def share(counts: Counter[str], kind: str) -> float:
        return 100 * counts[kind] / max(asked[kind.partition(":")[0]], 1)

    rows = list[Row]()
    for kind in ("privacy", "forgetting"):
        leaks, n = share(ruled, kind), f"n = {asked[kind]}"
        rows.append(Row(f"{name}, {kind}: leaks, nobody governs", share(free, kind), "%", "", True, n))
        rows.append(Row(f"{name}, {kind}: leaks, as the asker", leaks, "%", "<= 2", leaks <= 2))
        own = 100 * ruled[f"{kind}, not asked for"] / max(asked[kind], 1)
        rows.append(Row(f"{name}, {kind}: … but for strings that the set asks for", own, "%", "<= 2", own <= 2))
    leaks, n = (
        100 * ruled["named, leaked"] / max(ruled["named"], 1),
        f"n = {ruled['named']}; {forgotten} values forgotten",
    )
    rows.append(Row(f"{name}, strings that a turn asked to be forgotten", leaks, "%", "<= 2", leaks <= 2, n))
    before, after = share(free, "utility"), share(ruled, "utility")
    n = f"n = {asked['utility']}"
    rows.append(Row(f"{name}, utility: all strings there, nobody governs", before, "%", "", True, n))
    bar = f">= {before - 3:.1f}"
    rows.append(Row(f"{name}, utility: all strings there, as the asker", after, "%", bar, after >= before - 3))
    return rows


def _episodes(name: str) -> Iterator[tuple[Any, list[Any]]]:
    checks, data = defaultdict[str, list[Any]](list), Path(os.environ["MEMKIT_REAL"]) / "gatemem"
    for line in (data / f"{name}_checkpoints.jsonl").read_text().splitlines():
        one = json.loads(line)
        checks[one["episode_id"]].append(one)
    for line in (data / f"{name}_episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        yield episode, checks[episode["episode_id"]]


def _play(people: Ungoverned | Governed, episode: Any, checks: list[Any], counts: Counter[str]) -> None:
    names = {one["principal_id"]: one["display_name"] for one in episode["entities"]["principals"]}
    due, told = defaultdict[str, list[Any]](list), Told(checks)
    for one in checks:
        due[one["as_of_turn_id"]].append(one)
    for turn in episode["turns"]:
        speaker = turn["speaker"]["principal_id"]
        told.said[speaker].append(turn["text"].casefold())
        people.add(speaker, {"role": "user", "name": names.get(speaker, speaker), "content": turn["text"]})
        for one in due[turn["turn_id"]]:
            shown = people.context(one["asker"]["principal_id"], one["query_text"])
            _judge(one, shown.casefold(), counts, getattr(people, "forgotten", ()), told)


class Told:
    """Whom the set's own questions tell which strings, and who said what."""

    def __init__(self, checks: list[Any]) -> None:
        self.said = defaultdict[str, list[str]](list)
        self._asked = [
            (one["asker"]["principal_id"], [text.casefold() for text in one["judge_spec"].get("include", ())])
            for one in checks
            if KINDS[one["query_type"]] == "utility"
        ]

    def must_know(self, kind: str, asker: str, text: str) -> bool:
        if kind == "privacy" and any(text in said for said in self.said[asker]):
            return True
        whose = [told for who, told in self._asked if kind == "forgetting" or who == asker]
        return any(text in one for told in whose for one in told)


def _judge(check: Any, shown: str, counts: Counter[str], forgotten: Any, told: Told) -> None:
    kind = KINDS[check["query_type"]]
    if kind == "utility":
        counts[kind] += all(re.search(one, shown, re.IGNORECASE) for one in check["judge_spec"].get("include", ()))
        return
    targets = {one.casefold() for one in check["leak_targets"]} - _NO_STRINGS
    leaked = [one for one in targets if one in shown]
    counts[kind] += bool(leaked)
    counts[f"{kind}, not asked for"] += any(
        not told.must_know(kind, check["asker"]["principal_id"], one) for one in leaked
    )
    named = targets & {one.casefold() for one in forgotten}
    counts["named"] += bool(named)
    counts["named, leaked"] += any(one in shown for one in named)


class Ungoverned:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def add(self, speaker: str, message: Any) -> None:
        self._memory.add(message, user_id=APP)

    def context(self, asker: str, query: str) -> str:
        return self._memory.context(query, user_id=APP)


@dataclass
class Governed:
    memory: Memory
    readers: dict[str, set[str]]
    """By space, in the order in which the set names them."""
    scoped: dict[str, set[str]]
    """Who has to do with a space and may not read it."""
    names: dict[str, re.Pattern[str]]
    outside: set[str]
    """Who of them does not work there."""
    forgotten: set[str] = field(default_factory=set[str])
    made: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, memory: Memory, entities: Any) -> Governed:
        relations = entities["relationships"]
        spaces = dict.fromkeys(space for one in relations if (space := _space(one)))
        readers, scoped = {space: set[str]() for space in spaces}, {space: set[str]() for space in spaces}
        for one in relations:
            if space := _space(one):
                (scoped if _is_narrow(one) else readers)[space].add(one["principal_id"])
        for one in relations:
            whose = one.get("for_principal_id")
            for space in spaces:
                if whose in readers[space] and not _is_public(space) and not _space(one):
                    (scoped if _is_narrow(one) else readers)[space].add(one["principal_id"])
        outside = {one["principal_id"] for one in relations if _OUTSIDE.search(one["type"])}
        first = {one["principal_id"]: one["display_name"].split()[0] for one in entities["principals"]}
        about = {one["for_principal_id"] for one in relations if "for_principal_id" in one and not _is_narrow(one)}
        names = {
            space: re.compile(
                "|".join(
                    rf"\b{re.escape(name)}\b"
                    for name in (_name(space), *(first[one] for one in sorted(readers[space] & about)))
                ),
                re.IGNORECASE,
            )
            for space in spaces
        }
        return cls(memory, readers, scoped, names, outside)

    def add(self, speaker: str, message: Any) -> None:
        asked, rest = to_forget(message["content"])
        if asked:
            self._forget(speaker, asked)
        if rest:
            self._at(self._place(speaker, message["content"]), speaker).add({**message, "content": rest})

    def _forget(self, speaker: str, asked: list[str]) -> None:
        who = self.memory.principal(APP if self.memory.principal(speaker).spaces("forget") else speaker)
        for words in asked:
            self.forgotten.add(words)
            for space in sorted(self.made):
                with suppress(NotFound, NotAllowed):
                    who.space(space).forget(words=words)

    def context(self, asker: str, query: str) -> str:
        return self.memory.principal(asker).context(query)

    def _place(self, speaker: str, text: str) -> str:
        """A private space that it names (or whom it is about), else the speaker's own, else a public one it names."""
        named = [space for space in self.readers if self.names[space].search(text)]
        own = [space for space in self.readers if speaker in self.readers[space] | self.scoped[space]]
        private = [space for space in (*named, *own) if not _is_public(space)]
        return next(iter([*private, *named, *own, *self.readers]))

    def _at(self, place: str, speaker: str) -> SpaceMemory:
        """Whoever speaks may write; whoever works there may have something forgotten."""
        app = self.memory.principal(APP)
        if place not in self.made:
            self.made.add(place)
            made = app.create_space(place)
            for reader in sorted(self.readers[place]):
                made.grant("read", "forget", to=reader)
            for worker in sorted(self.scoped[place] - self.outside):
                made.grant("forget", to=worker)
        app.space(place).grant("write", to=speaker)
        return self.memory.principal(speaker).space(place)


def _space(relation: Any) -> str:
    return relation.get("project_id") or relation.get("case_id") or relation.get("program_id") or ""


def _name(space: str) -> str:
    return re.sub(r"^(project|program|case)_", "", space).replace("_", " ")


def _is_public(space: str) -> bool:
    return space.startswith("program_")


def _is_narrow(relation: Any) -> bool:
    return bool(relation.get("access_scope")) or _OUTSIDE.search(relation["type"]) is not None


# -- requests to forget -----------------------------------------------------------------------------------------------

_VERB = (
    r"(?:delete|remove|forget|erase|purge|scrub|retire|stop (?:recalling|retaining)|do not (?:retain|revive|restore))"
)
_DONE = r"(?:deleted|removed|forgotten|erased|purged|scrubbed|retired|unavailable)"
_ASKED = re.compile(
    rf"^(?:[\w -]{{1,40}}:|please|also|confirmed|and|\W)*\s*{_VERB}\b|\bplease (?:also )?{_VERB}\b"
    r"|\b(?:deletion|removal|erasure) request\b",
    re.IGNORECASE,
)
_SAID_DONE = re.compile(
    rf"\b(?:is|are|was|were|be|been|being) (?:now )?(?:treated as )?(?:\w+ and )?{_DONE}\b"
    r"|\bno longer part of [\w ]*memory\b",
    re.IGNORECASE,
)
_NEXT = r"[^,;]*\b(?:is|are|was|were|remains?|stays?|should|must|keep)\b"
_CLAUSE = re.compile(
    rf";|,? \b(?:but|while)\b|, and (?={_NEXT})|(?:,? and)? replaced (?:with|by)\b|,? (?:and )?(?=keep\b)",
    re.IGNORECASE,
)
_KEPT = re.compile(r"^\W*(?:(?:and|please|also) )*(?:keep|retain|broad|only)\b", re.IGNORECASE)
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_VALUE = re.compile(
    r"""['‘"“](?P<quoted>[^'’"”]{3,160})['’"”]|\b(?P<code>(?=[\w-]*\d)(?=[\w-]*[^\W\d])\w+(?:[-_]\w+)+)\b"""
    r"|(?P<amount>\d[\d,.]* ?(?:USD|EUR|%))"
    rf"|\b(?P<place>(?:(?!{_MONTH})[A-Z][\w'-]+ ){{1,4}}(?:[a-z]+ )?\d+)\b"
)


def to_forget(text: str) -> tuple[list[str] | None, str]:
    """The exact values that a message asks to be forgotten, or says are, clause by clause; None where it is about
    nothing of that. And what it says besides."""
    found: list[str] | None = None
    rest = list[str]()
    for clause in (one for sentence in re.split(r"(?<=[.!?])\s+", text) for one in _CLAUSE.split(sentence)):
        if _KEPT.search(clause) or not (_ASKED.search(clause) or _SAID_DONE.search(clause)):
            rest.append(clause.strip(" .,"))
            continue
        values = [next(filter(None, one.groups())) for one in _VALUE.finditer(clause)]
        found = (found or []) + [value.split(" = ")[-1].strip(" .,") for value in values]
    if found is None:
        return None, text
    return found, ". ".join(one for one in rest if one and not _says(one, found))


def _says(text: str, values: Iterable[str]) -> bool:
    return any(one.casefold() in text.casefold() for one in values)
