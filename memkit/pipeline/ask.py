"""A checked read, as the verbs hand it on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memkit.models import Kind

if TYPE_CHECKING:
    from memkit.filters import Condition

AS_OF = int | datetime | None


@dataclass(frozen=True, slots=True)
class Ask:
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
