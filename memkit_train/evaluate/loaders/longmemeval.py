"""LongMemEval (`longmemeval_oracle.json`, `_s`, `_m`): one question per haystack of dated chat sessions.

Evidence is the turns marked `has_answer`; where none is marked, every turn of `answer_session_ids`. Questions whose id
ends in `_abs` cannot be answered. Read one by one: the M file has gigabytes.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from memkit_train.evaluate.conversations import Conversation, Dataset, GoldQuestion, SpokenTurn
from memkit_train.files.reading import a_list, need, objects, parse_date, read_name, records, refuse_line, role_of

_DATES = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M", "%Y/%m/%d")


def load(path: Path, limit: int | None = None) -> Dataset:
    repairs: Counter[str] = Counter()
    out: list[Conversation] = []
    for line, raw in records(path):
        if limit and len(out) == limit:
            break
        out.append(_conversation(path, line, raw, repairs))
    return Dataset("longmemeval", tuple(out), dict(repairs))


def _conversation(path: Path, line: int, raw: dict[str, Any], repairs: Counter[str]) -> Conversation:
    name = str(need(path, line, raw, "question_id", (str, int)))
    sessions = need(path, line, raw, "haystack_sessions", list)
    dates = need(path, line, raw, "haystack_dates", list)
    ids = a_list(path, line, raw, "haystack_session_ids") or [f"session_{index + 1}" for index in range(len(sessions))]
    if not len(sessions) == len(dates) == len(ids):
        refuse_line(path, line, f"{len(sessions)} sessions, {len(dates)} dates and {len(ids)} session ids")
    answering = set(map(str, a_list(path, line, raw, "answer_session_ids")))
    turns: list[SpokenTurn] = []
    marked: list[str] = []
    of_sessions: list[str] = []
    seen: Counter[str] = Counter()
    dated = sorted(
        ((parse_date(path, line, str(day), *_DATES), index) for index, day in enumerate(dates)), key=lambda pair: pair
    )
    for opened, index in dated:
        session_id = str(ids[index])
        seen[session_id] += 1
        if seen[session_id] > 1:  # S and M repeat some filler sessions
            repairs["repeated session id renamed"] += 1
            session_id = f"{session_id}#{seen[session_id]}"
        for position, message in enumerate(objects(path, line, sessions[index], f"session {session_id!r}")):
            content = str(message.get("content") or "").strip()
            if not content:
                repairs["empty turn skipped"] += 1
                continue
            role = role_of(path, line, message, repairs)
            ref = f"{session_id}:{position + 1}"
            speaker = "" if role == "user" else role.capitalize()
            turns.append(SpokenTurn(ref, speaker, content, opened + timedelta(seconds=position), session_id, role))
            if message.get("has_answer"):
                marked.append(ref)
            if str(ids[index]) in answering:
                of_sessions.append(ref)
    if not turns:
        refuse_line(path, line, f"no session of {name!r} has a turn")
    question = need(path, line, raw, "question", str).strip()
    abstain = name.endswith("_abs")
    answer = need(path, line, raw, "answer", (str, int, float))
    asked_at = parse_date(path, line, str(raw["question_date"]), *_DATES) if raw.get("question_date") else None
    category = read_name(raw, "question_type", "unknown", repairs) + ("_abs" if abstain else "")
    evidence = tuple(marked or of_sessions)
    asked = GoldQuestion(name, question, () if abstain else (str(answer),), category, evidence, at=asked_at)
    return Conversation(name, tuple(turns), (asked,))
