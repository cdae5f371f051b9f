"""Shadow mode: a candidate answers the very prompts that the serving adapter answered; both are kept side by side.

Nothing of a candidate's reply is applied. It runs on a thread of its own with a bounded queue, and steps aside (drops a
turn, and counts it) when the model is busy. What is compared is meaning, not wording: operations with their targets
and normalised texts.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memkit.adapters._sqlite import typed_errors
from memkit.adapters.router import Lease
from memkit.errors import MemkitError, ModelError
from memkit.models import JSON, normalise
from memkit.roles.base import AnswerDraft, Prompt
from memkit.seams.backbone import GenRequest, Replies

log = logging.getLogger("memkit.adapters")
SHADOW = "shadow.sqlite"
_QUEUE = 64
_KEEP = 10_000
_MEND = "delete it: it holds comparisons only, and is begun anew"


@dataclass(frozen=True, slots=True)
class ShadowPair:
    """One decision by both adapters, on the same prompt."""

    at: str
    user_id: str
    alias: str
    role: str
    decision_id: str
    live: str | None
    candidate: str
    live_ops: tuple[str, ...]
    candidate_ops: tuple[str, ...]
    error: str = ""
    """Why the candidate's reply could not be used."""

    @property
    def agrees(self) -> bool:
        return not self.error and sorted(map(normalise, self.live_ops)) == sorted(map(normalise, self.candidate_ops))

    @property
    def same_actions(self) -> bool:
        return not self.error and _actions(self.live_ops) == _actions(self.candidate_ops)


@dataclass(frozen=True, slots=True)
class ShadowReport:
    candidate: str
    decisions: int
    agreement: float
    same_actions: float
    invalid: float
    by_role: Mapping[str, float]
    """Role → agreement."""
    disagreements: tuple[ShadowPair, ...]
    """The newest, candidate beside live."""

    def to_json(self) -> JSON:
        examples = [
            {
                "at": d.at,
                "role": d.role,
                "decision_id": d.decision_id,
                "live": list(d.live_ops),
                "candidate": list(d.candidate_ops),
                "error": d.error,
            }
            for d in self.disagreements
        ]
        return {
            "candidate": self.candidate,
            "decisions": self.decisions,
            "agreement": self.agreement,
            "same_actions": self.same_actions,
            "invalid": self.invalid,
            "by_role": dict(self.by_role),
            "disagreements": examples,
        }


def report(compared: Iterable[ShadowPair], *, examples: int = 10) -> list[ShadowReport]:
    """One report per candidate. `compared` comes oldest first."""
    by_candidate: dict[str, list[ShadowPair]] = {}
    for one in compared:
        by_candidate.setdefault(one.candidate, []).append(one)
    out: list[ShadowReport] = []
    for candidate, ones in sorted(by_candidate.items()):
        roles = sorted({one.role for one in ones})
        out.append(
            ShadowReport(
                candidate,
                len(ones),
                _share(one.agrees for one in ones),
                _share(one.same_actions for one in ones),
                _share(bool(one.error) for one in ones),
                {role: _share(one.agrees for one in ones if one.role == role) for role in roles},
                tuple([one for one in reversed(ones) if not one.agrees][:examples]),
            )
        )
    return out


def meaning(reply: str, prompt: Prompt) -> tuple[str, ...]:
    """What a reply decides, one line per operation, fact or answer, with memories by id. Raises `BadReply`."""
    from memkit.roles import Answerer, Extractor, Fused, Manager

    if prompt.role == "extractor":
        return tuple(fact.text for fact in Extractor(style=prompt.style).parse(reply, prompt).value)
    if prompt.role == "answerer":
        answer: AnswerDraft = Answerer(style=prompt.style).parse(reply, prompt).value
        return ("UNKNOWN",) if answer.abstained else (f"ANSWER {answer.text}", f"USE {' '.join(answer.memory_ids)}")
    role = Manager(style=prompt.style) if prompt.role == "manager" else Fused(style=prompt.style)
    drafts = role.parse(reply, prompt).value
    return tuple(" ".join(filter(None, (d.action.upper(), d.memory_id, d.text))) for d in drafts)


class ShadowLog:
    """The last comparisons, in a SQLite file beside the registry. It holds users' words, so `forget` wipes them."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()

    def write(self, one: ShadowPair) -> None:
        row = (
            one.at,
            one.user_id,
            one.alias,
            one.role,
            one.decision_id,
            one.live,
            one.candidate,
            "\x1f".join(one.live_ops),
            "\x1f".join(one.candidate_ops),
            one.error,
        )
        with self._lock, typed_errors(self._path, _MEND), closing(self._open()) as db, db:
            db.execute("INSERT INTO compared VALUES (NULL,?,?,?,?,?,?,?,?,?,?)", row)
            db.execute("DELETE FROM compared WHERE n <= (SELECT MAX(n) FROM compared) - ?", (_KEEP,))

    def read(self, *, alias: str | None = None) -> list[ShadowPair]:
        """Oldest first."""
        if not self._path.exists():
            return []
        with self._lock, typed_errors(self._path, _MEND), closing(self._open()) as db:
            rows = db.execute("SELECT * FROM compared WHERE ?1 IS NULL OR alias = ?1 ORDER BY n", (alias,)).fetchall()
        return [
            ShadowPair(*row[1:8], live_ops=_split(row[8]), candidate_ops=_split(row[9]), error=row[10]) for row in rows
        ]

    def forget(self, user_id: str) -> int:
        """Destroy what it knows of a user; no byte of it stays readable."""
        if not self._path.exists():
            return 0
        with self._lock, typed_errors(self._path, _MEND), closing(self._open()) as db:
            with db:
                gone = db.execute("DELETE FROM compared WHERE user_id = ?", (user_id,)).rowcount
            db.execute("VACUUM")
        return gone

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=10.0)
        db.execute("PRAGMA secure_delete=ON")
        db.execute(
            "CREATE TABLE IF NOT EXISTS compared (n INTEGER PRIMARY KEY, at TEXT, user_id TEXT, alias TEXT, role TEXT,"
            " decision_id TEXT, live TEXT, candidate TEXT, live_ops TEXT, candidate_ops TEXT, error TEXT)"
        )
        return db


@dataclass(frozen=True, slots=True)
class _Task:
    lease: Lease
    request: GenRequest
    live_reply: str
    live: str | None
    user_id: str


class ShadowRunner:
    """Asks candidates, one decision at a time, off the path of the turn."""

    def __init__(
        self,
        generate: Callable[[Sequence[GenRequest]], Replies],
        write: Callable[[ShadowPair], None],
        now: Callable[[], str],
    ) -> None:
        self._generate, self._write, self._now = generate, write, now
        self._queue: queue.Queue[_Task | None] = queue.Queue(_QUEUE)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.dropped = 0

    def offer(self, lease: Lease, request: GenRequest, live_reply: str, live: str | None, user_id: str) -> None:
        """Takes over the lease."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memkit-shadow", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait(_Task(lease, request, live_reply, live, user_id))
        except queue.Full:
            self.dropped += 1
            lease.close()

    def drain(self) -> None:
        """Wait until everything offered so far was compared."""
        self._queue.join()

    def close(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(timeout=10.0)

    def _run(self) -> None:
        while True:
            task = self._queue.get()
            try:
                if task is None:
                    return
                with task.lease:
                    self._write(self._compare(task))
            except Exception as error:  # a shadow must never disturb what it shadows
                log.warning("a shadow decision failed: %s", type(error).__name__)
            finally:
                self._queue.task_done()

    def _compare(self, task: _Task) -> ShadowPair:
        prompt, candidate = task.request.prompt, task.lease.name or ""
        ops: tuple[str, ...] = ()
        error = ""
        try:
            (reply,) = self._generate([replace(task.request, adapter=candidate, max_calls=1)])
            if isinstance(reply, ModelError):
                raise reply
            if reply.adapter != candidate:
                error = "another adapter answered"
            else:
                ops = meaning(reply.text, prompt)
        except MemkitError as failed:
            error = type(failed).__name__
        try:
            live = meaning(task.live_reply, prompt)
        except MemkitError:
            live = ()
        return ShadowPair(
            self._now(),
            task.user_id,
            task.lease.alias,
            prompt.role,
            task.request.key,
            task.live,
            candidate,
            live,
            ops,
            error,
        )


def _actions(ops: Sequence[str]) -> list[str]:
    return sorted(op.split(" ", 1)[0] for op in ops)


def _share(flags: Iterable[Any]) -> float:
    listed = list(flags)
    return sum(map(bool, listed)) / len(listed) if listed else 0.0


def _split(joined: str) -> tuple[str, ...]:
    return tuple(joined.split("\x1f")) if joined else ()
