"""Which table on object storage is the projection: a place that nobody can be kept out of needs a word that counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PublishedTable:
    table: str
    version: int


class Catalog(Protocol):
    place: str
    """The URL below which the tables lie."""

    @property
    def term(self) -> int:
        """The number of the lease that this process holds; each is higher than all before. `StoreBusy` without one."""
        ...

    def read(self) -> PublishedTable | None:
        """What everybody reads; None where nothing is there yet."""
        ...

    def publish(self, found: PublishedTable | None) -> None:
        """From now on everybody reads this. `StoreBusy`, and nothing changed, where the lease went to another."""
        ...
