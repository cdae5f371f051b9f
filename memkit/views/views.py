"""`memory.views`: the read models behind `memkit ui`, the terminal and MCP Apps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memkit.inputs import scope_id, whole_number
from memkit.models import JSON
from memkit.results import Hits
from memkit.runtime.read_request import AS_OF, ReadRequest
from memkit.views import decided, erasures, fates, health, learning, people, reads
from memkit.views.records import (
    Chunk,
    DecisionDetail,
    Erasures,
    Health,
    Learning,
    Person,
    ReadStory,
    Remembered,
    Why,
)

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime

PAGE = 50


class Views:
    """Looking at a store. Nothing here writes: no trace, no use count, no label. Lists come newest first, a page at a
    time; `before` is the `next` of the page before."""

    def __init__(self, alive: Callable[[], Runtime]) -> None:
        self._alive = alive

    def __repr__(self) -> str:
        return f"Views({self._alive().journal.name!r})"

    def people(self) -> list[Person]:
        """All users, those who said the most first."""
        return people.list_people(self._alive().journal)

    def load(self) -> dict[str, int]:
        """What waits: turns that are not decided, parked ones, operations that are not in LanceDB. Cheap to ask."""
        return health.weigh_load(self._alive())

    def person(self, user_id: str) -> Person:
        return people.find_person(self._alive().journal, scope_id(user_id, "user_id"))

    def memories(self, user_id: str, *, step: int | None = None, page: int = 0, limit: int = PAGE) -> Remembered:
        """What is remembered of a user: now, or after so many of the user's operations."""
        whole_number(page, "page", 0, 1_000_000)
        return people.recall(self._alive().journal, scope_id(user_id, "user_id"), step, page, limit)

    def search(self, user_id: str, query: str, *, k: int = 20, as_of: AS_OF = None) -> Hits:
        """As `Memory.search`, but it leaves no trace."""
        runtime = self._alive()
        whole_number(k, "k", 1, runtime.config.max_k)
        ask = ReadRequest.of(query, scope_id(user_id, "user_id"), None, k, None, None, None, as_of)
        return runtime.asking.look(ask)

    def words(self, user_id: str, *, after: int = 0, limit: int = PAGE) -> Chunk:
        """What was said and stays searchable, oldest first."""
        return people.list_words(self._alive().journal, scope_id(user_id, "user_id"), after, limit)

    def ops(self, user_id: str, *, before: int | None = None, limit: int = PAGE, grep: str = "") -> Chunk:
        """Operations with what was there before and after."""
        return people.list_ops(self._alive().journal, scope_id(user_id, "user_id"), before, limit, grep)

    def turns(self, user_id: str, *, before: str | None = None, limit: int = PAGE) -> Chunk:
        """What was said, and what became of each turn."""
        return fates.tell_turns(self._alive().journal, scope_id(user_id, "user_id"), before, limit)

    def why(self, user_id: str, asked: str) -> Why:
        """Why something is not remembered: who said it when, and what became of it."""
        return fates.explain(self._alive().journal, scope_id(user_id, "user_id"), asked)

    def decisions(self, user_id: str, *, before: str | None = None, limit: int = PAGE, grep: str = "") -> Chunk:
        return decided.list_decisions(self._alive(), scope_id(user_id, "user_id"), before, limit, grep)

    def decision(self, user_id: str, decision_id: str) -> DecisionDetail:
        """One decision with its prompt, its reply and what came of it."""
        return decided.tell_in_full(self._alive(), scope_id(user_id, "user_id"), scope_id(decision_id, "decision_id"))

    def reads(self, user_id: str, *, before: str | None = None, limit: int = PAGE, grep: str = "") -> Chunk:
        """Searches, contexts and answers, with what was said of them."""
        self._alive().traces.flush()
        return reads.list_reads(self._alive().journal, scope_id(user_id, "user_id"), before, limit, grep)

    def read(self, user_id: str, trace_id: str) -> ReadStory:
        """One search, context or answer: each memory that it was served, with each signal's share."""
        self._alive().traces.flush()
        return reads.tell_read(self._alive().journal, scope_id(user_id, "user_id"), scope_id(trace_id, "trace_id"))

    def health(self) -> Health:
        return health.examine(self._alive())

    def learning(self, runs: Path | None = None) -> Learning:
        return learning.survey(self._alive(), runs)

    def adapters(self) -> list[JSON]:
        runtime = self._alive()
        return learning.list_adapters(runtime.adapters) if runtime.has_adapters else []

    def adapter(self, digest: str) -> JSON:
        return learning.tell_adapter(learning.need_adapters(self._alive()), digest)

    def alias(self, name: str) -> JSON:
        return learning.tell_alias(learning.need_adapters(self._alive()), name)

    def run(self, runs: Path, name: str) -> JSON:
        return learning.tell_run(runs, name)

    def erasures(self) -> Erasures:
        return erasures.list_erasures(self._alive())
