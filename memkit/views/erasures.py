"""What was erased, which adapters had learned from it, and what is still open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memkit.errors import MemkitError
from memkit.models import JSON
from memkit.views.records import Erasures

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime

_SHOWN = 200


def list_erasures(runtime: Runtime) -> Erasures:
    """Receipts, newest first: counts and opaque ids, no content."""
    journal = runtime.journal
    receipts: list[JSON] = [
        {
            "erasure_id": one.erasure_id,
            "subject": one.subject,
            "erased_at": one.erased_at,
            "counts": dict(one.counts),
            "scrubbed": one.scrubbed,
        }
        for one in reversed(journal.erasures())
    ]
    taints: dict[str, Sequence[str]] = {}
    problems: list[JSON] = []
    if runtime.has_adapters:
        try:
            taints = {one.digest: list(one.tainted) for one in runtime.adapters.list() if one.tainted}
            for one in runtime.adapters.list():
                if one.tainted and one.aliases:
                    what = f"{one.digest[:12]} serves ({', '.join(one.aliases)}) and learned from what was erased"
                    problems.append({"what": what, "fix": "train it again without them, or roll it back"})
        except MemkitError as error:
            problems.append({"what": error.what, "fix": error.fix})
    open_ones = {*journal.unfinished_erasures(), *(user for user, _ in journal.unfinished_parts())}
    problems += [
        {"what": "an erasure was begun and is not finished", "fix": "it is tried again when the store is opened"}
        for _ in open_ones
    ]
    problems += [
        {
            "what": f"the bytes of erasure {one['erasure_id']} are not overwritten yet",
            "fix": "close the other processes that hold the store, and open it again",
        }
        for one in receipts
        if not one["scrubbed"]
    ]
    return Erasures(tuple(receipts[:_SHOWN]), taints, tuple(problems))
