"""What feedback on a read does to the lessons that it served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memkit.engine.lessons import credit
from memkit.errors import Conflict, NotFound, RevisionConflict
from memkit.models import Bank, Op

if TYPE_CHECKING:
    from memkit.journal import Journal, Trace
    from memkit.seams.clock import Clock

_TRIES = 3
"""How often a lesson is credited anew because somebody changed it meanwhile."""
Applied = Callable[[Bank, Sequence[Op]], None]


def credit_lessons(
    journal: Journal, clock: Clock, applied: Applied, trace: Trace, feedback_id: str, worth: float
) -> None:
    """Those that the answer used, where it was observed; else all that were served. One feedback counts once; what a
    killed process left of it is done when the feedback is given again."""
    served = trace.payload.get("lessons", ())
    if "cited" in trace.payload:
        cited = {one["id"] for one in trace.payload["cited"]}
        served = [one for one in served if one in cited]
    for memory_id in served:
        _credit(journal, clock, applied, trace.bank.user_id, memory_id, feedback_id, worth)


def _credit(
    journal: Journal, clock: Clock, applied: Applied, user_id: str, memory_id: str, feedback_id: str, worth: float
) -> None:
    for attempt in range(1, _TRIES + 1):
        found = journal.get(user_id, memory_id)
        if found is None:
            return  # it ended meanwhile
        bank, record = found
        now, decision_id = clock.now(), f"k_{feedback_id[2:]}_{memory_id}"
        try:
            ops = journal.apply(bank, [credit(record, worth, now)], decision_id=decision_id, at=now, cause="credit")
        except (RevisionConflict, NotFound):
            if attempt == _TRIES:
                raise
        except Conflict:
            return  # this feedback is counted already
        else:
            applied(bank, ops)
            return
