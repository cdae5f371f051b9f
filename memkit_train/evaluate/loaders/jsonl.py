"""One's own conversations as JSON lines, in two kinds of lines:

    {"conversation": "c1", "session": "s1", "role": "user", "name": "Ana", "content": "I moved to Oslo.", "at": "2024-05-01T09:00:00+00:00", "id": "t1"}
    {"conversation": "c1", "question": "Where does Ana live?", "answer": "Oslo", "evidence": ["t1"], "category": "city"}

`at` counts from the previous turn when it is missing; `answer` may be a list of acceptable forms, or null where the
right answer is that nobody said so; `after` names a session for streaming.
"""  # noqa: E501 - an example line of a file

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memkit_train.evaluate.data import Asked, Conversation, Dataset, Said
from memkit_train.evaluate.loaders.reading import a_list, iso, malformed, need, records

_FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def load(path: Path, limit: int | None = None) -> Dataset:
    repairs: Counter[str] = Counter()
    turns: dict[str, list[Said]] = {}
    questions: dict[str, list[tuple[int, Asked]]] = {}
    for line, raw in records(path):
        name = str(raw.get("conversation", "conversation"))
        if name not in turns and limit and len(turns) == limit:
            continue
        mine = turns.setdefault(name, [])
        if "question" in raw:
            asked = _question(path, line, raw, name, len(questions.setdefault(name, [])))
            questions[name].append((line, asked))
        else:
            mine.append(_turn(path, line, raw, mine, repairs))
    conversations: list[Conversation] = []
    for name, said in turns.items():
        if not said:
            malformed(path, questions[name][0][0], f"there is a question about {name!r}, and no turn of it")
        known = {turn.ref for turn in said}
        for line, asked in questions.get(name, []):
            missing = [ref for ref in asked.evidence if ref not in known]
            if missing:
                malformed(
                    path, line, f"evidence names turns that are not in conversation {name!r}: {', '.join(missing)}"
                )
        conversations.append(Conversation(name, tuple(said), tuple(asked for _, asked in questions.get(name, []))))
    return Dataset("jsonl", tuple(conversations), dict(repairs))


def _turn(path: Path, line: int, raw: dict[str, Any], before: list[Said], repairs: Counter[str]) -> Said:
    content = need(path, line, raw, "content", str).strip()
    if not content:
        malformed(path, line, "'content' is empty")
    if "at" in raw:
        at = iso(path, line, raw, "at")
    else:
        repairs["turn without a time put after the one before"] += 1
        at = before[-1].at + timedelta(minutes=1) if before else _FIRST
    session = str(raw.get("session", before[-1].session_id if before else "s1"))
    ref = str(raw.get("id", f"{session}:{len(before) + 1}"))
    return Said(ref, str(raw.get("name", "")), content, at, session, str(raw.get("role", "user")))


def _question(path: Path, line: int, raw: dict[str, Any], name: str, index: int) -> Asked:
    answer = raw.get("answer")
    gold = () if answer is None else tuple(map(str, answer)) if isinstance(answer, list) else (str(answer),)
    return Asked(
        question_id=str(raw.get("id", f"{name}/{index}")),
        text=need(path, line, raw, "question", str).strip(),
        gold=gold,
        category=str(raw.get("category", "question")),
        evidence=tuple(map(str, a_list(path, line, raw, "evidence"))),
        at=iso(path, line, raw, "at") if raw.get("at") is not None else None,
        as_of=iso(path, line, raw, "as_of") if raw.get("as_of") is not None else None,
        after_session=str(raw["after"]) if raw.get("after") is not None else None,
        stale=tuple(map(str, a_list(path, line, raw, "stale"))),
    )
