"""One's own conversations as JSON lines, in two kinds of lines:

    {"conversation": "c1", "session": "s1", "role": "user", "name": "Ana", "content": "I moved to Oslo.", "at": "2024-05-01T09:00:00+00:00", "id": "t1"}
    {"conversation": "c1", "question": "Where does Ana live?", "answer": "Oslo", "evidence": ["t1"], "category": "city"}

`at` counts from the previous turn when it is missing; `answer` may be a list of acceptable forms, or null where the
right answer is that nobody said so; a question with `after`, a session, is asked right after it, by streaming alone.
"""  # noqa: E501 - an example line of a file

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memkit_train.evaluate.conversations import Conversation, Dataset, GoldQuestion, SpokenTurn
from memkit_train.files.reading import a_list, iso, need, read_name, records, refuse_line, role_of

_FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def load(path: Path, limit: int | None = None) -> Dataset:
    repairs: Counter[str] = Counter()
    turns: dict[str, dict[str, SpokenTurn]] = {}
    questions: dict[str, list[tuple[int, GoldQuestion]]] = {}
    for line, raw in records(path):
        name = read_name(raw, "conversation", "conversation", repairs)
        if name not in turns and limit and len(turns) == limit:
            continue
        mine = turns.setdefault(name, {})
        if "question" in raw:
            asked = _question(path, line, raw, name, len(questions.setdefault(name, [])), repairs)
            questions[name].append((line, asked))
        else:
            turn = _turn(path, line, raw, mine, repairs)
            mine[turn.ref] = turn
    conversations: list[Conversation] = []
    for name, said in turns.items():
        if not said:
            refuse_line(path, questions[name][0][0], f"there is a question about {name!r}, and no turn of it")
        sessions = {turn.session_id for turn in said.values()}
        for line, asked in questions.get(name, []):
            missing = [ref for ref in asked.evidence if ref not in said]
            if missing:
                refuse_line(
                    path, line, f"evidence names turns that are not in conversation {name!r}: {', '.join(missing)}"
                )
            if asked.after_session is not None and asked.after_session not in sessions:
                refuse_line(path, line, f"'after' names a session that is not in {name!r}: {asked.after_session}")
        asked_here = tuple(asked for _, asked in questions.get(name, []))
        conversations.append(Conversation(name, tuple(said.values()), asked_here))
    return Dataset("jsonl", tuple(conversations), dict(repairs))


def _turn(
    path: Path, line: int, raw: dict[str, Any], before: dict[str, SpokenTurn], repairs: Counter[str]
) -> SpokenTurn:
    content = need(path, line, raw, "content", str).strip()
    if not content:
        refuse_line(path, line, "'content' is empty")
    last = next(reversed(before.values()), None)
    if "at" in raw:
        at = iso(path, line, raw, "at")
    else:
        repairs["turn without a time put after the one before"] += 1
        at = last.at + timedelta(minutes=1) if last else _FIRST
    session = read_name(raw, "session", last.session_id if last else "s1", repairs)
    ref = read_name(raw, "id", f"{session}:{len(before) + 1}", repairs)
    if ref in before:
        refuse_line(path, line, f"the id {ref!r} is that of an earlier turn", "give each turn an id of its own")
    return SpokenTurn(ref, read_name(raw, "name", "", repairs), content, at, session, role_of(path, line, raw, repairs))


def _question(path: Path, line: int, raw: dict[str, Any], name: str, index: int, repairs: Counter[str]) -> GoldQuestion:
    return GoldQuestion(
        question_id=read_name(raw, "id", f"{name}/{index}", repairs),
        text=need(path, line, raw, "question", str).strip(),
        gold=_gold(path, line, raw),
        category=read_name(raw, "category", "question", repairs),
        evidence=tuple(dict.fromkeys(map(str, a_list(path, line, raw, "evidence")))),
        at=iso(path, line, raw, "at") if raw.get("at") is not None else None,
        as_of=iso(path, line, raw, "as_of") if raw.get("as_of") is not None else None,
        after_session=str(raw["after"]) if raw.get("after") is not None else None,
        stale=tuple(map(str, a_list(path, line, raw, "stale"))),
    )


def _gold(path: Path, line: int, raw: dict[str, Any]) -> tuple[str, ...]:
    """Null alone says that nobody knows. A key that is missing, or an empty form, is a slip, and would turn a question
    into one that is right to refuse."""
    answer = need(path, line, raw, "answer", (str, int, float, list, type(None)))
    if answer is None:
        return ()
    forms = answer if isinstance(answer, list) else [answer]
    if not forms or not all(isinstance(form, str | int | float) and str(form).strip() for form in forms):
        refuse_line(path, line, "'answer' is empty or holds what is no text", "write null where the answer is unknown")
    return tuple(str(form).strip() for form in forms)
