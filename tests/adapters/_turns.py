"""Decided turns as the pipeline hands them over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memkit.errors import MemkitError
from memkit.models import Bank, OpDraft
from memkit.models import Turn as Said
from memkit.roles import Extractor, Fact, Manager
from memkit.seams.backbone import GenReply, GenRequest, Usage

AT = datetime(2026, 1, 1, tzinfo=UTC)
SAID = Said("t_1", "i_1", Bank("ana"), 0, "user", "I adopted a dog named Buddy.", AT)


@dataclass
class Call:
    role: str
    adapter: str | None
    text: str = "NOOP"
    deletes: int = 0
    error: MemkitError | None = None
    served_by: str | None = "same"
    decision_id: str = "d_1"
    latency_ms: float = 10.0

    @property
    def request(self) -> GenRequest:
        if self.role == "extractor":
            prompt = Extractor().render([SAID])
        else:
            prompt = Manager().render(Fact("Ana has a dog named Buddy.", ("t_1",)), [], [SAID])
        return GenRequest(prompt, self.decision_id, self.adapter)

    @property
    def reply(self) -> GenReply:
        served_by = self.adapter if self.served_by == "same" else self.served_by
        return GenReply(self.text, served_by, usage=Usage(100, 10), latency_ms=self.latency_ms)

    @property
    def drafts(self) -> list[OpDraft]:
        return [OpDraft("delete", memory_id=str(n)) for n in range(self.deletes)]


@dataclass
class Turn:
    calls: list[Any] = field(default_factory=list)
