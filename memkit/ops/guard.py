"""What a model's batch may not do, whatever it says. Checked as a whole, before anything is applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from memkit.errors import InvalidConfig, OpRejected
from memkit.models import MemoryRecord, OpDraft
from memkit.ops.resolve import EDITION
from memkit.text.words import terms

_UNTRUSTED_ORIGINS = frozenset({"tool", "document", "import"})
_KEPT = 0.34
"""Share of its words that a memory keeps when it is brought up to date. With fewer it is overwritten."""
Look = Callable[[str], MemoryRecord | None]


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """Blast radius of one turn."""

    max_ops: int = 20
    max_deletes: int = 3
    max_text: int = 8_192
    """Bytes of one memory's text."""
    max_share_lost: float = 0.5
    """Share of the bank that one turn may delete or overwrite, once the bank has `share_from` memories. Where an update
    keeps what a memory said and adds to it, nothing is overwritten."""
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
    drafts: Sequence[OpDraft],
    shown: Mapping[str, MemoryRecord],
    bank_size: int,
    limits: GuardLimits,
    *,
    edition: int = EDITION,
) -> None:
    """Check the drafts of one model call: targets were shown in this very call, no target twice, sizes, the caps, and
    text that came from tools, documents or imports never changes what a user said. Raises `OpRejected`, whose
    `details["rule"]` names the broken rule."""
    check_caps(drafts, shown.get, bank_size, limits, edition=edition)
    targets = [draft.memory_id for draft in drafts if draft.memory_id is not None]
    twice = len(set(targets)) < len(targets)
    _refuse(twice, "target_twice", "one memory is the target of two operations", "use at most one for each")
    for draft in drafts:
        _check_text(draft, limits)
        _check_target(draft, shown)


def check_caps(
    drafts: Sequence[OpDraft], look: Look, bank_size: int, limits: GuardLimits, *, edition: int = EDITION
) -> None:
    """Check what one turn asks for in sum, over all its model calls. `look`: a memory as it was before."""
    most = limits.max_ops
    _refuse(len(drafts) > most, "too_many_ops", f"{len(drafts)} operations; the cap is {most}", f"send at most {most}")
    deletes, most = sum(draft.action == "delete" for draft in drafts), limits.max_deletes
    what, fix = f"{deletes} deletions; the cap is {most}", "UPDATE what is over or dropped: tell it in the past"
    _refuse(deletes > most, "too_many_deletes", what, fix)
    lost = len({draft.memory_id for draft in drafts if _loses(draft, look, edition)})
    too_much = bank_size >= limits.share_from and lost > limits.max_share_lost * bank_size
    what = f"{lost} of {bank_size} memories would be deleted or overwritten at once"
    _refuse(too_much, "blast_radius", what, "UPDATE so that what is still true of a memory stays in it, or ADD")


def _loses(draft: OpDraft, look: Look, edition: int) -> bool:
    """Whether little is left of what a memory said."""
    before = look(draft.memory_id or "") if draft.action == "update" and edition > 3 else None
    if before is None:
        return draft.action in ("update", "delete")
    said = set(terms(before.text))
    return len(said & set(terms(draft.text or ""))) < _KEPT * len(said)


def _check_text(draft: OpDraft, limits: GuardLimits) -> None:
    if draft.action not in ("add", "update"):
        return
    what, fix = f"{draft.action} without text", "write the whole text of the memory"
    _refuse(not (draft.text or "").strip(), "empty_text", what, fix)
    size, most = len((draft.text or "").encode("utf-8", "surrogatepass")), limits.max_text
    _refuse(size > most, "text_too_long", f"a text of {size} bytes; the cap is {most}", "write less")


def _check_target(draft: OpDraft, shown: Mapping[str, MemoryRecord]) -> None:
    if draft.memory_id is None:
        changes = draft.action in ("update", "delete")
        _refuse(changes, "no_target", f"{draft.action} names no memory", "name a memory that was shown, or ADD")
        return
    what, fix = "the target was not shown in this call", "name a memory that was shown, or ADD"
    _refuse(draft.memory_id not in shown, "not_shown", what, fix)
    said_by = shown[draft.memory_id].origin
    foreign = draft.origin in _UNTRUSTED_ORIGINS and said_by not in _UNTRUSTED_ORIGINS
    changes = draft.action in ("update", "delete")
    what = f"text from a {draft.origin} may not {draft.action} what a {said_by} said"
    _refuse(foreign and changes, "origin", what, "leave the memory as it is, and ADD what the text says")


def _refuse(broken: bool, rule: str, what: str, fix: str) -> None:
    """`fix` is for the model, which is asked again with it."""
    if broken:
        raise OpRejected(
            what,
            why="a model's reply is untrusted input, and of a batch that breaks a rule nothing is applied: its turn is "
            "asked again or parked (see `memkit log` and parked())",
            fix=fix,
            rule=rule,
        )
