"""Realistic chats, told to a memory message by message, and what its reads give back for their questions."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.models import MemoryRecord
from memkit.retrieval import estimate_tokens, parse_context
from memkit.text.passages import windows

K, TOKENS, OF_EACH = 10, 300, 3


@dataclass(slots=True)
class Talk:
    name: str
    turns: list[dict[str, Any]] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    chitchat: frozenset[str] = frozenset()
    others: list[dict[str, Any]] = field(default_factory=list)
    """Questions of other talks: nothing that was said here bears on them."""

    @property
    def english(self) -> bool:
        return self.name[:2] in ("w1", "w2")


def talks(folder: str | None = None) -> list[Talk]:
    path = folder or os.environ.get("MEMKIT_TALKS")
    if not path:
        raise SystemExit("MEMKIT_TALKS is not set: the folder of the talks (*.jsonl)")
    found = [read(file) for file in sorted(Path(path).glob("*.jsonl"))]
    for talk in found:
        near = [other for other in found if other.english == talk.english and other is not talk]
        talk.others = [question for other in near for question in other.questions[:OF_EACH]]
    return found


def read(file: Path) -> Talk:
    talk = Talk(file.stem)
    for line in file.read_text("utf-8").splitlines():
        one = json.loads(line)
        if "content" in one:
            talk.turns.append(one)
        elif "question" in one:
            talk.questions.append(one)
        else:
            talk.chitchat = frozenset(one["chitchat"])
    return talk


@dataclass(frozen=True, slots=True)
class Served:
    """What one system gave for one question."""

    texts: list[str]
    """The ten best, best first."""
    block: str
    """The words of the context, without brackets and dates."""
    best: float
    """Score of the best."""
    tokens: int = 0
    share: float = 0.0
    """Of the tokens of a block of the default size, those of memories."""
    relevance: Sequence[float] = ()
    """Of the ten best."""


System = Callable[[Talk], Iterator[Served]]


def told(embedder: str, *, infer: bool = True, model: Any = None) -> System:
    """A Memory as it is by default, with a model or without, or every turn stored raw."""

    def run(talk: Talk) -> Iterator[Served]:
        with (
            tempfile.TemporaryDirectory() as folder,
            Memory(folder + "/store", embedder=embedder, model=model) as memory,
        ):
            for turn in talk.turns:
                message = {"role": turn["role"], "content": turn["content"]}
                memory.add(message, user_id="u", session_id=turn["session"], at=turn["at"], infer=infer)
            yield from served(memory, talk)

    return run


def served(memory: Memory, talk: Talk) -> Iterator[Served]:
    """What a memory that was told the talk gives for its questions, and for those of other talks."""
    for question in [*talk.questions, *talk.others]:
        hits = memory.search(question["question"], user_id="u", k=K)
        block = str(memory.context(question["question"], user_id="u", max_tokens=TOKENS))
        said = "\n".join(item.text for item in parse_context(block)) if block else ""
        best = max((hit.score for hit in hits), default=0.0)
        tokens, relevance = estimate_tokens(block), [hit.relevance for hit in hits]
        whole = str(memory.context(question["question"], user_id="u"))
        inside = sum(estimate_tokens(item.text) for item in parse_context(whole)) if whole else 0
        share = inside / max(estimate_tokens(whole), 1)
        yield Served([hit.text for hit in hits], said, best, tokens, share, relevance)


@dataclass(slots=True)
class Tally:
    """Counts over questions."""

    evidence: list[bool] = field(default_factory=list)
    gold: list[bool] = field(default_factory=list)
    stale: list[bool] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)
    chatter: list[float] = field(default_factory=list)
    tokens_for_nothing: list[int] = field(default_factory=list)
    tokens_for_others: list[int] = field(default_factory=list)
    """… for questions of other talks."""
    memory: list[float] = field(default_factory=list)
    """Shares of blocks that are memory."""
    hits: list[list[tuple[float, bool]]] = field(default_factory=list)
    """Per question that has an answer: relevance of each hit, and whether it is right."""
    misses: list[str] = field(default_factory=list)
    words: int = 0
    idle_words: int = 0
    """Served words, and those of turns that hold nothing worth keeping."""

    def count(self, talk: Talk, question: dict[str, Any], served: Served) -> None:
        if question["answer"] is None:
            self.empty.append(served.best)
            self.tokens_for_nothing.append(served.tokens)
            return
        self.answered.append(served.best)
        words = {turn["id"]: turn["content"] for turn in talk.turns}
        forms = forms_of(question["answer"])
        evidence = [words[one] for one in question["evidence"] if one in words]
        right = [holds(text, forms) or any(same(text, said) for said in evidence) for text in served.texts]
        found = any(right)
        self.memory.append(served.share)
        self.hits.append(list(zip(served.relevance, right, strict=False)))
        has = holds(served.block, forms) or any(fold(said) in fold(served.block) for said in evidence)
        idle = [words[one] for one in talk.chitchat if one in words]
        for line in served.block.split("\n"):
            self.words += len(line.split())
            self.idle_words += len(line.split()) * any(same(line, said) for said in idle)
        self.evidence.append(found)
        self.gold.append(has)
        old = forms_of(question.get("stale") or [])
        if old:
            self.stale.append(holds(served.block, old) and not has)
        if not (found and has):
            self.misses.append(f"{talk.name} {question['id']} {'' if found else 'evidence '}{'' if has else 'gold'}")


def forms_of(raw: Any) -> list[str]:
    return [str(one) for one in (raw if isinstance(raw, list) else [raw])]


def fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def holds(text: str, forms: Sequence[str]) -> bool:
    """Whether a text has all the words of one of the forms; in scripts without blanks, the form itself."""
    text = fold(text)
    said = set(_WORD.findall(text))
    return any((not form.isascii() and form in text) or _words(form) <= said for form in map(fold, forms))


_WORD = re.compile(r"\w+")
_LEFT_OUT = frozenset(["a", "an", "the", "my", "your", "his", "her", "our", "their", "and"])


def _words(form: str) -> set[str]:
    found = set(_WORD.findall(form))
    return found - _LEFT_OUT or found


def same(text: str, said: str) -> bool:
    """Whether a served text is (a good part of) what was said."""
    text, said = fold(text), fold(said)
    return len(text) >= 12 and (text in said or said in text)


def share(values: Sequence[bool]) -> float:
    return 100 * sum(values) / max(len(values), 1)


def records_of(turns: Sequence[Mapping[str, Any]]) -> list[MemoryRecord]:
    """Words as a bank keeps them."""
    return [
        MemoryRecord(
            id=f"{turn['id']}.{number}",
            text=window,
            kind="turn",
            origin=turn["role"],
            speaker="" if turn["role"] == "user" else turn["role"],
            session_id=turn["session"],
            source_turns=(turn["id"],),
            at=datetime.fromisoformat(turn["at"]),
            seq=seq,
        )
        for seq, turn in enumerate(turns, start=1)
        for number, window in enumerate(windows(turn["content"]))
    ]


def is_relevant(text: str, question: dict[str, Any], words: dict[str, str]) -> bool:
    """Whether it holds the gold or the words of the evidence; `words`: those of each turn."""
    evidence = [words[name] for name in question["evidence"] if name in words]
    return holds(text, forms_of(question["answer"])) or any(same(text, said) for said in evidence)


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a in right for b in wrong]
    return sum(pairs) / max(len(pairs), 1)


def tally(system: System, chosen: Sequence[Talk]) -> Tally:
    found = Tally()
    for talk in chosen:
        asked = [(question, True) for question in talk.questions] + [(question, False) for question in talk.others]
        for (question, is_own), served in zip(asked, system(talk), strict=True):
            if is_own:
                found.count(talk, question, served)
            else:
                found.tokens_for_others.append(served.tokens)
    return found


def precision(hits: Sequence[Sequence[tuple[float, bool]]], recall: float = 0.85) -> tuple[float, float]:
    """The strictest `min_score` at which so many questions keep a right hit, and the mean share of right ones among
    what each question keeps."""
    enough = math.ceil(recall * len(hits))
    best = sorted((max((value for value, right in one if right), default=-1.0) for one in hits), reverse=True)
    least = max(best[enough - 1], 0.0) if hits else 0.0
    kept = [[right for value, right in one if value >= least] for one in hits]
    shares = [sum(one) / len(one) for one in kept if one]
    return sum(shares) / max(len(shares), 1), least
