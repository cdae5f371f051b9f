"""Multi-Session Chat, as JSON lines: `previous_dialogs` and the current `dialog` between two speakers.

The release has no questions; files made from it (`self_instruct: {"B": question, "A": answer}`, or a `qa` list of
`{question, answer}`) do, and are asked after the last session. The format dates sessions only by the time that passed
until the next one (`time_num`, `time_unit`): the last is put at a fixed day, and each earlier one so long before the
one after it.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memkit_train.evaluate.conversations import Conversation, Dataset, GoldQuestion, SpokenTurn
from memkit_train.files.reading import a_list, need, objects, read_name, records, refuse_line

_LAST = datetime(2022, 6, 1, 12, 0, tzinfo=UTC)
_UNITS = {
    "second": 1,
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
}
_LONGEST = 1_000 * _UNITS["year"]


def load(path: Path, limit: int | None = None) -> Dataset:
    repairs: Counter[str] = Counter()
    out: list[Conversation] = []
    for line, raw in records(path):
        if limit and len(out) == limit:
            break
        out.append(_conversation(path, line, raw, len(out), repairs))
    return Dataset("msc", tuple(out), dict(repairs))


def _conversation(path: Path, line: int, raw: dict[str, Any], index: int, repairs: Counter[str]) -> Conversation:
    earlier = objects(path, line, a_list(path, line, raw, "previous_dialogs"), "'previous_dialogs'")
    dialogs = [({"dialog": need(path, line, raw, "dialog", list)}, timedelta())]
    for item in reversed(earlier):
        dialogs.append((item, dialogs[-1][1] + _passed(item, dialogs[-1][1], repairs)))
    dialogs.reverse()
    turns: list[SpokenTurn] = []
    for number, (item, back) in enumerate(dialogs, start=1):
        for position, message in enumerate(objects(path, line, need(path, line, item, "dialog", list), "'dialog'")):
            text = read_name(message, "text", "", repairs).strip()
            if not text:
                repairs["empty turn skipped"] += 1
                continue
            speaker = str(message.get("id") or f"Speaker {position % 2 + 1}")
            at = _LAST - back + timedelta(seconds=position)
            turns.append(SpokenTurn(f"s{number}:{position + 1}", speaker, text, at, f"s{number}"))
    if not turns:
        refuse_line(path, line, "no dialog has a turn")
    about = raw.get("metadata")
    name = str((about.get("initial_data_id") if isinstance(about, dict) else None) or f"msc-{index}")
    return Conversation(f"{name}/{index}", tuple(turns), _questions(path, line, raw, index))


def _passed(item: dict[str, Any], after: timedelta, repairs: Counter[str]) -> timedelta:
    """From this session to the next one, which lies `after` before the last."""
    unit = str(item.get("time_unit", "")).rstrip("s").lower()
    count = item.get("time_num")
    left = _LONGEST - after.total_seconds()
    if unit not in _UNITS or not isinstance(count, int | float) or not 0 <= count * _UNITS[unit] <= left:
        repairs["session without a time put a day back"] += 1
        return timedelta(days=1)
    return timedelta(seconds=count * _UNITS[unit])


def _questions(path: Path, line: int, raw: dict[str, Any], index: int) -> tuple[GoldQuestion, ...]:
    made = raw.get("self_instruct")
    pairs = [(made["B"], made["A"])] if isinstance(made, dict) and {"A", "B"} <= made.keys() else []
    for item in objects(path, line, a_list(path, line, raw, "qa"), "'qa'"):
        pairs.append((need(path, line, item, "question", str), need(path, line, item, "answer", (str, int, float))))
    return tuple(
        GoldQuestion(f"msc-{index}/{n}", str(question).strip(), (str(answer).strip(),), "msc")
        for n, (question, answer) in enumerate(pairs)
    )
