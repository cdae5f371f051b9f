"""Other people's words, told to a memory turn by turn: LoCoMo, FactConsolidation, RealMem; and two made on the spot."""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.models import Turn
from memkit.results import Hit
from memkit.retrieval import parse_context
from tests.bench._real_talks import fold, holds, same, share

KINDS = {"raw": False, "default": True}
"""System → `infer`: every turn stored raw, or told as an app would."""
WORDS_400 = 400
USER = "u"


@contextmanager
def memory(embedder: str, model: Any = None) -> Iterator[Memory]:
    with tempfile.TemporaryDirectory() as folder, Memory(folder + "/store", embedder=embedder, model=model) as opened:
        yield opened


# ---- LoCoMo ----------------------------------------------------------------------------------------------------


def locomo(embedder: str, model: Any = None, kinds: Mapping[str, bool] = KINDS) -> dict[str, dict[str, float]]:
    """System → evidence recall@10, and share of questions whose gold is within 400 words of context; category 5 left
    out, and questions without evidence."""
    data = json.loads(Path(os.environ["MEMKIT_LOCOMO"]).read_text("utf-8"))
    out: dict[str, dict[str, float]] = {}
    for name, infer in kinds.items():
        recall: list[float] = []
        gold: list[bool] = []
        for talk in data:
            with memory(embedder, model) as store:
                said = _tell_locomo(store, talk["conversation"], infer)
                for question in talk["qa"]:
                    evidence = [said[one] for one in question.get("evidence", ()) if one in said]
                    if question.get("category") == 5 or not evidence:
                        continue
                    hits, answer = store.search(question["question"], user_id=USER, k=30), [str(question["answer"])]
                    recall.append(sum(_is_served(one, hits[:10], answer) for one in evidence) / len(evidence))
                    gold.append(holds(_first_words([fold(hit.text) for hit in hits], WORDS_400), answer))
        out[name] = {"evidence": sum(recall) / len(recall), "gold": share(gold), "n": len(recall)}
    return out


def _is_served(turn: Turn, hits: Sequence[Hit], answer: Sequence[str]) -> bool:
    """By its words, or by a memory that was drawn from it and holds the answer."""
    return any(
        fold(turn.text)[:200] in fold(hit.text) or (turn.turn_id in hit.memory.source_turns and holds(hit.text, answer))
        for hit in hits
    )


def _tell_locomo(store: Memory, talk: dict[str, Any], infer: bool) -> dict[str, Turn]:
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


def facts(embedder: str, size: str) -> dict[str, dict[str, float]]:
    """FactConsolidation: later statements override earlier ones. System → share of questions whose gold is the first
    hit, among the first five, and findable at all (among the first fifty)."""
    rows = read_rows(f"factcon_{size}.jsonl")
    out: dict[str, dict[str, float]] = {}
    for name, infer in KINDS.items():
        first, five, never = list[bool](), list[bool](), list[bool]()
        with memory(embedder) as store:
            for row in rows:
                if "content" in row:
                    message = {"role": row["role"], "content": row["content"]}
                    store.add(message, user_id=USER, session_id=row["session"], at=row["at"], infer=infer)
            for row in rows:
                if "question" in row:
                    hits = store.search(row["question"], user_id=USER, k=50)
                    right = [holds(hit.text, row["answer"]) for hit in hits]
                    first.append(any(right[:1]))
                    five.append(any(right[:5]))
                    never.append(not any(right))
        out[name] = {"first": share(first), "five": share(five), "never": share(never)}
    return out


def realmem(
    embedder: str, most: int | None = None, model: Any = None, kinds: Mapping[str, bool] = KINDS
) -> dict[str, dict[str, float]]:
    """RealMem, streaming: each question is asked right after the session that it comes after. System → recall of the
    evidence turns among the first 10 and 30 hits. `most`: so many personas."""
    rows = read_rows("realmem_dev.jsonl")
    people = list(dict.fromkeys(row["conversation"] for row in rows))[:most]
    out: dict[str, dict[str, float]] = {}
    for name, infer in kinds.items():
        ten, thirty = list[float](), list[float]()
        for person in people:
            own = [row for row in rows if row["conversation"] == person]
            said = {row["id"]: row["content"] for row in own if "content" in row}
            waiting: dict[str, list[dict[str, Any]]] = {}
            for row in own:
                if "question" in row:
                    waiting.setdefault(row["after"], []).append(row)
            with memory(embedder, model) as store:
                turns = [row for row in own if "content" in row]
                for row, following in zip(turns, [*turns[1:], None], strict=True):
                    message = {"role": row["role"], "content": row["content"]}
                    store.add(message, user_id=USER, session_id=row["session"], at=row["at"], infer=infer)
                    if following is None or following["session"] != row["session"]:
                        for question in waiting.pop(row["session"], ()):
                            evidence = [said[one] for one in question["evidence"] if one in said]
                            if evidence:
                                hits = store.search(question["question"], user_id=USER, k=30)
                                ten.append(_recall(evidence, [hit.text for hit in hits[:10]]))
                                thirty.append(_recall(evidence, [hit.text for hit in hits]))
        out[name] = {"ten": 100 * sum(ten) / len(ten), "thirty": 100 * sum(thirty) / len(thirty), "n": len(ten)}
    return out


def _recall(evidence: Sequence[str], texts: Sequence[str]) -> float:
    """The served words of long turns are windows of them."""
    return sum(any(same(text, said) for text in texts) for said in evidence) / len(evidence)


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
