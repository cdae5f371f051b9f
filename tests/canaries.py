"""Canaries: words that occur once, are told, and are ended in every way that there is. What any read serves of them
afterwards is a leak. Those that nobody ended are the control: a read that serves nothing proves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agents import SQLiteSession

from memkit import Memory
from memkit.journal import Journal
from memkit.models import to_json
from memkit.seams.clock import RandomIds, SystemClock
from memkit_agents import MemkitSession
from memkit_langchain import MemkitRetriever
from memkit_plug.talk import HostTalk

SAYINGS = (
    "My garage code is {}.",
    "The wifi password at home is {}.",
    "I adopted a dog named {}.",
    "By the way, the spare key is under flowerpot {}, don't tell anyone.",
    "Die Kennung meines Schließfachs ist {}.",
)
QUESTIONS = "What is the garage code, the wifi password, the dog's name, the flowerpot, the Schließfach {}?"


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = datetime(2026, 5, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


@dataclass
class Teller:
    """A model that writes down what it is told, and notes what it was shown."""

    shown: list[str] = field(default_factory=list[str])

    def __call__(self, messages: list[dict[str, str]]) -> str:
        prompt = messages[-1]["content"]
        self.shown.append(prompt)
        _, found, new = prompt.partition("NEW turns:")
        if not found:
            return json.dumps({"used": [], "answer": "I do not know."})
        return json.dumps({"operations": [{"op": "ADD", "id": None, "text": f"Told: {new.strip()[-120:]}", "turn": 1}]})


def canary(number: int) -> str:
    return f"zq{number:04d}xk"


@dataclass
class Told:
    """One canary: whose it is, what was said, and what the manager shows of it later."""

    memory: Memory
    clock: Hands
    user: str
    word: str
    way: str = ""
    session: MemkitSession | None = None
    """Through which it is told, where it is popped from there."""

    def __post_init__(self) -> None:
        said = SAYINGS[int(self.word[2:6]) % len(SAYINGS)].format(self.word)
        ends = self.clock.at + timedelta(hours=1) if self.way == "expiry" else None
        self.memory.add("I play the violin.", user_id=self.user, session_id="s0")
        if self.way == "pop":
            self.session = MemkitSession(SQLiteSession("s1"), self.memory, user_id=self.user)
            asyncio.run(self.session.add_items([{"role": "user", "content": said}]))
            self.memory.flush()
            self.memory.search(self.word, user_id=self.user)
            return
        self.added = self.memory.add(said, user_id=self.user, session_id="s1", expires_at=ends)
        noted = {"role": "assistant", "content": f"Noted: {self.word}."}
        self.repeated = self.memory.add(noted, user_id=self.user, session_id="s1", expires_at=ends)
        self.memory.search(self.word, user_id=self.user)

    def records(self) -> list[str]:
        """Ids of the memories that say it."""
        listed = [one.id for one in self.memory.list(user_id=self.user, limit=100) if self.word in one.text]
        return listed or [
            hit.memory.id for hit in self.memory.search(self.word, user_id=self.user) if self.word in hit.text
        ]


def _delete(told: Told) -> None:
    for _ in range(4):
        for memory_id in told.records():
            if told.memory._runtime.journal.get(told.user, memory_id):
                told.memory.delete(memory_id, user_id=told.user)


def _undo(told: Told) -> None:
    for one in (told.repeated, told.added):
        told.memory.undo(user_id=told.user, turn_id=one.turns[0].turn_id)


def _forget(told: Told) -> None:
    told.memory.add(f"Delete {told.word} from memory.", user_id=told.user, session_id="s2")


def _erase_memory(told: Told) -> None:
    listed = [one.id for one in told.memory.list(user_id=told.user, limit=100) if told.word in one.text]
    told.memory.erase(user_id=told.user, memory_id=listed[0] if listed else told.added.turns[0].turn_id)


def _pop(told: Told) -> None:
    assert told.session is not None
    asyncio.run(told.session.pop_item())


def _expire(told: Told) -> None:
    told.clock.at += timedelta(hours=2)


WAYS: Mapping[str, Callable[[Told], Any]] = {
    "delete": _delete,
    "delete_all": lambda told: told.memory.delete_all(user_id=told.user),
    "forget by message": _forget,
    "undo": _undo,
    "pop": _pop,
    "expiry": _expire,
    "erase a turn": lambda told: told.memory.erase(user_id=told.user, turn_id=told.added.turns[0].turn_id),
    "erase a memory": _erase_memory,
    "erase a session": lambda told: told.memory.erase(user_id=told.user, session_id="s1"),
}


def opened(path: Path, clock: Hands, teller: Teller, *, rules: bool) -> Memory:
    model: Any = {"answerer": teller} if rules else teller
    return Memory(path, model=model, mode="fused", clock=clock, config={"workers": 0})


def served(told: Told, teller: Teller) -> dict[str, str]:
    """What each kind of read gives of a user's bank now."""
    memory, user, asked = told.memory, told.user, QUESTIONS.format("")
    found = {
        "search": str([hit.text for hit in memory.search(asked, user_id=user, k=20)]),
        "search as of now": str([hit.text for hit in memory.search(asked, user_id=user, as_of=told.clock.now(), k=20)]),
        "expand": str([hit.sources for hit in memory.search(asked, user_id=user, k=20, expand="sources")]),
        "list": str(list(memory.list(user_id=user, limit=100))),
        "context": str(memory.context(asked, user_id=user, max_tokens=4_000)),
        "the chat plugs": HostTalk.of(memory, user).recall(asked).block,
        "the LangChain plug": str(MemkitRetriever(memory=memory, user_id=user, k=20).invoke(asked)),
    }
    teller.shown.clear()
    memory.answer(asked, user_id=user)
    found["answer prompt"] = " ".join(teller.shown)
    for name, session in (("manager prompt", "s9"), ("manager prompt in the same talk", "s1")):
        added = memory.add("I also like tea, dogs and codes.", user_id=user, session_id=session)
        made = memory._runtime.journal.decisions(user_id=user, intake_id=added.trace_id)
        found[name] = " ".join(blob for one in made for blob in one.blobs.values())
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    way: str
    rules: bool
    canaries: int
    leaks: Mapping[str, list[str]]
    """Read → canaries that it served after they were ended."""
    blind: frozenset[str]
    """Reads that serve none of those that nobody ended."""
    on_disk: int
    """Canaries whose bytes are found in the store after they were ended."""


def outcome(path: Path, way: str, count: int, *, rules: bool, control: int = 5) -> Outcome:
    """`count` users tell a canary each and end it by `way`; some more tell one and do not."""
    clock, teller = Hands(), Teller()
    leaks, seen = dict[str, list[str]](), set[str]()
    with opened(path, clock, teller, rules=rules) as memory:
        told = [Told(memory, clock, f"u{n}", canary(n), way) for n in range(count)]
        kept = [Told(memory, clock, f"k{n}", canary(9_000 + n)) for n in range(control)]
        if way == "expiry":
            WAYS[way](told[0])  # time passes for all of them
        else:
            for one in told:
                WAYS[way](one)
        clock.at += timedelta(seconds=1)  # what began before an erasure leaves no trace
        reads = dict[str, str]()
        for one in told:
            reads = served(one, teller)
            for read, text in reads.items():
                if one.word in text:
                    leaks.setdefault(read, []).append(one.word)
        for one in kept:
            seen |= {read for read, text in served(one, teller).items() if one.word in text}
        memory.flush()
    on_disk = held(path, [one.word for one in told])
    return Outcome(way, rules, count, leaks, frozenset(reads.keys() - seen), on_disk)


def held(path: Path, words: list[str]) -> int:
    """Of these words, how many are found in the files of a store, and in the journal's packed blobs. Files are read by
    another process: closing one here would drop this process's locks."""
    raw = subprocess.run(
        ["cat", *map(str, filter(Path.is_file, sorted(path.rglob("*"))))], capture_output=True, check=True
    ).stdout
    if not (path / "journal.sqlite").exists():  # the journal is in a database
        with contextlib.closing(Journal.open(path, clock=SystemClock(), ids=RandomIds(), read_only=True)) as there:
            found = raw + to_json([*there.dump()]).encode()
        return sum(word.encode() in found for word in words)
    with contextlib.closing(sqlite3.connect(f"file:{path / 'journal.sqlite'}?mode=ro", uri=True)) as journal:
        packed = b"".join(zlib.decompress(row[0]) for row in journal.execute("SELECT data FROM blobs"))
    return sum(word.encode() in raw or word.encode() in packed for word in words)
