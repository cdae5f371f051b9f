"""What stands beside memkit on real words: BM25 and mem0, told the same turns raw and spoken to as a Memory is."""

from __future__ import annotations

import json
import math
import subprocess
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from memkit.embedders import make_embedder
from memkit.models import MemoryRecord
from memkit.retrieval import estimate_tokens, parse_context, render_context
from memkit.text.words import STOP_WORDS, terms
from tests.bench._peer import PeerMissing, peer_python, quiet
from tests.bench._real_talks import TOKENS, K, Served, System, Talk

BM25, MEM0 = "BM25", "mem0"
NAMES = (BM25, MEM0)
PEER = ("mem0ai==2.2.1", "fastembed")
_SCRIPT = Path(__file__).with_name("_mem0_told.py")


@dataclass(frozen=True, slots=True)
class Said:
    turn_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Added:
    turns: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Found:
    text: str
    memory: MemoryRecord
    score: float


class Finder(Protocol):
    """Where the words go; the places of the best of them, best first."""

    def keep(self, text: str) -> None: ...
    def find(self, question: str, k: int) -> list[tuple[int, float]]: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class Rival:
    """The verbs of `Memory` that a benchmark needs."""

    finder: Finder
    records: list[MemoryRecord] = field(default_factory=list[MemoryRecord])

    def add(self, message: Any, *, user_id: str, session_id: str = "", at: Any = None, infer: bool = False) -> Added:
        said: dict[str, Any] = message if isinstance(message, dict) else {"role": "user", "content": message}
        number, text = len(self.records), said["content"]
        speaker, role = said.get("name", ""), said["role"]
        when = datetime.fromisoformat(at) if isinstance(at, str) else at
        self.finder.keep(f"{speaker}: {text}" if speaker else text)
        self.records.append(
            MemoryRecord(
                id=f"r{number}",
                text=text,
                kind="turn",
                origin="assistant" if role == "assistant" else "user",
                speaker=speaker,
                session_id=session_id,
                source_turns=(f"r{number}",),
                at=when,
                seq=number + 1,
            )
        )
        return Added((Said(f"r{number}", text),))

    def search(self, question: str, *, user_id: str, k: int) -> list[Found]:
        found = self.finder.find(question, k)
        return [Found(self.records[at].text, self.records[at], score) for at, score in found]


@contextmanager
def rival(name: str) -> Generator[Rival]:
    finder = Okapi() if name == BM25 else Mem0()
    try:
        yield Rival(finder)
    finally:
        finder.close()


def told_to(name: str) -> System:
    """A rival told a talk, its hits laid out in the same block as ours."""

    def run(talk: Talk) -> Iterator[Served]:
        with rival(name) as store:
            for turn in talk.turns:
                store.add(turn, user_id="u", session_id=turn["session"], at=turn["at"])
            for question in [*talk.questions, *talk.others]:
                hits = store.search(question["question"], user_id="u", k=len(talk.turns))
                block = render_context([hit.memory for hit in hits], TOKENS, nonce="0" * 8).text
                said = "\n".join(item.text for item in parse_context(block)) if block else ""
                best = max((hit.score for hit in hits), default=0.0)
                yield Served([hit.text for hit in hits[:K]], said, best, estimate_tokens(block))

    return run


class Okapi:
    """The plain baseline, over the same words as ours."""

    def __init__(self) -> None:
        self._bags: list[Counter[str]] = []
        self._seen = Counter[str]()
        self._total = 0

    def keep(self, text: str) -> None:
        bag = Counter(terms(text))
        self._bags.append(bag)
        self._seen.update(bag.keys())
        self._total += bag.total()

    def find(self, question: str, k: int) -> list[tuple[int, float]]:
        rows, mean = len(self._bags), self._total / max(len(self._bags), 1)
        idf = {
            term: math.log(1 + (rows - self._seen[term] + 0.5) / (self._seen[term] + 0.5))
            for term in set(terms(question))
            if term in self._seen
        }
        scores = [
            sum(
                value * bag[term] * 2.2 / (bag[term] + 1.2 * (0.25 + 0.75 * bag.total() / mean))
                for term, value in idf.items()
                if term in bag
            )
            for bag in self._bags
        ]
        order = sorted(range(rows), key=lambda at: -scores[at])[:k]
        return [(at, scores[at]) for at in order]

    def close(self) -> None: ...


class Mem0:
    """In a process and an environment of its own, given the vectors that ours are."""

    def __init__(self) -> None:
        self._embedder = make_embedder("minilm")
        self._process = subprocess.Popen(
            [peer_python(PEER), _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=quiet(),
        )
        self._say({"dim": self._embedder.dim, "stop_words": sorted(STOP_WORDS)})

    def keep(self, text: str) -> None:
        self._say({"text": text, "vector": self._vector(text)})

    def find(self, question: str, k: int) -> list[tuple[int, float]]:
        self._say({"text": question, "vector": self._vector(question), "k": k})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerMissing(f"{_SCRIPT.name} ended with {self._process.wait()}")
        return [(at, score) for at, score in json.loads(line)]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _vector(self, text: str) -> Sequence[float]:
        return self._embedder.embed([text])[0].tolist()

    def _say(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
