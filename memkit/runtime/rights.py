"""Who may do what in a space: grants, kept in the journal, and the one gate before every verb.

A space owns memories as a user does, under an id that no caller can name: whoever passes the gate reaches it, for one
call. Grants are records of a bank of their own for each space, so that they are durable, in order and exported as all
ops are; a space is there while it has any. Nothing is allowed that no grant says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memkit.errors import Conflict, InvalidInput, NotAllowed
from memkit.inputs import Admitted
from memkit.models import SPACE, Bank, MemoryRecord, OpDraft, digest, parse_time
from memkit.results import RIGHTS, Grant, Right

if TYPE_CHECKING:
    from memkit.journal import Journal
    from memkit.runtime.runtime import Runtime

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Caller:
    """As whom a call is made, and in which roles: the app says so, as it says who its users are."""

    user_id: str
    roles: frozenset[str] = frozenset()

    def is_meant(self, grant: Grant) -> bool:
        return grant.to in self.roles if grant.is_role else grant.to == self.user_id


def admit(runtime: Runtime, who: Caller, right: Right, space: str) -> Admitted:
    """The gate. Where there is no such space, and where there is one of others, it says the same."""
    if not may(list_grants(runtime.journal, space), who, right, runtime.clock.now()):
        raise NotAllowed(
            f"{who.user_id!r} may not {right} in the space {space!r}",
            why="no grant that holds now says so",
            fix=f"have somebody who may share there call grant({right!r}, to={who.user_id!r})",
        )
    return Admitted(SPACE + space)


def may(grants: Iterable[Grant], who: Caller, right: Right, now: datetime) -> bool:
    return any(one.right == right and who.is_meant(one) and one.holds(now) for one in grants)


def list_grants(journal: Journal, space: str | None = None) -> list[Grant]:
    """Of one space or of all, those that have ended by time included."""
    found = journal.live(bank=None if space is None else Bank(SPACE, space), user_id=SPACE if space is None else None)
    return [_grant(bank.agent_id, record) for bank, record in found if "right" in record.metadata]


def find_spaces(runtime: Runtime, who: Caller, right: Right) -> list[str]:
    """Where `who` may do that, by name."""
    now = runtime.clock.now()
    grants = list_grants(runtime.journal)
    return sorted({one.space for one in grants if one.right == right and who.is_meant(one) and one.holds(now)})


def create_space(runtime: Runtime, who: Caller, space: str) -> None:
    """All rights to the caller, for good. Also where nobody is left who may share: the app says who goes on."""
    everything = [Grant(space, right, who.user_id, False, None, who.user_id) for right in RIGHTS]

    def decide(grants: list[Grant], now: datetime) -> list[OpDraft]:
        if any(one.right == "share" and one.holds(now) for one in grants):
            raise Conflict(f"there is a space {space!r} already", fix="choose another name, or ask for a grant there")
        return [_draft(one, grants, now) for one in everything if one not in grants]

    _change(runtime, space, decide)


def grant(runtime: Runtime, who: Caller, space: str, given: Collection[Grant]) -> None:
    """One gives only what one has, and for no longer."""

    def decide(grants: list[Grant], now: datetime) -> list[OpDraft]:
        _refuse_unless_shared(grants, who, space, now)
        for one in given:
            own = [held for held in grants if held.right == one.right and who.is_meant(held) and held.holds(now)]
            if not any(_lasts(held.until, one.until) for held in own):
                raise NotAllowed(
                    f"{who.user_id!r} cannot grant {one.right!r} in {space!r}" + (" for so long" if own else ""),
                    why="one gives only what one has",
                    fix="grant less, or have somebody else grant it",
                )
        return [_draft(one, grants, now) for one in given if one not in grants]

    _change(runtime, space, decide)


def revoke(runtime: Runtime, who: Caller, space: str, rights: Collection[Right], to: str, is_role: bool) -> None:
    """What was granted on comes and goes by itself. The last one who may share for good stays."""

    def decide(grants: list[Grant], now: datetime) -> list[OpDraft]:
        if is_role or to != who.user_id:  # one's own may be given up
            _refuse_unless_shared(grants, who, space, now)
        gone = [one for one in grants if one.right in rights and (one.to, one.is_role) == (to, is_role)]
        if not any(_is_for_good(one) for one in grants if one not in gone) and any(map(_is_for_good, gone)):
            raise Conflict(
                f"nobody would be left who may share in {space!r}", fix="grant 'share' to somebody else first"
            )
        return [OpDraft("delete", one.grant_id, origin="api", at=now) for one in gone]

    _change(runtime, space, decide)


def drop_giver(runtime: Runtime, user_id: str) -> int:
    """Whoever is erased leaves no name at what was granted to others, which stands. Returns how many spaces are left
    without anybody who may share."""
    found, left = list_grants(runtime.journal), 0
    for space in sorted({one.space for one in found if user_id in (one.by, one.to)}):

        def decide(grants: list[Grant], now: datetime) -> list[OpDraft]:
            there = {one.key for one in grants if one.by != user_id}
            given = [one for one in grants if one.by == user_id and (one.is_role or one.to != user_id)]
            return [_draft(replace(one, by=""), (), now) for one in given if one.key not in there]

        _change(runtime, space, decide)
        left += not any(_is_for_good(one) and one.to != user_id for one in list_grants(runtime.journal, space))
    return left


def _is_for_good(one: Grant) -> bool:
    return one.right == "share" and not one.is_role and one.until is None


def _refuse_unless_shared(grants: Iterable[Grant], who: Caller, space: str, now: datetime) -> None:
    if not may(grants, who, "share", now):
        raise NotAllowed(
            f"{who.user_id!r} may not share the space {space!r}",
            why="no grant that holds now says so",
            fix="have somebody who may share there do it",
        )


def _lasts(own: datetime | None, wanted: datetime | None) -> bool:
    return own is None or (wanted is not None and wanted <= own)


def _change(runtime: Runtime, space: str, decide: Callable[[list[Grant], datetime], list[OpDraft]]) -> None:
    """Decided on one state of the grants; anew, where another process changed them meanwhile."""
    bank, journal = Bank(SPACE, space), runtime.journal
    for left in reversed(range(_ATTEMPTS)):
        seq, now = journal.bank_seq(bank), runtime.clock.now()
        drafts = decide(list_grants(journal, space), now)
        if not drafts:
            return
        try:
            ops = journal.apply(bank, drafts, decision_id=runtime.ids.new("u"), at=now, cause="api", expected_seq=seq)
        except Conflict:
            if not left:
                raise
            continue
        runtime.note_applied(bank, ops)
        return


def _draft(one: Grant, grants: Iterable[Grant], now: datetime) -> OpDraft:
    """The record of a grant, or the change of the one for the same right: it lasts longer or shorter."""
    metadata: dict[str, Any] = {"right": one.right, "to": one.to, "role": one.is_role, "by": one.by}
    metadata |= {"until": one.until.isoformat()} if one.until else {}
    there = next((held for held in grants if held.key == one.key), None)
    if there is not None:
        return OpDraft("update", there.grant_id, metadata=metadata, origin="api", at=now)
    whom = f"the role {one.to}" if one.is_role else one.to
    return OpDraft(
        "add",
        text=f"{whom} may {one.right}",
        kind="episode",
        metadata=metadata,
        origin="api",
        at=now,
        trainable=False,
        content_salt=digest([one.key, one.by]),
    )


def _grant(space: str, record: MemoryRecord) -> Grant:
    told = record.metadata
    until = parse_time(told.get("until"))
    return Grant(space, told["right"], told["to"], told["role"], until, told["by"], record.id)


def checked_rights(given: Iterable[str]) -> list[Right]:
    asked: set[Any] = set(given)
    found: list[Right] = [right for right in RIGHTS if right in asked]
    if not found or len(found) < len(asked):
        raise InvalidInput(f"rights {sorted(asked)} are unknown", fix=f"pass one or more of {', '.join(RIGHTS)}")
    return found
