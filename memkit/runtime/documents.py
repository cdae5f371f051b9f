"""Documents: passages that are kept as they are, found by their words, and replaced when the document changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.errors import InvalidInput, InvalidText, LimitExceeded, MissingExtra
from memkit.inputs import scope_id, text_of
from memkit.models import Bank, MemoryRecord, OpDraft, Turn, to_json
from memkit.results import AddResult
from memkit.runtime.writes import episode, make_intake
from memkit.text.documents import READERS, Passage, read_pages, read_plain

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime

MOST_BYTES, MOST_PASSAGES = 32 * 1024 * 1024, 10_000
_LINE_END = re.compile(r"(?<=\S) ?\n(?=\S)")
"""Lines of a page end anywhere; a paragraph ends where a line is empty."""
_AS_IT_WAS = "the document is as it was"


def add_document(
    runtime: Runtime,
    source: str | Path,
    *,
    bank: Bank,
    name: str | None,
    at: datetime | str | None,
    metadata: Mapping[str, Any] | None,
    expires_at: datetime | str | None,
) -> AddResult:
    title = _name_of(source, name)
    passages = _read(source, title)
    if not passages:
        raise InvalidText(
            f"there is no text in {title}",
            why="it is empty, or a scan whose pages are pictures",
            fix="run text recognition over it first",
        )
    if len(passages) > MOST_PASSAGES:
        raise LimitExceeded(
            f"{title} has {len(passages)} passages; the limit is {MOST_PASSAGES}", fix="add it in several documents"
        )
    said = [{"role": "system", "name": title, "content": one.text} for one in passages]
    intake = make_intake(
        runtime, said, bank, None, at, metadata, None, False, expires_at, None, max_messages=MOST_PASSAGES
    )
    turns = tuple(_placed(turn, title, one) for turn, one in zip(intake.turns, passages, strict=True))
    intake = replace(intake, turns=turns)
    old = {_key(record, record.expires_at): record for record in _kept(runtime, bank, title)}
    drafts = {_key(turn, intake.expires_at): replace(episode(turn, intake), kind="chunk") for turn in turns}
    fresh = [draft for key, draft in drafts.items() if key not in old]
    gone = [OpDraft("delete", record.id, origin="api") for key, record in old.items() if key not in drafts]
    if not fresh and not gone:
        return AddResult(intake.intake_id, "applied", reason=_AS_IT_WAS, replayed=True)
    accepted = runtime.journal.accept(intake, drafts=[*gone, *fresh])
    runtime.note_applied(bank, accepted.ops)
    return AddResult(intake.intake_id, accepted.state.status, accepted.ops, accepted.state.intake.turns)


def _name_of(source: object, name: str | None) -> str:
    if not isinstance(source, str | Path):
        raise InvalidInput(f"a document is {type(source).__name__}", fix="pass a Path, or the text and name=")
    if name is not None:
        return scope_id(name, "name")
    if isinstance(source, Path):
        return scope_id(source.name, "name")
    if len(source) < 300 and "\n" not in source and Path(source).suffix.lower() in (*READERS, ".pdf"):
        raise InvalidInput(f"{source!r} looks like a path", fix="pass Path(...) to have the file read")
    raise InvalidInput(
        "a text has no name", why="a document is told apart, and replaced, by its name", fix='pass name="handbook.md"'
    )


def _read(source: str | Path, name: str) -> list[Passage]:
    """`name` says by its ending what a text is; a file is what its own ending says."""
    if isinstance(source, str):
        return READERS.get(Path(name).suffix.lower(), read_plain)(text_of(source, "the document", MOST_BYTES))
    try:
        size = source.stat().st_size
        raw = source.read_bytes() if size <= MOST_BYTES and source.is_file() else b""
    except OSError as error:
        raise InvalidInput(f"{source} cannot be read", why=str(error), fix="pass the path of a file") from error
    if size > MOST_BYTES:
        raise LimitExceeded(f"{source} has {size} bytes; the limit is {MOST_BYTES}", fix="add it in several documents")
    ending = source.suffix.lower()
    if ending == ".pdf":
        return read_pages(_pages(source))
    if ending and ending not in READERS:
        known = ", ".join([*READERS, ".pdf"])
        why = f"kinds are {known}"
        raise InvalidInput(f"{source.name} is of no known kind", why=why, fix="convert it, or pass its text")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidText(f"{source.name} is no UTF-8 text", why=str(error), fix="save it as UTF-8") from None
    return READERS.get(ending, read_plain)(text_of(text, source.name, MOST_BYTES))


def _pages(path: Path) -> list[str]:
    try:
        import pypdf
    except ImportError:
        raise MissingExtra(
            f"{path.name} is a PDF, and the package that reads them is not there",
            why="pypdf is not installed",
            fix='pip install "memkit[pdf]"',
        ) from None
    try:
        pages = [page.extract_text() for page in pypdf.PdfReader(path).pages]
    except Exception as error:  # the parser raises whatever a broken file makes of it
        why = f"{type(error).__name__}: {error}"
        raise InvalidText(f"{path.name} cannot be read as a PDF", why=why, fix="open it, and save it anew") from error
    return [_LINE_END.sub(" ", text.encode("utf-8", "replace").decode().replace("\0", "")) for text in pages]


def _placed(turn: Turn, name: str, passage: Passage) -> Turn:
    place = {"heading": passage.heading, "page": passage.page}
    known = {key: value for key, value in place.items() if value}
    return replace(turn, metadata={**turn.metadata, "document": name, **known})


def _kept(runtime: Runtime, bank: Bank, name: str) -> list[MemoryRecord]:
    """Passages were episodes at first."""
    live = runtime.journal.live(bank=bank, kinds=("chunk", "episode"))
    return [one for _, one in live if one.origin == "document" and one.metadata.get("document") == name]


def _key(one: MemoryRecord | Turn, expires_at: datetime | None) -> tuple[str, str, datetime | None]:
    return one.text, to_json(dict(one.metadata)), expires_at
