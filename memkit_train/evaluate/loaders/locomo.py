"""LoCoMo (`locomo10.json`): ten long talks with questions by category and evidence by turn id.

Its dirt, all of it repaired or counted: evidence like `D8:6; D9:17`, `D:11:26`, `D30:05` or `D`; ids that do not exist;
questions without evidence; numeric answers; trailing blanks; category 5 keeps its tempting answer elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from memkit_train.evaluate.conversations import Conversation, Dataset, GoldQuestion, SpokenTurn
from memkit_train.files.reading import a_list, need, objects, parse_date, read_name, records, refuse_line
from memkit_train.metrics.scores import ADVERSARIAL, CATEGORIES

_DATE = "%I:%M %p on %d %B, %Y"
_SESSION = re.compile(r"session_(0|[1-9][0-9]{0,8})")
_EVIDENCE = re.compile(r"D:?(\d{1,9}):(\d{1,9})")


def load(path: Path, limit: int | None = None) -> Dataset:
    repairs: Counter[str] = Counter()
    out: list[Conversation] = []
    for line, raw in records(path):
        if limit and len(out) == limit:
            break
        out.append(_conversation(path, line, raw, len(out), repairs))
    return Dataset("locomo", tuple(out), dict(repairs))


def _conversation(path: Path, line: int, raw: dict[str, Any], index: int, repairs: Counter[str]) -> Conversation:
    talk = need(path, line, raw, "conversation", dict)
    name = read_name(raw, "sample_id", f"conv-{index}", repairs)
    turns = tuple(turn for number in _numbers(talk) for turn in _session(path, line, talk, number, repairs))
    if not turns:
        refuse_line(path, line, "the conversation has no session_N with turns")
    known = {turn.ref for turn in turns}
    questions = tuple(
        _question(path, line, item, f"{name}/{position}", known, repairs)
        for position, item in enumerate(objects(path, line, need(path, line, raw, "qa", list), "'qa'"))
    )
    return Conversation(name, turns, questions, {"speakers": [talk.get("speaker_a"), talk.get("speaker_b")]})


def _numbers(talk: dict[str, Any]) -> list[int]:
    return sorted(int(key.split("_")[1]) for key, value in talk.items() if _SESSION.fullmatch(key) and value)


def _session(path: Path, line: int, talk: dict[str, Any], number: int, repairs: Counter[str]) -> list[SpokenTurn]:
    opened = parse_date(
        path, line, need(path, line, talk, f"session_{number}_date_time", str).upper(), _DATE.upper(), _DATE
    )
    out: list[SpokenTurn] = []
    for position, raw in enumerate(objects(path, line, talk[f"session_{number}"], f"'session_{number}'")):
        text = read_name(raw, "text", "", repairs).strip()
        if raw.get("blip_caption"):
            text = f"{text} [shares a photo: {raw['blip_caption']}]".strip()
        if not text:
            repairs["empty turn skipped"] += 1
            continue
        ref = read_name(raw, "dia_id", f"D{number}:{position + 1}", repairs)
        speaker = read_name(raw, "speaker", "", repairs)
        out.append(SpokenTurn(ref, speaker, text, _minute(opened, position), f"session_{number}"))
    return out


def _minute(opened: datetime, position: int) -> datetime:
    """Turns carry no time of their own; seconds keep their order without leaving the session's day."""
    return opened + timedelta(seconds=position)


def _question(
    path: Path, line: int, raw: dict[str, Any], name: str, known: set[str], repairs: Counter[str]
) -> GoldQuestion:
    category = need(path, line, raw, "category", int)
    if category not in CATEGORIES:
        refuse_line(path, line, f"question {name} has category {category}; there are 1 to 5")
    text = need(path, line, raw, "question", str)
    repairs["blank around a question"] += text != text.strip()
    gold: tuple[str, ...] = ()
    if category != ADVERSARIAL:
        answer = need(path, line, raw, "answer", (str, int, float))
        repairs["answer that is a number"] += not isinstance(answer, str)
        gold = (str(answer).strip(),)
    evidence = _evidence(a_list(path, line, raw, "evidence"), known, repairs)
    stale = (str(raw["adversarial_answer"]),) if raw.get("adversarial_answer") else ()
    return GoldQuestion(
        name, text.strip(), gold, f"{category} {CATEGORIES[category]}", evidence, stale=stale, number=category
    )


def _evidence(raw: list[Any], known: set[str], repairs: Counter[str]) -> tuple[str, ...]:
    out: list[str] = []
    for item in map(str, raw):
        found = [f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(item)]
        if not found:
            repairs["evidence without a turn id dropped"] += 1
        elif found != [item.strip()]:
            repairs["evidence id repaired"] += 1
        for ref in found:
            if ref in known:
                out.append(ref)
            else:
                repairs["evidence of a turn that does not exist dropped"] += 1
    return tuple(dict.fromkeys(out))
