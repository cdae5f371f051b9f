"""Histories of spaces that several share, beside a model of what the rules allow: every call is made, and compared with
what the model says of it. Whoever calls, and what for, is drawn; each history has names of its own in one store."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memkit import Memory
from memkit.errors import Conflict, NotAllowed, NotFound
from memkit.models import SPACE
from memkit.principal import SpaceMemory
from memkit.results import RIGHTS, Right

PEOPLE, SPACES, ROLES = 6, 2, ("red", "blue")
READS = ("search", "context", "list", "get", "history", "profile", "entities", "about", "decisions", "grants")
WRITES = ("add", "learn", "update", "pin", "delete", "delete_all", "undo", "parked", "retry")
STEPS = (
    *("grant",) * 6,
    *("revoke",) * 3,
    *("add",) * 4,
    *("tick",) * 1,
    *("everything",) * 2,
    *("note",) * 2,
    *("promote",) * 4,
    *("forget",) * 4,
    *("erase",) * 1,
    *READS,
    *WRITES,
)
Step = tuple[str, int, int, int, int]
"""What, who, in which space, and two numbers that say the rest."""


def draw_history(rng: random.Random, length: int, steps: Sequence[str] = STEPS) -> list[Step]:
    """Every other call is made by whoever made the space: else most would be refused."""
    drawn = list[Step]()
    for _ in range(length):
        space = rng.randrange(SPACES)
        who = space if rng.random() < 0.5 else rng.randrange(PEOPLE)
        drawn.append((rng.choice(steps), who, space, rng.randrange(64), rng.randrange(64)))
    return drawn


class StandingClock:
    """Stands still until a history moves it."""

    def __init__(self) -> None:
        self.at = datetime(2026, 5, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@dataclass(eq=False)
class Kept:
    """A memory, as the model has it."""

    memory_id: str
    token: str
    by: str
    copy_of: Kept | None = None
    live: bool = True
    earlier: set[str] = field(default_factory=set[str])
    """What it said before."""

    def comes_from(self, other: Kept) -> bool:
        return self is other or (self.copy_of is not None and self.copy_of.comes_from(other))


@dataclass
class World:
    """One history."""

    memory: Memory
    clock: StandingClock
    name: str
    counts: Counter[str]
    """allowed, refused, wrong: calls so far; and of each verb, those allowed."""
    wrong: list[str] = field(default_factory=list[str])
    grants: dict[tuple[int, Right, str, bool], datetime | None] = field(
        default_factory=dict[tuple[int, Right, str, bool], "datetime | None"]
    )
    kept: dict[int, list[Kept]] = field(default_factory=dict[int, list[Kept]])
    """By space."""
    own: dict[int, list[Kept]] = field(default_factory=dict[int, list[Kept]])
    """By user."""
    heard: dict[int, list[Kept]] = field(default_factory=dict[int, list[Kept]])
    """Words that no fact was made of, by space."""
    said: int = 0
    gone: set[str] = field(default_factory=set[str])
    """Words that no space may tell any more."""

    def __post_init__(self) -> None:
        for space in range(SPACES):
            self._principal(space).create_space(self._space(space))
            self.kept[space], self.heard[space] = [], []
            self.grants |= {(space, right, self._user(space), False): None for right in RIGHTS}

    def play(self, steps: Iterable[Step]) -> None:
        for what, who, space, a, b in steps:
            self._step(what, who, space, a, b)
        self._compare_all()

    def _step(self, what: str, who: int, space: int, a: int, b: int) -> None:
        own = getattr(self, f"_{what}", None)
        (own or partial(self._call, what))(who, space, a, b)

    def _compare_all(self) -> None:
        """In the end each space holds what it should, and nothing tells of what was forgotten, history included."""
        journal = self.memory._runtime.journal  # pyright: ignore[reportPrivateUsage]
        for space in range(SPACES):
            owner = SPACE + self._space(space)
            episodes = journal.live(user_id=owner, kinds=["episode"])
            held = sorted(word for _, record in episodes for word in words_of([record.text]))
            should = sorted(one.token for one in self._live(space))
            self._expect(held == should, f"space {space} holds {held}, not {should}")
            told = [op.after.text for op in journal.ops(user_id=owner) if op.after]
            told += [turn.text for state in journal.iter_intakes(user_id=owner) for turn in state.intake.turns]
            left = self.gone & words_of(told)
            self._expect(not left, f"space {space} still tells {sorted(left)}")

    # ---- names -------------------------------------------------------------------------------------------------

    def _user(self, who: int) -> str:
        return f"{self.name}-u{who}"

    def _space(self, space: int) -> str:
        return f"{self.name}-s{space}"

    def _roles(self, who: int) -> list[str]:
        return [self._role(who)] if who > 1 else []

    def _role(self, number: int) -> str:
        return f"{self.name}-{ROLES[number % 2]}"

    def _new(self) -> str:
        """A word that is part of no other."""
        self.said += 1
        return f"token{self.said:03}"

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
        self.counts[label.partition(" ")[0]] += 1
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
        kept = self._live(space)
        one = kept[a % len(kept)] if kept else Kept("m_none", "none", "")
        token = self._new()
        calls: dict[str, Callable[[], Any]] = {
            "search": lambda: [hit.text for hit in here.search(one.token, k=50)],
            "context": lambda: here.context(one.token),
            "list": lambda: [record.text for record in here.list()],
            "get": lambda: here.get(one.memory_id),
            "history": lambda: here.history(),
            "profile": lambda: here.profile(),
            "entities": lambda: here.entities(),
            "about": lambda: [record.text for record in here.about(one.token)],
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
            self.kept[space].append(Kept(result.ops[0].memory_id, token, self._user(who)))
        elif verb == "update" and result is not None:
            one.earlier.add(one.token)
            one.token = token
        elif verb == "delete" and result is not None:
            one.live = False
        elif verb == "delete_all":
            for one in (*kept, *self.heard[space]):
                one.live = False
        elif verb in ("search", "context", "list", "about"):
            told = result if isinstance(result, str) else " ".join(map(str, result or ()))
            self._compare(verb, told, [space], whole=verb == "list")

    def _live(self, space: int) -> list[Kept]:
        return [one for one in self.kept[space] if one.live]

    # ---- what goes into a space, and out of the world ------------------------------------------------------------

    def _note(self, who: int, space: int, a: int, b: int) -> None:
        """For oneself."""
        token = self._new()
        added = self.memory.add(f"The word is {token}.", user_id=self._user(who), infer=False)
        self.own.setdefault(who, []).append(Kept(str(added.ops[0].memory_id), token, self._user(who)))

    def _promote(self, who: int, space: int, a: int, b: int) -> None:
        other = (space + 1) % SPACES if b % 2 else None
        there = self.own.get(who, []) if other is None else self._live(other)
        one = there[a % len(there)] if there else Kept("m_none", "none", "")
        allowed = bool(self._held(who, "write", space)) and (other is None or bool(self._held(who, "share", other)))
        source = None if other is None else self._space(other)
        copy = self._try("promote", allowed, lambda: self._at(who, space).promote(one.memory_id, space=source))
        if copy is not None and all(kept.memory_id != copy.id for kept in self.kept[space]):
            self._expect(words_of([copy.text]) == {one.token}, "promote: another text")
            self.kept[space].append(Kept(copy.id, one.token, self._user(who), one))

    def _forget(self, who: int, space: int, a: int, b: int) -> None:
        kept = self._live(space)
        if not kept:
            return
        one = kept[a % len(kept)]
        everything = bool(self._held(who, "forget", space))
        allowed = everything or one.by == self._user(who)
        here = self._at(who, space)
        by_words = b % 2 == 0
        self._try("forget", allowed, lambda: here.forget(words=one.token) if by_words else here.forget(one.memory_id))
        if allowed and by_words:
            said = [kept for kept in self.kept[space] if one.token in {kept.token, *kept.earlier}]
            self._drop([kept for kept in said if everything or kept.by == self._user(who)])
        elif allowed:
            self._drop([one])

    def _erase(self, who: int, space: int, a: int, b: int) -> None:
        """A user goes; rarely, as it ends most histories."""
        if a % 4:
            return
        user = self._user(who)
        self.memory.erase(user_id=user)
        gone = [one for kept in (*self.kept.values(), *self.heard.values()) for one in kept if one.by == user]
        self._drop([*gone, *self.own.pop(who, [])])
        self.grants = {key: until for key, until in self.grants.items() if key[2:] != (user, False)}

    def _drop(self, gone: list[Kept]) -> None:
        """With all copies, and their copies."""
        for owned in self._all():
            dropped = [one for one in owned if any(one.comes_from(root) for root in gone)]
            owned[:] = [one for one in owned if one not in dropped]
            self.gone |= {token for one in dropped for token in (one.token, *one.earlier)}
        left = [one for owned in self._all() for one in owned]
        self.gone -= {token for one in left for token in (one.token, *one.earlier)}

    def _all(self) -> list[list[Kept]]:
        return [*self.kept.values(), *self.own.values(), *self.heard.values()]

    def _everything(self, who: int, space: int, a: int, b: int) -> None:
        """One's own memories with those of every space that one may read."""
        readable = [one for one in range(SPACES) if self._held(who, "read", one)]
        named = [self._space(space)] if b % 2 else None
        allowed = named is None or space in readable
        caller = self._principal(who)
        told = self._try("everything", allowed, lambda: caller.context("the word", spaces=named, max_tokens=4000))
        if told is not None:
            own = self.own.get(who, []) if named is None else []
            self._compare("everything", told, readable if named is None else [space], own)

    def _compare(
        self, verb: str, told: str, spaces: list[int], own: Iterable[Kept] = (), *, whole: bool = False
    ) -> None:
        said = words_of([told])
        there = {one.token for space in spaces for one in self._live(space)} | {one.token for one in own}
        heard = {one.token for space in spaces for one in self.heard[space] if one.live}
        self._expect(said <= there | heard, f"{verb}: shows {sorted(said - there - heard)}")
        if whole:
            self._expect(there <= said, f"{verb}: lacks {sorted(there - said)}")


def words_of(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"token\d+", text)}
