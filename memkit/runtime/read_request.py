"""A checked read, as the verbs hand it on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from memkit.errors import InvalidInput
from memkit.inputs import aware, scope_id, whole_number
from memkit.models import KINDS, Kind

if TYPE_CHECKING:
    from memkit.filters import Condition

AS_OF = int | datetime | None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """One checked read."""

    text: str
    user_id: str
    agent_id: str | None
    k: int
    kinds: tuple[Kind, ...] | None = None
    session_id: str | None = None
    condition: Condition | None = None
    as_of: AS_OF = None
    expand: str | None = None
    min_score: float | None = None
    owners: tuple[str, ...] = ()
    """Of several banks that are read as one, which leaves no trace: what is forgotten in one of them must not stay in
    the records of another."""

    @classmethod
    def of(
        cls,
        text: str,
        user_id: str,
        agent_id: str | None,
        k: int,
        kinds: Sequence[Kind] | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        as_of: AS_OF | str = None,
        expand: str | None = None,
        min_score: float | None = None,
    ) -> ReadRequest:
        """Text, scope and number are checked already."""
        if expand not in (None, "sources"):
            raise InvalidInput(f"expand={expand!r} is unknown", fix="pass expand='sources' or leave it out")
        condition = None
        if filters is not None and filters != {}:
            from memkit.filters import parse_filters

            condition = parse_filters(filters)
        session = None if session_id is None else scope_id(session_id, "session_id")
        least = None if min_score is None else _share(min_score)
        return cls(text, user_id, agent_id, k, _kinds(kinds), session, condition, _as_of(as_of), expand, least)


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(
            f"min_score is {value!r}",
            why="it is compared with `hit.relevance`, which lies between 0 and 1",
            fix="pass 0.05, say, or leave it out",
        )
    return float(value)


def _as_of(value: Any) -> AS_OF:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return whole_number(value, "as_of", 0, 2**63 - 1)
    return aware(value, "as_of")


def _kinds(kinds: Any) -> tuple[Kind, ...] | None:
    if kinds is None:
        return None
    one = isinstance(kinds, str) or not isinstance(kinds, Iterable)
    given: tuple[Any, ...] = (kinds,) if one else tuple(cast("Iterable[Any]", kinds))
    if not given or any(kind not in KINDS for kind in given):
        raise InvalidInput(f"kinds={kinds!r} is unknown", fix=f"pass kinds=['fact'], or several of {', '.join(KINDS)}")
    return given
