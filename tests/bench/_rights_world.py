"""Histories of spaces that several share, beside a model of what the rules allow: every call is made, and compared with
what the model says of it. Whoever calls, and what for, is drawn; each history has names of its own in one store."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memkit import Memory
from memkit.errors import Conflict, NotAllowed, NotFound
from memkit.principal import SpaceMemory
from memkit.results import RIGHTS, Right

PEOPLE, SPACES, ROLES = 6, 2, ("red", "blue")
READS = ("search", "context", "list", "get", "history", "profile", "decisions", "grants")
WRITES = ("add", "learn", "update", "pin", "delete", "delete_all", "undo", "parked", "retry")
STEPS = (
    *("grant",) * 6,
    *("revoke",) * 3,
    *("add",) * 4,
    *("tick",) * 1,
    *("everything",) * 2,
    *READS,
    *WRITES,
)
Step = tuple[str, int, int, int, int]
"""What, who, in which space, and two numbers that say the rest."""


def draw_history(rng: random.Random, length: int) -> list[Step]:
    return [
        (rng.choice(STEPS), rng.randrange(PEOPLE), rng.randrange(SPACES), rng.randrange(64), rng.randrange(64))
        for _ in range(length)
    ]


class StandingClock:
    """Stands still until a history moves it."""

    def __init__(self) -> None:
        self.at = datetime(2026, 5, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@dataclass
class Kept:
    """A memory, as the model has it."""

    memory_id: str
    token: str
    by: str


@dataclass
class World:
    """One history."""

    memory: Memory
    clock: StandingClock
    name: str
    counts: Counter[str]
    """allowed, refused, wrong: calls so far."""
    wrong: list[str] = field(default_factory=list[str])
    grants: dict[tuple[int, Right, str, bool], datetime | None] = field(
        default_factory=dict[tuple[int, Right, str, bool], "datetime | None"]
    )
    kept: dict[int, list[Kept]] = field(default_factory=dict[int, list[Kept]])
    said: int = 0

    def __post_init__(self) -> None:
        for space in range(SPACES):
            self._principal(space).create_space(self._space(space))
            self.kept[space] = []
            self.grants |= {(space, right, self._user(space), False): None for right in RIGHTS}

    def play(self, steps: Iterable[Step]) -> None:
        for what, who, space, a, b in steps:
            own = {
                "grant": self._grant,
                "revoke": self._revoke,
                "tick": self._tick,
                "everything": self._read_everything,
            }
            own.get(what, partial(self._call, what))(who, space, a, b)

    # ---- names -------------------------------------------------------------------------------------------------

    def _user(self, who: int) -> str:
        return f"{self.name}-u{who}"

    def _space(self, space: int) -> str:
        return f"{self.name}-s{space}"

    def _roles(self, who: int) -> list[str]:
        return [self._role(who)] if who > 1 else []

    def _role(self, number: int) -> str:
        return f"{self.name}-{ROLES[number % 2]}"

    def _principal(self, who: int) -> Any:
        return self.memory.principal(self._user(who), roles=self._roles(who))

    def _at(self, who: int, space: int) -> SpaceMemory:
        return self._principal(who).space(self._space(space))

    # ---- what the rules say ---------------------------------------------------------------------------------------

    def _held(self, who: int, right: Right, space: int) -> list[datetime | None]:
        names = [(self._user(who), False), *((role, True) for role in self._roles(who))]
        found = [self.grants[key] for name in names if (key := (space, right, *name)) in self.grants]
        return [until for until in found if until is None or self.clock.at < until]

    def _try(self, label: str, allowed: bool, call: Callable[[], Any]) -> Any:
        """The call is made; NotAllowed comes exactly where the model says so."""
        try:
            result = call()
        except NotAllowed:
            self.counts["refused"] += 1
            self._expect(not allowed, f"{label}: refused, and is allowed")
            return None
        except (NotFound, Conflict):
            result = None
        self.counts["allowed"] += 1
        self._expect(allowed, f"{label}: allowed, and no grant says so")
        return result

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.counts["wrong"] += 1
            self.wrong.append(f"{self.name}: {what}")

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _tick(self, who: int, space: int, a: int, b: int) -> None:
        self.clock.at += timedelta(hours=1 + a % 3)

    def _whom(self, a: int) -> tuple[str, bool]:
        return (self._role(a // 4), True) if a % 4 == 0 else (self._user(a % PEOPLE), False)

    def _grant(self, who: int, space: int, a: int, b: int) -> None:
        right, (to, is_role) = RIGHTS[b % 4], self._whom(a)
        until = self.clock.at + timedelta(hours=2) if b % 3 == 0 else None
        own = self._held(who, right, space)
        lasts = any(end is None or (until is not None and until <= end) for end in own)
        allowed = bool(self._held(who, "share", space)) and lasts
        whom = {"role": to} if is_role else {"to": to}
        self._try(f"grant {right}", allowed, lambda: self._at(who, space).grant(right, until=until, **whom))
        if allowed:
            self.grants[space, right, to, is_role] = until

    def _revoke(self, who: int, space: int, a: int, b: int) -> None:
        right, (to, is_role) = RIGHTS[b % 4], self._whom(a)
        own = not is_role and to == self._user(who)
        allowed = own or bool(self._held(who, "share", space))
        whom = {"role": to} if is_role else {"to": to}
        self._try(f"revoke {right}", allowed, lambda: self._at(who, space).revoke(right, **whom))
        key = (space, right, to, is_role)
        if allowed and key in self.grants:
            left = {one: end for one, end in self.grants.items() if one != key}
            holders = [one for one, end in left.items() if one[:2] == (space, "share") and not one[3] and end is None]
            if holders or right != "share" or is_role or self.grants[key] is not None:
                self.grants = left

    def _call(self, verb: str, who: int, space: int, a: int, b: int) -> None:
        here, right = self._at(who, space), "read" if verb in READS else "write"
        kept = self.kept[space]
        one = kept[a % len(kept)] if kept else Kept("m_none", "none", "")
        self.said += 1
        token = f"token{self.said}"
        calls: dict[str, Callable[[], Any]] = {
            "search": lambda: [hit.text for hit in here.search(one.token, k=50)],
            "context": lambda: here.context(one.token),
            "list": lambda: [record.text for record in here.list()],
            "get": lambda: here.get(one.memory_id),
            "history": lambda: here.history(),
            "profile": lambda: here.profile(),
            "decisions": lambda: here.decisions(),
            "grants": lambda: here.grants(),
            "add": lambda: here.add(f"The word is {token}.", infer=False),
            "learn": lambda: here.learn([{"role": "assistant", "content": "done"}], task="t", outcome=True, wait=False),
            "update": lambda: here.update(one.memory_id, f"The word is {token}."),
            "pin": lambda: here.pin(one.memory_id, pinned=b % 2 == 0),
            "delete": lambda: here.delete(one.memory_id),
            "delete_all": lambda: here.delete_all(),
            "undo": lambda: here.undo(since=self.memory.stats()["last_seq"] + 1),
            "parked": lambda: here.parked(),
            "retry": lambda: here.retry(["i_none"]),
        }
        allowed = bool(self._held(who, "read" if right == "read" else "write", space))
        result = self._try(verb, allowed, calls[verb])
        if not allowed:
            return
        if verb == "add":
            kept.append(Kept(result.ops[0].memory_id, token, self._user(who)))
        elif verb == "update" and result is not None:
            one.token = token
        elif verb == "delete" and result is not None:
            kept.remove(one)
        elif verb == "delete_all":
            kept.clear()
        elif verb in ("search", "context", "list"):
            told = result if isinstance(result, str) else " ".join(result or ())
            self._compare(verb, told, [space], whole=verb == "list")

    def _read_everything(self, who: int, space: int, a: int, b: int) -> None:
        """One's own memories with those of every space that one may read."""
        readable = [one for one in range(SPACES) if self._held(who, "read", one)]
        named = [self._space(space)] if b % 2 else None
        allowed = named is None or space in readable
        caller = self._principal(who)
        told = self._try("everything", allowed, lambda: caller.context("the word", spaces=named, max_tokens=4000))
        if told is not None:
            self._compare("everything", told, readable if named is None else [space], whole=False)

    def _compare(self, verb: str, told: str, spaces: list[int], *, whole: bool) -> None:
        said = {word.strip('.",') for word in told.split() if word.startswith("token")}
        there = {one.token for space in spaces for one in self.kept[space]}
        self._expect(said <= there, f"{verb}: shows {sorted(said - there)}")
        if whole:
            self._expect(there <= said, f"{verb}: lacks {sorted(there - said)}")
