"""What happened to one bank, as a script that can be entered anywhere and continued with another policy.

    script, = scripts_of(episode)                 what production logged (memkit_train.log)
    script = script_of(user_id, turns)            a conversation that nobody decided yet (worlds, data sets)

A scene is one `add` call that a model decides. Everything else that changed the bank (`infer=False` turns, updates and
deletions by the app, undo, expiry) happens before the next scene, as it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memkit.engine.record import edition_of
from memkit.models import Bank, Op, Turn
from memkit.ops import EDITION

if TYPE_CHECKING:
    from memkit_train.log.records import Decision, Trajectory, TurnLog

CONTEXT_TURNS = 4
"""The runtime's default (memkit.config)."""


@dataclass(frozen=True, slots=True)
class Scene:
    intake_id: str
    turns: tuple[Turn, ...]
    context_turns: tuple[Turn, ...]
    now: datetime
    """When it was decided."""
    decision_ids: tuple[str, ...] = ()
    """The logged ones, in order: a policy that decides the same writes memories of the same ids."""
    given: tuple[Op, ...] = ()
    """Ops of others between the scene before and this one."""
    ops: tuple[Op, ...] = ()
    """What was decided then."""
    expires_at: datetime | None = None
    """When what is added in it ends."""
    kept: frozenset[str] = frozenset()
    """Turns before it whose words were kept: what was ended of them is not shown."""
    edition: int = EDITION
    """The rules by which it was decided, and is decided again."""

    @property
    def session_id(self) -> str:
        return self.turns[0].session_id


@dataclass(frozen=True, slots=True)
class Script:
    bank: Bank
    scenes: tuple[Scene, ...]
    given: tuple[Op, ...] = ()
    """Ops of others after the last scene."""

    def __len__(self) -> int:
        return len(self.scenes)

    @property
    def ops(self) -> list[Op]:
        """The log, in order."""
        return [op for scene in self.scenes for op in (*scene.given, *scene.ops)] + list(self.given)

    def scene_after(self, seq: int) -> int:
        """Index of the first scene that was decided when the bank stood past `seq`; `len` where none was."""
        for index, scene in enumerate(self.scenes):
            first = (*scene.given, *scene.ops)
            if first and first[-1].seq > seq:
                return index
        return len(self.scenes)


def script_of(
    user_id: str, turns: Sequence[Turn], *, turns_per_add: int = 1, context_turns: int = CONTEXT_TURNS
) -> Script:
    """Turns in order, `turns_per_add` of one session at a time."""
    scenes: list[Scene] = []
    start = 0
    while start < len(turns):
        session = turns[start].session_id
        group = [turn for turn in turns[start : start + turns_per_add] if turn.session_id == session]
        earlier = [turn for turn in turns[:start] if turn.session_id == session]
        context = tuple(earlier[-context_turns:] if context_turns else ())
        scenes.append(Scene(f"{user_id}/{len(scenes)}", tuple(group), context, group[-1].at))
        start += len(group)
    return Script(Bank(user_id), tuple(scenes))


def scripts_of(episode: Trajectory) -> list[Script]:
    """One script per bank of the user. Parked turns are scenes without ops: another policy may do better."""
    banks = dict.fromkeys(log.intake.bank for log in episode.intakes)
    return [_script(episode, bank) for bank in banks]


def _script(episode: Trajectory, bank: Bank) -> Script:
    context_turns = episode.context_turns
    logs = [log for log in episode.intakes if log.intake.bank == bank]
    ops = sorted((op for op in episode.ops if op.bank == bank), key=lambda op: op.seq)
    decided: dict[str, list[Decision]] = {}
    for decision in episode.decisions:
        if decision.intake_id is not None:
            decided.setdefault(decision.intake_id, []).append(decision)
    found: list[tuple[int, int, TurnLog, list[Decision]]] = []
    for position, log in enumerate(logs):
        decisions = _last_attempt(decided.get(log.intake.intake_id, []))
        if decisions and log.status in ("applied", "parked"):
            found.append((decisions[0].state_seq, position, log, decisions))
    found.sort(key=lambda one: one[:2])
    rows = {op.memory_id for op in ops if op.after is not None and op.after.kind == "turn"}
    scenes: list[Scene] = []
    done = 0
    for state_seq, position, log, decisions in found:
        before = tuple(op for op in ops if done < op.seq <= state_seq)
        own: tuple[Op, ...] = ()
        if log.status == "applied" and log.seqs is not None:
            own = tuple(op for op in ops if log.seqs[0] <= op.seq <= log.seqs[1])
        of_talk = [one for one in logs[:position] if one.intake.session_id == log.intake.session_id]
        said = [turn for one in of_talk for turn in one.turns if turn.trainable]
        kept = {turn.turn_id for one in of_talk if one.intake.keep_turns == "all" for turn in one.turns} & rows
        scenes.append(
            Scene(
                log.intake.intake_id,
                log.turns,
                tuple(said[-context_turns:] if context_turns else ()),
                decisions[0].created_at,
                tuple(one.decision_id for one in decisions),
                before,
                own,
                log.intake.expires_at,
                frozenset(kept),
                edition_of(decisions[0].payload),
            )
        )
        done = max(done, state_seq, *(op.seq for op in own))
    return Script(bank, tuple(scenes), tuple(op for op in ops if op.seq > done))


def _last_attempt(decisions: Sequence[Decision]) -> list[Decision]:
    """A turn that was parked and tried again has the decisions of every try; each begins with a first call."""
    starts = [index for index, one in enumerate(decisions) if one.role in ("extractor", "fused")]
    return list(decisions[starts[-1] :]) if starts else []
