"""What a model's batch may not do, whatever it says. Checked as a whole, before anything is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from memkit.errors import InvalidConfig, OpRejected
from memkit.models import MemoryRecord, OpDraft

_UNTRUSTED_ORIGINS = frozenset({"tool", "document", "import"})


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """Blast radius of one turn."""

    max_ops: int = 20
    max_deletes: int = 3
    max_text: int = 8_192
    """Bytes of one memory's text."""
    max_share_lost: float = 0.5
    """Share of the bank that one turn may delete or overwrite, once the bank has `share_from` memories."""
    share_from: int = 4

    def __post_init__(self) -> None:
        check_numbers(self, "guard.")


def check_numbers(limits: Any, within: str = "") -> None:
    """Refuse a limit that is no number from 0 up; whole, where its default is."""
    for limit in fields(limits):
        value, wanted = getattr(limits, limit.name), (int, float) if isinstance(limit.default, float) else int
        if limit.default is MISSING:  # made by a factory: no number
            continue
        if isinstance(value, bool) or not isinstance(value, wanted) or not value >= 0:
            raise InvalidConfig(
                f"{within}{limit.name} cannot be {value!r}",
                why="limits are numbers from 0 up",
                fix=f"leave it out for the default, {limit.name}={limit.default!r}",
            )


def check_batch(
    drafts: Sequence[OpDraft], shown: Mapping[str, MemoryRecord], bank_size: int, limits: GuardLimits
) -> None:
    """Check the drafts of one model call: targets were shown in this very call, no target twice, sizes, the caps, and
    text that came from tools, documents or imports never changes what a user said. Raises `OpRejected`, whose
    `details["rule"]` names the broken rule."""
    check_caps(drafts, bank_size, limits)
    targets = [draft.memory_id for draft in drafts if draft.memory_id is not None]
    _refuse(len(set(targets)) < len(targets), "target_twice", "one memory is the target of two operations")
    for draft in drafts:
        _check_text(draft, limits)
        _check_target(draft, shown)


def check_caps(drafts: Sequence[OpDraft], bank_size: int, limits: GuardLimits) -> None:
    """Check what one turn asks for in sum, over all its model calls."""
    _refuse(len(drafts) > limits.max_ops, "too_many_ops", f"{len(drafts)} operations; the cap is {limits.max_ops}")
    deletes = sum(draft.action == "delete" for draft in drafts)
    _refuse(deletes > limits.max_deletes, "too_many_deletes", f"{deletes} deletions; the cap is {limits.max_deletes}")
    lost = len({draft.memory_id for draft in drafts if draft.action in ("update", "delete")})
    too_much = bank_size >= limits.share_from and lost > limits.max_share_lost * bank_size
    _refuse(too_much, "blast_radius", f"{lost} of {bank_size} memories would be deleted or overwritten at once")


def _check_text(draft: OpDraft, limits: GuardLimits) -> None:
    if draft.action not in ("add", "update"):
        return
    _refuse(not (draft.text or "").strip(), "empty_text", f"{draft.action} without text")
    size = len((draft.text or "").encode("utf-8", "surrogatepass"))
    _refuse(size > limits.max_text, "text_too_long", f"a text of {size} bytes; the cap is {limits.max_text}")


def _check_target(draft: OpDraft, shown: Mapping[str, MemoryRecord]) -> None:
    if draft.memory_id is None:
        _refuse(draft.action in ("update", "delete"), "no_target", f"{draft.action} names no memory")
        return
    _refuse(draft.memory_id not in shown, "not_shown", "the target was not shown in this call")
    said_by = shown[draft.memory_id].origin
    foreign = draft.origin in _UNTRUSTED_ORIGINS and said_by not in _UNTRUSTED_ORIGINS
    changes = draft.action in ("update", "delete")
    _refuse(foreign and changes, "origin", f"text from a {draft.origin} may not {draft.action} what a {said_by} said")


def _refuse(broken: bool, rule: str, what: str) -> None:
    if broken:
        raise OpRejected(
            what,
            why="a model's reply is untrusted input, and this batch breaks a rule",
            fix="nothing was applied; the turn is re-asked or parked (see `memkit log` and parked())",
            rule=rule,
        )
