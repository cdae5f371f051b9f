"""Reading other people's files: every complaint names the file, the line and the next step."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from memkit.errors import InvalidInput
from memkit.inputs import ORIGINS

_CHUNK = 1 << 20
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of half a character: with its other half usual, alone no text."""


def refuse_line(path: Path, line: int, what: str, fix: str = "") -> NoReturn:
    raise InvalidInput(
        f"{path}, line {line}: {what}",
        why="the file is not in the format that was named",
        fix=fix or "look at that line, or name another format",
        path=str(path),
        line=line,
    )


def records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of a JSON array of objects or of JSON lines, whichever the file is, one at a time: the largest
    published files do not fit into memory."""
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        head = file.read(_CHUNK)
        file.seek(0)
        if head.lstrip()[:1] == "[":
            yield from _array(path, file)
            return
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, _object(path, number, line)


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        refuse_line(path, number, f"not JSON ({error.msg} at column {error.colno})")
    except (ValueError, RecursionError) as error:
        refuse_line(path, number, f"not readable as JSON ({error})")
    return _whole(path, number, value, line)


def _whole(path: Path, line: int, value: Any, text: str) -> dict[str, Any]:
    """`value`, read from `text`, provided that it is an object in whole characters: half ones cannot be written on."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) & 0xFF
        refuse_line(
            path,
            line + text.count("\n", 0, error.start),
            f"not UTF-8 (there is a byte 0x{byte:02x})",
            "convert the file, e.g. with `iconv -f latin1 -t utf-8`",
        )
    if _HALF.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            refuse_line(path, line, f"half a character ({error.object[error.start]!r}) is no text")
    return an_object(path, line, value, "the record")


def _array(path: Path, file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    decoder, buffer, line = json.JSONDecoder(), "", 1
    opened, last = False, False
    while True:
        blank = len(buffer) - len(buffer.lstrip(" \t\r\n,[" if not opened else " \t\r\n,"))
        line += buffer.count("\n", 0, blank)
        buffer, opened = buffer[blank:], opened or blank > 0
        if buffer.startswith("]"):
            return
        if buffer:
            try:
                value, end = decoder.raw_decode(buffer)
            except json.JSONDecodeError as error:
                if last:
                    refuse_line(path, line + error.lineno - 1, f"not JSON ({error.msg}); the file may be cut off")
            except (ValueError, RecursionError) as error:
                refuse_line(path, line, f"not readable as JSON ({error})")
            else:
                yield line, _whole(path, line, value, buffer[:end])
                line += buffer.count("\n", 0, end)
                buffer = buffer[end:]
                continue
        more = file.read(max(_CHUNK, len(buffer)))
        if not more:
            if last or not buffer:
                refuse_line(path, line, "the array is not closed; the file may be cut off")
            last = True
        buffer += more


def need(path: Path, line: int, record: Mapping[str, Any], key: str, kind: type | tuple[type, ...]) -> Any:
    if key not in record:
        refuse_line(path, line, f"no {key!r} (there are: {', '.join(sorted(map(str, record)))})")
    if not isinstance(record[key], kind):
        refuse_line(path, line, f"{key!r} is a {type(record[key]).__name__}")
    return record[key]


def read_name(record: Mapping[str, Any], key: str, default: str, repairs: Counter[str]) -> str:
    """A name or an id as text. Null is read as if it were missing, and counted."""
    if key in record and record[key] is None:
        repairs[f"null {key!r} read as missing"] += 1
    return default if record.get(key) is None else str(record[key])


def an_object(path: Path, line: int, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse_line(path, line, f"{what} is a {type(value).__name__}, expected an object")
    return value


def role_of(path: Path, line: int, record: Mapping[str, Any], repairs: Counter[str]) -> str:
    """One that the runtime knows, in any case."""
    role = read_name(record, "role", "user", repairs).lower()
    if role not in ORIGINS:
        refuse_line(path, line, f"there is no role {role!r}", f"use one of {', '.join(sorted(ORIGINS))}")
    return role


def a_list(path: Path, line: int, record: Mapping[str, Any], key: str) -> list[Any]:
    """Empty where the key is missing or null."""
    return [] if record.get(key) is None else need(path, line, record, key, list)


def objects(path: Path, line: int, values: Any, what: str) -> list[dict[str, Any]]:
    """A list of objects: turns, sessions, questions."""
    if not isinstance(values, list):
        refuse_line(path, line, f"{what} is a {type(values).__name__}, expected a list")
    return [an_object(path, line, one, f"entry {n} of {what}") for n, one in enumerate(values, start=1)]


def parse_date(path: Path, line: int, text: str, *formats: str) -> datetime:
    for form in formats:
        try:
            at = datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        return _within(path, line, at.replace(tzinfo=UTC))
    return refuse_line(path, line, f"the date {text!r} is in none of the known forms ({', '.join(formats)})")


def iso(path: Path, line: int, record: Mapping[str, Any], key: str) -> datetime:
    text = need(path, line, record, key, str)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        refuse_line(path, line, f"the time {text!r} is not ISO 8601")
    return _within(path, line, at if at.tzinfo else at.replace(tzinfo=UTC))


def _within(path: Path, line: int, at: datetime) -> datetime:
    """Far enough from the ends of the calendar to be put into another zone, or a second later."""
    if not 1 < at.year < 9999:
        refuse_line(path, line, f"the year {at.year} is out of range")
    return at
