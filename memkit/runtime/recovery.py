"""`memkit recover`: a new store of what can still be read of a damaged one, which stays as it is.

First what SQLite and its log still hold, record by record, as an import would take it; then what LanceDB knows beyond
that. Records that refer to what is lost are left out and counted; a turn that lost what was decided of it is decided
again."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memkit.errors import InvalidInput, MemkitError, NotAStore
from memkit.journal import Journal, disk
from memkit.journal.incoming import Incoming
from memkit.journal.portable import dump
from memkit.journal.reader import JournalReader
from memkit.journal.salvage import salvage
from memkit.journal.sqlite import SqliteEngine
from memkit.journal.untorn import Untorn
from memkit.models import JSON, DecisionRecord, OpDraft, to_json
from memkit.runtime.copies import open_journal
from memkit.runtime.portability import refuse_inside
from memkit.seams.clock import SystemClock
from memkit.store import SEALED, Projection, Trajectories


@dataclass(frozen=True)
class Recovered:
    records: Counter[str] = field(default_factory=Counter[str])
    """Kind of record → how many were taken over; `lancedb`: memories that only LanceDB still had."""
    left_out: Counter[str] = field(default_factory=Counter[str])
    """Kind of record → how many were found and could not be."""


def recover(source: Path, path: Path) -> Recovered:
    """A store at `path`, which must not be there yet. No other process may have the damaged one open."""
    if not (source / disk.JOURNAL).is_file():
        raise NotAStore(f"there is no {disk.JOURNAL} in {source}", fix="name the folder of the damaged store")
    refuse_inside(source, path)
    if path.exists():
        raise InvalidInput(f"{path} is there already", why="recovery replaces nothing", fix="name a new folder")
    work = path.parent / f".memkit-{secrets.token_hex(8)}.part"
    try:
        work.mkdir(parents=True)
        done = _recover(source, work)
        (work / "store").rename(path)
        disk.sync_folder(path.parent)
    except OSError as error:
        raise disk.from_os_error(error, path) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return done


def _recover(source: Path, work: Path) -> Recovered:
    done = Recovered()
    salvage(source / disk.JOURNAL, work / "salvaged.sqlite")
    for name in (SEALED, "lance"):
        if (source / name).is_dir():
            shutil.copytree(source / name, work / name)
    with contextlib.closing(open_journal(work / "store")) as journal:
        reader = _Salvaged(SqliteEngine(work / "salvaged.sqlite", read_only=True))
        reader.sealed = lambda numbers: _sealed(work / SEALED, numbers)
        journal.load(_records(reader, done))
        _take_from_lance(journal, work / "lance", done)
        for user_id in reader.unfinished_erasures():
            journal.erase(user_id)
        if found := journal.check():
            raise InvalidInput(
                f"what could be read does not make a store: {found[0].where}: {found[0].detail}",
                why="the damage goes too far",
                fix="restore a backup",
            )
    return done


class _Salvaged(JournalReader):
    def iter_decisions(
        self, *, user_id: str | None = None, after: str | None = None, gaps: bool = True
    ) -> Iterator[DecisionRecord]:
        """Without those whose sealed records are lost."""
        found = super().iter_decisions(user_id=user_id, after=after, gaps=True)
        return (one for one in found if one.payload)


def _sealed(folder: Path, numbers: Any) -> Any:
    if not folder.is_dir():
        return {}
    try:
        return Trajectories(folder, lock=lambda _: contextlib.nullcontext()).fetch(numbers)
    except MemkitError:
        return {}


def _records(reader: JournalReader, done: Recovered) -> Iterator[JSON]:
    incoming, untorn = Incoming(), Untorn()
    for raw in dump(reader, None):
        kind = raw["record"]
        try:
            record = json.loads(to_json(raw))
            incoming.check(record)
        except (MemkitError, ValueError):
            done.left_out[kind] += 1
            continue
        if untorn.keeps(record):
            done.records[kind] += 1
            yield record
    done.left_out.update(untorn.dropped)


def _take_from_lance(journal: Journal, folder: Path, done: Recovered) -> None:
    """Memories as LanceDB has them, of what the journal lost: newer states, and ends."""
    last = journal.last_seq()
    projection = Projection.of_any_embedder(folder, lock=lambda _: contextlib.nullcontext())
    if projection is None or projection.watermark() <= last:
        return
    for user_id in sorted(projection.users()):
        there = sorted(projection.slice(user_id).records, key=lambda one: one[1].seq)
        kept = {record.id for _, record in there}
        before = journal.live(user_id=user_id)
        live = {record.id for _, record in before}
        ended = [(bank, record) for bank, record in before if record.id not in kept]
        for bank, record in [*(one for one in there if one[1].seq > last), *ended]:
            restored = record if record.id in kept else None
            action = "delete" if restored is None else "update" if record.id in live else "add"
            at, name = record.at or SystemClock().now(), f"d_{secrets.token_hex(12)}"
            draft = OpDraft(action, record.id, source_turns=record.source_turns, at=at, restore=restored)
            try:
                journal.apply(bank, [draft], decision_id=name, at=at)
                done.records["lancedb"] += 1
            except MemkitError:
                done.left_out["lancedb"] += 1
