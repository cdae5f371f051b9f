"""Lists, retries, the doctor: what keeps a store in order."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from memkit.backbones import name_of
from memkit.embedders.recorded import Recorded
from memkit.errors import EmbedderError, EmbedderMismatch, InvalidInput, MemkitError, StoreDamaged
from memkit.inputs import scope_id
from memkit.journal.disk import BEHIND
from memkit.models import JSON, MEMORIES, SPACE, Bank, MemoryRecord
from memkit.ops import BankState
from memkit.results import Page, ParkedTurn, Problem, ToldDecision
from memkit.runtime import pruning
from memkit.runtime.earlier_words import keep_earlier_turns
from memkit.runtime.projector import RECOVER
from memkit.runtime.read_request import ReadRequest
from memkit.store import SEALED
from memkit.store.files import measure

if TYPE_CHECKING:
    from memkit.journal import DecisionRecord
    from memkit.journal.records import UserInfo
    from memkit.runtime.runtime import Runtime

_SCAN = 1_000
_USERS, _ROWS = 200, 20_000
"""That are compared with LanceDB at once, at most."""
_COUNTED, _WEEK = 10_000, 7
"""Newest events of each kind that rates are drawn from, and days."""
_BY_THE_APP = "open the store with its embedder and call flush(): LanceDB is built anew from the journal"


def list_page(runtime: Runtime, ask: ReadRequest, limit: int, cursor: str | None) -> Page:
    """Live memories by the sequence number that last wrote them. The cursor is that number, so a page stays right
    while others write."""
    after, journal = _decode(cursor), runtime.journal
    bank = None if ask.agent_id is None else Bank(ask.user_id, ask.agent_id)
    found: list[MemoryRecord] = []
    now = runtime.clock.now()
    while len(found) <= limit:
        newest = 0 if bank else journal.settle_user(ask.user_id)
        rows = journal.live(
            bank=bank, user_id=None if bank else ask.user_id, kinds=ask.kinds or MEMORIES, after_seq=after, limit=_SCAN
        )
        if bank is None and rows and rows[-1][1].seq > newest:
            continue  # written meanwhile; what is numbered before it may come after it
        for _, record in rows:
            if record.expires_at is not None and record.expires_at <= now:
                continue
            if ask.session_id is not None and record.session_id != ask.session_id:
                continue
            if ask.condition is None or ask.condition.matches(record):
                found.append(record)
        if len(rows) < _SCAN:
            break
        after = rows[-1][1].seq
    page = found[:limit]
    return Page(page, cursor=_encode(page[-1].seq) if len(found) > limit else None)


def list_parked(runtime: Runtime, user_id: str | None) -> list[ParkedTurn]:
    return [
        ParkedTurn(
            state.intake.intake_id,
            state.intake.bank.user_id,
            state.intake.bank.agent_id or None,
            state.reason,
            state.detail,
            state.attempts,
            state.intake.turns,
        )
        for state in runtime.journal.list_parked(user_id)
    ]


def retry(runtime: Runtime, trace_ids: Iterable[str] | None, user_id: str | None, wait: bool) -> int:
    if isinstance(trace_ids, str):
        trace_ids = [trace_ids]
    if trace_ids is not None and not isinstance(trace_ids, Iterable):
        raise InvalidInput("trace_ids must be ids", fix="pass a list of trace ids, or leave it out for all")
    named = None if trace_ids is None else [scope_id(one, "trace_id") for one in trace_ids]
    states = runtime.journal.list_parked(None if user_id is None else scope_id(user_id, "user_id"))
    chosen = [state.intake.intake_id for state in states if named is None or state.intake.intake_id in named]
    count = runtime.journal.retry(chosen) if chosen else 0
    if count and wait:
        runtime.drain()
    elif count:
        runtime.workers.wake()
    return count


def set_trainable(runtime: Runtime, bank: Bank, agent_id: str | None, value: bool) -> None:
    if not isinstance(value, bool):
        raise InvalidInput("trainable() takes True or False", fix="memory.trainable(False, user_id=...)")
    runtime.journal.set_trainable(bank.user_id if agent_id is None else bank, value)


def stats(runtime: Runtime) -> dict[str, Any]:
    journal = runtime.journal
    users = [info for info in journal.users() if info.user_id != SPACE]
    return {
        "users": sum(not info.user_id.startswith(SPACE) for info in users),
        "memories": sum(info.memories for info in users),
        "turns": sum(info.turns for info in users),
        "pending": journal.pending_count(),
        "parked": len(journal.list_parked()),
        "path": journal.name,
        "store_id": journal.store_id,
        "embedder": runtime.embedder.identity,
        "last_seq": journal.last_seq(),
        "waiting_for_lancedb": runtime.projector.waiting,
        "lance": _tell_lance(runtime),
        "projection_error": runtime.projector.failing,
        "bytes": measure(runtime.path)[1],
        "log_bytes": pruning.log_bytes(runtime),
        "pruned": pruning.last(runtime),
        "per_day": _rates(runtime),
        "model": name_of(runtime.model),
    }


def _tell_lance(runtime: Runtime) -> str:
    """Where LanceDB is; on object storage, the table that is to be read now."""
    catalog = runtime.journal.catalog
    if catalog is None:
        return str(runtime.path / "lance")
    found = catalog.read()
    return f"{catalog.place}/{found.table}.lance@{found.version}" if found else catalog.place


def _rates(runtime: Runtime) -> dict[str, float]:
    """said, changed, decided, asked, rated: how often a day, over the newest days of the store, a week at most."""
    counted = runtime.journal.count_days(_COUNTED)
    today = runtime.clock.now().timestamp() // 86_400
    days = min(_WEEK, int(today - min((min(found) for found in counted.values() if found), default=today)) + 1)
    return {
        what: round(sum(count for day, count in found.items() if day > today - days) / days, 2)
        for what, found in counted.items()
    }


def doctor(runtime: Runtime, *, repair: bool, reembed: bool, keep_turns: bool = False) -> list[Problem]:
    found = [
        Problem(f"journal_{p.kind}", f"{p.where}: {p.detail}", "restore the journal from a backup")
        for p in runtime.journal.check()
    ]
    if reembed:
        runtime.projector.rebuild(adopt=True)
        return [*found, Problem("reembedded", "every memory was embedded anew", "", repaired=True)]
    if keep_turns:
        count = keep_earlier_turns(runtime)
        found.append(Problem("turns_kept", f"{count} turns of earlier versions are searchable now", "", repaired=True))
    found += _unfinished(runtime) + _sealed(runtime, repair)
    found += _adapters(runtime)
    if (note := runtime.path / BEHIND).exists():
        what = f"the journal ends before what was acknowledged: {note.read_text('utf-8', 'replace').strip()}"
        return [*found, Problem("journal_behind", what, f"{RECOVER}, and delete {note}")]
    damaged: list[Problem] = []
    if runtime.projector.has_lance or runtime.projector.failing:
        try:
            if (behind := runtime.projector.behind()) is not None:
                return [*found, Problem("journal_behind", behind.what, behind.fix)]
            if runtime.has_vectors:
                runtime.projector.project()
            fix = f"memkit doctor {runtime.journal.name} --repair"
            damaged = [Problem(f"lancedb_{p.what}", p.detail, fix) for p in runtime.projection.check()]
            damaged += _compare(runtime)
        except EmbedderMismatch as error:
            if not isinstance(runtime.embedder, Recorded):
                raise
            what = "LanceDB has vectors of another embedder than the journal names"
            return [*found, Problem("lancedb_other_embedder", f"{what}: {error.what}", _BY_THE_APP)]
        except EmbedderError as error:
            return [*found, Problem("projection_failing", error.what, error.fix)]
        except MemkitError as error:
            if runtime.journal.catalog is not None and not isinstance(error, StoreDamaged):
                return [*found, Problem("lancedb_unreachable", str(error), error.fix)]
            damaged = [Problem("lancedb_unreadable", error.what, f"memkit doctor {runtime.journal.name} --repair")]
        except Exception as error:  # an embedder, or LanceDB itself
            what = f"LanceDB cannot be brought up to the journal: {type(error).__name__}"
            return [*found, Problem("projection_failing", what, "see the cause: memory.flush() raises it")]
    if damaged and repair:
        runtime.projector.rebuild()
        damaged = [Problem(p.code, p.what, p.fix, repaired=True, details=p.details) for p in damaged]
    return found + damaged


def _sealed(runtime: Runtime, repair: bool) -> list[Problem]:
    """Decisions whose records left the journal: each row what was written, and each one there. Repair keeps what can
    be read of a table that cannot."""
    folder = runtime.path / SEALED
    fix = f"restore the folder {folder} from a backup; nothing else holds these records"
    wrong = runtime.trajectories.check() if folder.is_dir() else []
    moved = runtime.trajectories.list_quarantined() if folder.is_dir() else []
    if repaired := repair and any(problem.what == "unreadable" for problem in wrong):
        with runtime.journal.applier_lock():
            runtime.trajectories.salvage()
        moved = runtime.trajectories.list_quarantined()
    found = [
        Problem(f"sealed_{p.what}", f"{p.memory_id}: {p.detail}" if p.memory_id else p.detail, fix, repaired)
        for p in wrong
    ]
    if moved:
        what = f"{', '.join(path.name for path in moved)} could not be read and was moved aside, erased users and all"
        found.append(Problem("sealed_quarantine", what, f"{fix}; then delete what was moved aside"))
    try:
        for _ in runtime.journal.iter_decisions():
            pass
    except StoreDamaged as error:
        found.append(Problem("sealed_missing", error.what, fix))
    return found


def _unfinished(runtime: Runtime) -> list[Problem]:
    """Erasures that were begun, and that the disk did not let finish."""
    users = {*runtime.journal.unfinished_erasures(), *(user for user, _ in runtime.journal.unfinished_parts())}
    what = "of a user was begun and is not finished; it is tried again whenever the store is opened"
    return [Problem("erasure_unfinished", f"an erasure {what}", "erase the user again") for _ in users]


def _adapters(runtime: Runtime) -> list[Problem]:
    """The registry, and each adapter that an alias names: all of its bytes."""
    if not runtime.has_adapters:
        return []
    from memkit.adapters import inspect

    found: list[Problem] = []
    try:
        known = runtime.adapters.registry.list_known()
    except MemkitError as error:
        return [Problem("adapters_unreadable", error.what, error.fix)]
    for one in known:
        try:
            if one.aliases:
                inspect(one.path, expected=one.digest)
        except MemkitError as error:
            fix = f"roll {', '.join(one.aliases)} back, and publish the adapter again"
            found.append(Problem("adapter_damaged", f"{one.digest}: {error.why or error.what}", fix))
    return found


def _compare(runtime: Runtime) -> list[Problem]:
    """The journal's live memories against LanceDB's, user by user, as of what LanceDB covers."""
    found: list[Problem] = []
    for part in _parts(runtime.journal.users()):
        there = runtime.projection.slice_users(part)
        seen: dict[str, dict[str, MemoryRecord]] = {user_id: {} for user_id in part}
        for bank, record in there.records:
            seen[bank.user_id][record.id] = record
        for user_id in part:
            found += _differing(runtime, _live_at(runtime, user_id, there.watermark), seen[user_id])
    return found


def _parts(users: Iterable[UserInfo]) -> Iterator[list[str]]:
    """Users whose memories are read at once: a read of LanceDB costs the same for one and for many."""
    part, rows = list[str](), 0
    for info in users:
        own = info.memories + info.turns
        if part and (len(part) == _USERS or rows + own > _ROWS):
            yield part
            part, rows = [], 0
        part.append(info.user_id)
        rows += own
    if part:
        yield part


def _differing(runtime: Runtime, live: Iterable[MemoryRecord], seen: Mapping[str, MemoryRecord]) -> list[Problem]:
    truth = {record.id: record for record in live}
    wrong = [key for key in truth.keys() | seen.keys() if truth.get(key) != seen.get(key)]
    if not wrong:
        return []
    what = f"{len(wrong)} memories of one user differ between journal and LanceDB"
    fix = f"memkit doctor {runtime.journal.name} --repair"
    return [Problem("projection_differs", what, fix, details={"ids": sorted(wrong)[:20]})]


def _live_at(runtime: Runtime, user_id: str, seq: int) -> Iterable[MemoryRecord]:
    if seq >= runtime.journal.last_seq():
        return [record for _, record in runtime.journal.live(user_id=user_id)]
    state = BankState().fold(runtime.journal.ops(user_id=user_id, upto=seq))
    return list(state)


def _encode(seq: int) -> str:
    return base64.urlsafe_b64encode(json.dumps({"after": seq}).encode()).decode()


def _decode(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        after = json.loads(base64.urlsafe_b64decode(cursor.encode()))["after"]
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        raise InvalidInput("this cursor is unreadable", fix="pass page.cursor as it came, or None") from None
    if not isinstance(after, int) or not 0 <= after < 2**63:
        raise InvalidInput("this cursor is unreadable", fix="pass page.cursor as it came, or None")
    return after


def decisions(runtime: Runtime, user_id: str, trace_id: str | None, last: int) -> list[ToldDecision]:
    """The newest decisions, oldest first, told whole: turns, the texts that were shown, the ops that came of them."""
    journal = runtime.journal
    answered = None
    if trace_id is not None and not trace_id.startswith("i_"):
        answered = runtime.traces.get(user_id, trace_id).payload.get("decision_id")
        if answered is None:
            return []  # a search or context decides nothing
        trace_id = None
    found = journal.decisions(user_id=user_id, intake_id=trace_id, decision_id=answered, limit=last, newest_first=True)
    return cast("list[ToldDecision]", [tell_decision(runtime, record) for record in reversed(found)])


def tell_decision(runtime: Runtime, record: DecisionRecord) -> JSON:
    """The logged record, with the words that its ids stand for."""
    journal, payload = runtime.journal, record.payload
    turns = journal.turns(turn_ids=payload["source_turns"]) if payload["source_turns"] else []
    of_turn = journal.ops(intake_id=record.intake_id) if record.intake_id else []
    shown: list[JSON] = []
    for one in payload["candidates"]:
        images = [op.after for op in journal.ops(user_id=record.bank.user_id, memory_id=one["id"]) if op.after]
        text = next((image.text for image in images if image.revision == one["revision"]), "(erased)")
        shown.append(one | {"text": text})
    return payload | {
        "user_id": record.bank.user_id,
        "agent_id": record.bank.agent_id or None,
        "trace_id": record.intake_id,
        "created_at": record.created_at.isoformat(),
        "turns": [
            {"turn_id": t.turn_id, "role": t.role, "speaker": t.speaker, "text": t.text, "at": t.at} for t in turns
        ],
        "candidates": shown,
        "ops": [op.to_dict() for op in of_turn if op.decision_id == record.decision_id],
    }
