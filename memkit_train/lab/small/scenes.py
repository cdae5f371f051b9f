"""Labelled scenes → choices with the right answer, made as the runtime makes them.

A scene is a conversation whose clauses carry labels (the format is told in corpus/README.md). It is told turn by turn
to a bank that does what the labels say, so that each fact meets the memories as they stand by then.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memkit.backbones._rules_manage import KnownMemory, decide
from memkit.backbones.small import phrase
from memkit.backbones.small.pairs import clause_pair, relation_pair
from memkit.backbones.small.shape import CLAUSE, RELATION
from memkit.models import Bank, Turn
from memkit.seams.embedder import Embedder
from memkit.text.clauses import clauses
from memkit_train.errors import TrainError
from memkit_train.rows import ChoiceRow

Vector = NDArray[np.float32]
CORPUS = Path(__file__).parent / "corpus"
_LABEL = re.compile(r"(l|([ks])(\d+)((?:@[^\s>=+@]+|[>=+x]\d+)*)) (\S.*)", re.DOTALL)
_WHO = re.compile(r"@[^\s>=+@]+?(?=[>=+]|x\d|$)")
_RELATION = {">": "replaces", "=": "same", "+": "adds", "x": "ends"}
_NEAR, _FAR = 4, 2
"""Unrelated memories that a fact is held against: the nearest, and some others."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A clause with its label."""

    text: str
    label: str
    number: int = 0
    relations: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SceneMessage:
    role: str
    at: datetime
    clauses: tuple[Labelled, ...]

    @property
    def text(self) -> str:
        return " ".join(one.text for one in self.clauses)


@dataclass(slots=True)
class LabelledScene:
    language: str
    name: str
    messages: list[SceneMessage] = field(default_factory=list[SceneMessage])


def read_scenes(folder: Path = CORPUS) -> list[LabelledScene]:
    return [scene for path in sorted(folder.glob("*.txt")) for scene in _read(path)]


def _read(path: Path) -> Iterator[LabelledScene]:
    scene: LabelledScene | None = None
    at = datetime(2025, 1, 1, tzinfo=UTC)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("==="):
            if scene is not None:
                yield scene
            language, name, _ = (part.strip() for part in line[3:].split("|"))
            scene = LabelledScene(language, name)
        elif line.startswith("---"):
            at = datetime.fromisoformat(line[3:].strip()).replace(tzinfo=UTC)
        elif line.strip():
            if scene is None or line[:2] not in ("u ", "a "):
                raise TrainError(f"{path.name}:{number} is no line of a scene", fix="see corpus/README.md")
            said = line[2:].strip()
            found = (_labelled(path, number, one) for one in said.split(" / "))
            parts = tuple(found) if line[0] == "u" else (Labelled(said, "leave"),)
            scene.messages.append(SceneMessage("user" if line[0] == "u" else "assistant", at, parts))
    if scene is not None:
        yield scene


def _labelled(path: Path, line: int, text: str) -> Labelled:
    found = _LABEL.fullmatch(text.strip())
    if found is None:
        raise TrainError(f"{path.name}:{line}: {text[:60]!r} has no label", fix="see corpus/README.md")
    if found[1] == "l":
        return Labelled(found[5], "leave")
    signs = re.findall(r"([>=+x])(\d+)", _WHO.sub("", found[4]))
    relations = tuple((_RELATION[sign], int(other)) for sign, other in signs)
    return Labelled(found[5], "keep" if found[2] == "k" else "standing", int(found[3]), relations)


# ---- choices ---------------------------------------------------------------------------------------------------------


def clause_rows(scene: LabelledScene) -> list[ChoiceRow]:
    """Clauses as the runtime cuts a message, each with the label of the one that it shares most letters with."""
    rows: list[ChoiceRow] = []
    for message in scene.messages:
        if message.role != "user":
            continue
        turn = turn_of(message.text, message.at)
        bounds, at = list[tuple[int, int, str]](), 0
        for one in message.clauses:
            bounds.append((at, at + len(one.text), one.label))
            at += len(one.text) + 1
        for span in clauses(turn.text):
            label = max(bounds, key=lambda one: min(one[1], span.end) - max(one[0], span.start))[2]
            pair = clause_pair(turn, span.start, span.end)
            rows.append(ChoiceRow.of(pair, CLAUSE.index(label), language=scene.language, source=scene.name))
    return rows


@dataclass(slots=True)
class _Memory:
    text: str
    said: set[int]


def relation_rows(scene: LabelledScene, embedder: Embedder, seed: int = 0) -> list[ChoiceRow]:
    order = random.Random(f"{scene.name}/{seed}")
    bank: list[_Memory] = []
    vectors: dict[str, Vector] = {}
    rows: list[ChoiceRow] = []
    for message in scene.messages:
        for one in message.clauses:
            if not one.number:
                continue
            turn = turn_of(one.text, message.at)
            for fact in phrase.facts_of(turn, 0, len(one.text))[:1] or [one.text]:
                labels = [_relation(one, memory) for memory in bank]
                for at in _looked_at(fact, bank, labels, embedder, vectors, order):
                    rows.append(relation_row(bank[at].text, fact, labels[at], scene.language, scene.name))
                _apply(bank, labels, fact, one.number)
    return rows


def relation_row(memory: str, fact: str, label: str, language: str, source: str) -> ChoiceRow:
    pair = relation_pair(memory, fact, decide(fact, [KnownMemory(1, memory)]))
    return ChoiceRow.of(pair, RELATION.index(label), language=language, source=source)


def _relation(one: Labelled, memory: _Memory) -> str:
    found = {relation for relation, number in one.relations if number in memory.said}
    return next((name for name in ("replaces", "ends", "same", "adds") if name in found), "unrelated")


def _looked_at(
    fact: str,
    bank: Sequence[_Memory],
    labels: Sequence[str],
    embedder: Embedder,
    vectors: dict[str, Vector],
    order: random.Random,
) -> list[int]:
    if not bank:
        return []
    rows = _vectors([fact, *(one.text for one in bank)], embedder, vectors)
    near = list(np.argsort(-(rows[1:] @ rows[0])))
    related = [at for at, label in enumerate(labels) if label != "unrelated"]
    others = [int(at) for at in near if labels[at] == "unrelated"]
    return [*related, *others[:_NEAR], *order.sample(others[_NEAR:], min(_FAR, len(others[_NEAR:])))]


def _vectors(texts: Sequence[str], embedder: Embedder, known: dict[str, Vector]) -> NDArray[np.float32]:
    new = [text for text in dict.fromkeys(texts) if text not in known]
    known.update(zip(new, embedder.embed(new), strict=True))
    return np.stack([known[text] for text in texts])


def _apply(bank: list[_Memory], labels: Sequence[str], fact: str, number: int) -> None:
    for memory, label in zip(bank, labels, strict=True):
        if label in ("replaces", "ends", "same"):
            memory.text = memory.text if label == "same" else phrase.rewrite(memory.text, fact)
            memory.said.add(number)
            return
    bank.append(_Memory(fact, {number}))


def turn_of(text: str, at: datetime) -> Turn:
    return Turn("t", "t", Bank("lab"), 0, "user", text, at)
