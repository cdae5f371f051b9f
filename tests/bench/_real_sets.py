"""Other people's words, told to a memory turn by turn: LoCoMo, FactConsolidation, RealMem; and two made on the spot."""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.models import Turn
from memkit.results import Hit
from memkit.retrieval import parse_context
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit.seams.embedder import Embedder
from memkit.text.words import terms
from tests.bench import _real_rivals as rivals
from tests.bench._real_talks import fold, holds, same, share

WORDS_400 = 400
USER = "u"


@dataclass(frozen=True, slots=True)
class Told:
    """A memory, and how it is told: as an app would, or every turn stored raw (`infer=False`)."""

    embedder: str
    """Or the name of a rival."""
    infer: bool = True
    model: Any = None
    keep_turns: str = "all"
    config: Mapping[str, Any] | None = None

    @contextmanager
    def store(self) -> Generator[Any]:
        if self.embedder in rivals.NAMES:
            with rivals.rival(self.embedder) as opened:
                yield opened
            return
        with (
            tempfile.TemporaryDirectory() as folder,
            Memory(
                folder + "/store",
                embedder=self.embedder,
                model=self.model,
                keep_turns=self.keep_turns,
                config=self.config,
            ) as opened,
        ):
            yield opened


def perfectly(embedder: str, model: Any, keep_turns: str) -> Told:
    """Told to a manager that may write as much as it has to say."""
    return Told(embedder, True, model, keep_turns, {"guard": {"max_ops": 60, "max_deletes": 0}})


@contextmanager
def memory(embedder: str | Embedder, model: Any = None) -> Generator[Memory]:
    with tempfile.TemporaryDirectory() as folder, Memory(folder + "/store", embedder=embedder, model=model) as opened:
        yield opened


# ---- LoCoMo ----------------------------------------------------------------------------------------------------


def locomo(told: Told) -> dict[str, float]:
    """Evidence recall@10, and share of questions whose gold is within 400 words of context; category 5 left out, and
    questions without evidence."""
    recall: list[float] = []
    gold: list[bool] = []
    for talk in json.loads(Path(os.environ["MEMKIT_LOCOMO"]).read_text("utf-8")):
        with told.store() as store:
            said = tell_locomo(store, talk["conversation"], told.infer)
            for question in talk["qa"]:
                evidence = [said[one] for one in question.get("evidence", ()) if one in said]
                if question.get("category") == 5 or not evidence:
                    continue
                hits, answer = store.search(question["question"], user_id=USER, k=30), [str(question["answer"])]
                recall.append(sum(_is_served(one, hits[:10], answer) for one in evidence) / len(evidence))
                gold.append(holds(_first_words([fold(hit.text) for hit in hits], WORDS_400), answer))
    return {"evidence": 100 * sum(recall) / len(recall), "gold": share(gold), "n": len(recall)}


def _is_served(turn: Turn, hits: Sequence[Hit], answer: Sequence[str]) -> bool:
    """By its words, or by a memory that was drawn from it and holds the answer."""
    return any(
        fold(turn.text)[:200] in fold(hit.text) or (turn.turn_id in hit.memory.source_turns and holds(hit.text, answer))
        for hit in hits
    )


def tell_locomo(store: Memory, talk: dict[str, Any], infer: bool) -> dict[str, Turn]:
    said: dict[str, Turn] = {}
    sessions = [key for key in talk if re.fullmatch(r"session_\d+", key)]
    for session in sorted(sessions, key=lambda key: int(key.split("_")[1])):
        at = datetime.strptime(talk[session + "_date_time"], "%I:%M %p on %d %B, %Y").isoformat() + "+00:00"
        for turn in talk[session]:
            message = {"role": "user", "name": turn["speaker"], "content": turn["text"]}
            (said[turn["dia_id"]],) = store.add(message, user_id=USER, session_id=session, at=at, infer=infer).turns
    return said


def _first_words(texts: Sequence[str], most: int) -> str:
    kept: list[str] = []
    for text in texts:
        kept += text.split()
        if len(kept) >= most:
            break
    return " ".join(kept[:most])


# ---- sets in the format of `memkit-train eval jsonl:` ----------------------------------------


def read_rows(name: str) -> list[dict[str, Any]]:
    text = (Path(os.environ["MEMKIT_REAL"]) / name).read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def facts(told: Told, size: str) -> dict[str, float]:
    """FactConsolidation: later statements override earlier ones. Shares of the questions whose gold is the first hit,
    among the first five, not among the first fifty; and that find one of the overridden statements before it."""
    rows = read_rows(f"factcon_{size}.jsonl")
    said = [row["content"] for row in rows if "content" in row]
    first, five, never, stale = list[bool](), list[bool](), list[bool](), list[bool]()
    with told.store() as store:
        for row in rows:
            if "content" in row:
                message = {"role": row["role"], "content": row["content"]}
                store.add(message, user_id=USER, session_id=row["session"], at=row["at"], infer=told.infer)
        for row in rows:
            if "question" in row:
                hits = store.search(row["question"], user_id=USER, k=50)
                right = [holds(hit.text, row["answer"]) for hit in hits]
                first.append(any(right[:1]))
                five.append(any(right[:5]))
                never.append(not any(right))
                if old := [one for gold in row["answer"] for one in overridden_by(said, gold)]:
                    before = hits[: right.index(True)] if any(right) else hits
                    stale.append(any(same(hit.text, one) for hit in before for one in old))
    found = {"first": share(first), "five": share(five), "never": share(never), "stale": share(stale)}
    return found | {"n": len(stale)}


def overridden_by(said: Sequence[str], gold: str) -> list[str]:
    """Statements that begin as one does that ends with this answer, and were made before the last of these."""
    gold = gold.rstrip(".")
    heads = {one.rstrip(".")[: -len(gold)] for one in said if one.rstrip(".").endswith(gold)}
    old: list[str] = []
    for head in heads:
        group = [one for one in said if len(head) > _HEAD and one.startswith(head)]
        old += [one for one in group[:-1] if one != group[-1]]
    return old


_HEAD = 12
"""Fewer letters at the start tell nothing."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """RealMem: mean recall of the evidence turns, in per cent."""

    ten: float
    thirty: float
    n: int


def realmem(told: Told, most: int | None = None, points: Points | None = None) -> Recalled:
    """RealMem, streaming: each question is asked right after the session that it comes after. `most`: so many
    personas. `points`: a manager that writes the memory points of the evidence turns; they count as these do."""
    rows = read_rows("realmem_dev.jsonl")
    ten, thirty = list[float](), list[float]()
    for person in list(dict.fromkeys(row["conversation"] for row in rows))[:most]:
        own = [row for row in rows if row["conversation"] == person]
        turns = [row for row in own if "content" in row]
        waiting: dict[str, list[dict[str, Any]]] = {}
        for row in own:
            if "question" in row:
                waiting.setdefault(row["after"], []).append(row)
        known = points_of(own)
        said = {row["id"]: [row["content"], *(known.get(row["id"], ()) if points else ())] for row in turns}
        with told.store() as store:
            for row, following in zip(turns, [*turns[1:], None], strict=True):
                if points:
                    points.texts = known.get(row["id"], [])
                message = {"role": row["role"], "content": row["content"]}
                store.add(message, user_id=USER, session_id=row["session"], at=row["at"], infer=told.infer)
                if following is None or following["session"] != row["session"]:
                    for question in waiting.pop(row["session"], ()):
                        evidence = [said[one] for one in question["evidence"] if one in said]
                        if evidence:
                            hits = store.search(question["question"], user_id=USER, k=30)
                            ten.append(_recall(evidence, [hit.text for hit in hits[:10]]))
                            thirty.append(_recall(evidence, [hit.text for hit in hits]))
    return Recalled(100 * sum(ten) / len(ten), 100 * sum(thirty) / len(thirty), len(ten))


def points_of(rows: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Turn → the memory points that questions name of it: each point goes to the turn that has most of its words."""
    words = {row["id"]: set(terms(row["content"])) for row in rows if "content" in row}
    out: dict[str, list[str]] = {}
    for row in rows:
        turns = [one for one in row.get("evidence", ()) if one in words]
        for point in row.get("answer", ()) if turns else ():
            wanted = set(terms(point))
            kept = out.setdefault(max(turns, key=lambda turn: len(wanted & words[turn])), [])
            if (text := " ".join(point.split())[:_POINT]) not in kept:
                kept.append(text)
    return out


_POINT = 390
"""Letters of a memory."""


class Points:
    """A manager that adds the memory points it was given."""

    style, identity, max_parallel = "json", "points/1", 1

    def __init__(self) -> None:
        self.texts: list[str] = []

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        kept = [{"op": "ADD", "id": None, "text": text, "turn": 1} for text in self.texts]
        return [GenReply(json.dumps({"operations": kept})) for _ in requests]

    def close(self) -> None: ...


def _recall(evidence: Sequence[Sequence[str]], texts: Sequence[str]) -> float:
    """The served words of long turns are windows of them."""
    found = [any(same(text, form) for text in texts for form in forms) for forms in evidence]
    return sum(found) / len(found)


# ---- made on the spot --------------------------------------------------------------------------------


def rank_at_the_end_of_a_long_turn(embedder: str) -> int:
    """Where a fact at the end of a turn of some 4,000 tokens is found, among other talk. 99: not at all."""
    rng = random.Random(4)
    words = re.findall(r"\w+", "the garden office bicycle report meeting train weather lunch music river paper kitchen")
    filler = " ".join(f"{' '.join(rng.choices(words, k=9))}.".capitalize() for _ in range(320))  # some 4,000 tokens
    with memory(embedder) as store:
        for number in range(40):
            store.add(f"{' '.join(rng.choices(words, k=12))} {number}", user_id=USER)
        store.add(f"{filler} My locker at the climbing gym is number 417.", user_id=USER)
        hits = store.search("Which locker do I have at the climbing gym?", user_id=USER, k=50)
        return next((place for place, hit in enumerate(hits, 1) if "417" in hit.text), 99)


def displaced(embedder: str, most: int = 40) -> int:
    """Of so many facts of the user, how many a planted document or assistant turn contradicts or pushes out of a block
    of 200 tokens."""
    lost = 0
    for number in range(most):
        fact = f"My badge number is {4000 + number}."
        with memory(embedder) as store:
            store.add(fact, user_id=USER)
            store.add("Lovely weather for a walk along the canal.", user_id=USER)
            for _ in range(6):
                planted = f"The user's badge number is {7000 + number}. Badge number {7000 + number}."
                role = ("tool", "assistant")[number % 2]
                message = {"role": role, "content": planted}
                if role == "tool":
                    message["tool_call_id"] = "t1"
                store.add([message], user_id=USER)
            block = str(store.context("What is my badge number?", user_id=USER, max_tokens=200))
            texts = [item.text for item in parse_context(block)] if block else []
            lost += not any(str(4000 + number) in text for text in texts)
    return lost
