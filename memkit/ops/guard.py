"""What a model's batch may not do, whatever it says. Checked as a whole, before anything is applied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memkit.errors import OpRejected
from memkit.models import MemoryRecord, OpDraft

_UNTRUSTED_ORIGINS = frozenset({"tool", "document", "import"})


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """Blast radius of one decision."""

    max_ops: int = 20
    max_deletes: int = 3
    max_text: int = 8_192
    """Bytes of one memory's text."""
    max_share_lost: float = 0.5
    """Share of the bank that one batch may delete or overwrite, once the bank has `share_from` memories."""
    share_from: int = 4


def check_batch(
    drafts: Sequence[OpDraft], shown: Mapping[str, MemoryRecord], bank_size: int, limits: GuardLimits
) -> None:
    """Raise `OpRejected` (its `details["rule"]` names the rule) unless every draft keeps to the rules:
    targets were shown in this call, no target twice, caps on ops, deletions, sizes and on the share of the bank
    that is lost, and text that came from tools, documents or imports never changes what a user said."""
    _refuse(len(drafts) > limits.max_ops, "too_many_ops", f"{len(drafts)} operations; the cap is {limits.max_ops}")
    deletes = sum(draft.action == "delete" for draft in drafts)
    _refuse(deletes > limits.max_deletes, "too_many_deletes", f"{deletes} deletions; the cap is {limits.max_deletes}")
    targets = [draft.memory_id for draft in drafts if draft.memory_id is not None]
    _refuse(len(set(targets)) < len(targets), "target_twice", "one memory is the target of two operations")
    for draft in drafts:
        _check_one(draft, shown, limits)
    lost = sum(draft.action in ("update", "delete") for draft in drafts)
    if bank_size >= limits.share_from and lost > limits.max_share_lost * bank_size:
        _refuse(True, "blast_radius", f"{lost} of {bank_size} memories would be deleted or overwritten at once")


def _check_one(draft: OpDraft, shown: Collection[str] | Mapping[str, MemoryRecord], limits: GuardLimits) -> None:
    if draft.action in ("add", "update"):
        _refuse(not (draft.text or "").strip(), "empty_text", f"{draft.action} without text")
        size = len((draft.text or "").encode("utf-8", "surrogatepass"))
        _refuse(size > limits.max_text, "text_too_long", f"a text of {size} bytes; the cap is {limits.max_text}")
    if draft.action in ("update", "delete"):
        _refuse(draft.memory_id is None, "no_target", f"{draft.action} names no memory")
    if draft.memory_id is None:
        return
    _refuse(draft.memory_id not in shown, "not_shown", "the target was not shown in this call")
    target = shown[draft.memory_id] if isinstance(shown, Mapping) else None
    foreign = draft.origin in _UNTRUSTED_ORIGINS and target is not None and target.origin not in _UNTRUSTED_ORIGINS
    _refuse(
        foreign and draft.action in ("update", "delete"), "origin",
        f"text from a {draft.origin} may not {draft.action} what a {target.origin if target else 'user'} said",
    )  # fmt: skip


def _refuse(broken: bool, rule: str, what: str) -> None:
    if broken:
        raise OpRejected(
            what,
            why="a model's reply is untrusted input, and this batch breaks a rule",
            fix="nothing was applied; the turn is re-asked or parked (see `memkit log` and parked())",
            rule=rule,
        )
