"""Reading other people's files: every complaint names the file, the line and the next step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from memkit.errors import InvalidInput

_CHUNK = 1 << 20


def malformed(path: Path, line: int, what: str, fix: str = "") -> NoReturn:
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
        malformed(path, number, f"not JSON ({error.msg} at column {error.colno})")
    if not isinstance(value, dict):
        malformed(path, number, f"expected an object, found {type(value).__name__}")
    return value


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
                    malformed(path, line + error.lineno - 1, f"not JSON ({error.msg}); the file may be cut off")
            else:
                if not isinstance(value, dict):
                    malformed(path, line, f"expected an object, found {type(value).__name__}")
                yield line, value
                line += buffer.count("\n", 0, end)
                buffer = buffer[end:]
                continue
        more = file.read(max(_CHUNK, len(buffer)))
        if not more:
            if last or not buffer:
                malformed(path, line, "the array is not closed; the file may be cut off")
            last = True
        buffer += more


def need(path: Path, line: int, record: Mapping[str, Any], key: str, kind: type | tuple[type, ...]) -> Any:
    if key not in record:
        malformed(path, line, f"no {key!r} (there are: {', '.join(sorted(map(str, record)))})")
    if not isinstance(record[key], kind):
        malformed(path, line, f"{key!r} is a {type(record[key]).__name__}")
    return record[key]


def parse_date(path: Path, line: int, text: str, *formats: str) -> datetime:
    for form in formats:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return malformed(path, line, f"the date {text!r} is in none of the known forms ({', '.join(formats)})")


def iso(path: Path, line: int, text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        malformed(path, line, f"the time {text!r} is not ISO 8601")
    return at if at.tzinfo else at.replace(tzinfo=UTC)
