"""HaluMem, streaming: what a memory serves of something that has changed, asked right after the session that changed
it. Old and new are told apart by the words that only one of them has; a text says one of them where it has half of
these. Measured only: nothing is fitted to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit.text.words import terms
from tests.bench._real_sets import USER, Told, perfectly

PEOPLE = ("halumem_user0.jsonl", "halumem_user3.jsonl")
_SAYS, _HOLDS, _OLD = 0.5, 0.6, 2
"""Share of its own words by which a text says one of two states, or holds a piece of evidence; the fewest own words."""


@dataclass(slots=True)
class Seen:
    """Per change and per question of HaluMem."""

    above: list[bool] = field(default_factory=list)
    """The new state stands above the old."""
    stale: list[bool] = field(default_factory=list)
    """The old one comes first."""
    evidence: list[bool] = field(default_factory=list)
    """All evidence is among the first ten."""

    def look(self, store: Memory, session: dict[str, Any]) -> None:
        for new, old in _changes(session):
            found = [_says(text, new, old) for text in _ten(store, _topic(new, old))]
            if any(found):
                self.above.append(next(one for one in found if one) == "new")
                self.stale.append(found[0] == "old")
        for question in session.get("questions", ()):
            points = [one["memory_content"] for one in question["evidence"]]
            if points:
                texts = _ten(store, question["question"])
                self.evidence.append(all(any(_holds(text, point) for text in texts) for point in points))


def halumem(told: Told) -> Seen:
    """Told turn by turn, without a model."""
    seen = Seen()
    for person in PEOPLE:
        with told.store() as store:
            for session in sessions_of(person):
                _tell(store, session, told.infer)
                seen.look(store, session)
    return seen


def perfect(embedder: str, keep_turns: str) -> Seen:
    """Told session by session, with a manager that writes the data's own memory points."""
    seen = Seen()
    for person in PEOPLE:
        manager = _Perfect()
        with perfectly(embedder, manager, keep_turns).store() as store:
            for session in sessions_of(person):
                manager.points = [one for one in session["memory_points"] if one["memory_source"] != "interference"]
                said = [{"role": turn["role"], "content": turn["content"]} for turn in session["dialogue"]]
                store.add(said, user_id=USER, session_id=session["start_time"], at=at_of(session))
                seen.look(store, session)
    return seen


class _Perfect:
    """Writes the points that it was given in its next call, over the memory that each of them replaces, where that is
    shown."""

    style, identity, max_parallel = "json", "perfect/1", 1

    def __init__(self) -> None:
        self.points: list[dict[str, Any]] = []

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [GenReply(self._reply(request)) for request in requests]

    def _reply(self, request: GenRequest) -> str:
        view = request.prompt.view
        shown = {one.record.text: one.handle for one in view.shown}
        said = [(number, set(terms(turn.text))) for number, turn in enumerate(view.turns, 1) if turn.role == "user"]
        operations: list[dict[str, Any]] = []
        for point in self.points:
            handles = [shown.pop(old) for old in point["original_memories"] if old in shown]
            wanted, text = set(terms(point["memory_content"])), point["memory_content"][:390]
            turn = max(said, key=lambda one: _share(one[1], wanted))[0]
            op, handle = ("UPDATE", handles[0]) if handles else ("ADD", None)
            operations.append({"op": op, "id": handle, "text": text, "turn": turn})
        self.points = []
        return json.dumps({"operations": operations})

    def close(self) -> None: ...


def sessions_of(name: str) -> list[dict[str, Any]]:
    (line,) = (Path(os.environ["MEMKIT_REAL"]) / name).read_text("utf-8").splitlines()
    return json.loads(line)["sessions"]


def _tell(store: Memory, session: dict[str, Any], infer: bool) -> None:
    for turn in session["dialogue"]:
        message = {"role": turn["role"], "content": turn["content"]}
        store.add(message, user_id=USER, session_id=session["start_time"], at=at_of(session), infer=infer)


def at_of(session: dict[str, Any]) -> datetime:
    return datetime.strptime(session["start_time"], "%b %d, %Y, %H:%M:%S").replace(tzinfo=UTC)


def _changes(session: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(new, old), where each has words of its own."""
    for point in session["memory_points"]:
        if point["is_update"] == "True" and point["memory_source"] != "interference":
            new, old = point["memory_content"], " ".join(point["original_memories"])
            if len(_own(new, old)) >= _OLD and len(_own(old, new)) >= _OLD:
                yield new, old


def _topic(new: str, old: str) -> str:
    both = set(terms(old))
    return " ".join(word for word in new.split() if both.intersection(terms(word)))


def _says(text: str, new: str, old: str) -> str:
    said = set(terms(text))
    if _share(said, _own(new, old)) >= _SAYS:
        return "new"
    return "old" if _share(said, _own(old, new)) >= _SAYS else ""


def _holds(text: str, point: str) -> bool:
    return _share(set(terms(text)), set(terms(point))) >= _HOLDS


def _own(one: str, other: str) -> set[str]:
    return set(terms(one)) - set(terms(other))


def _share(said: set[str], wanted: set[str]) -> float:
    return len(said & wanted) / max(len(wanted), 1)


def _ten(store: Memory, question: str) -> Sequence[str]:
    return [hit.text for hit in store.search(question, user_id=USER, k=10)]
