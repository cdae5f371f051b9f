"""The verbs that are about a store as a whole, about everything of a user, or about what waits for a decision: what
`Memory` has beside its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.inputs import optional_id, path_of, scope_id, text_of, verb, whole_number
from memkit.models import SPACE, Bank, Entity, MemoryRecord
from memkit.results import EraseReceipt, Imported, ParkedTurn, Problem, PruneReceipt, TidyResult
from memkit.runtime import care, erasure, writes
from memkit.runtime.held import HeldChanges

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime


Names = list[str]
Entities = list[Entity]
Records = list[MemoryRecord]
Problems = list[Problem]
ParkedTurns = list[ParkedTurn]


class Upkeep:
    _runtime: Runtime

    @verb
    def users(self) -> Names:
        return [info.user_id for info in self._runtime.alive().journal.users() if not info.user_id.startswith(SPACE)]

    @verb
    def entities(self, *, user_id: str, agent_id: str | None = None, limit: int = 100) -> Entities:
        """Whom and what the live memories name: people, animals, places, projects and other things, those that most of
        them name first. Found by rules, in any language; two that bear one name are one."""
        from memkit.runtime.entities import list_entities

        user, agent = scope_id(user_id, "user_id"), optional_id(agent_id, "agent_id") or None
        return list_entities(self._runtime.alive(), user, agent, whole_number(limit, "limit", 1, 10_000))

    @verb
    def about(self, name: str, *, user_id: str, agent_id: str | None = None, limit: int = 100) -> Records:
        """The newest live memories that name somebody or something, call it by what it is ("my sister"), or go on about
        it ("she"), oldest first. Any word will do; `entities` lists names that are known."""
        from memkit.runtime.entities import list_about

        runtime, user = self._runtime.alive(), scope_id(user_id, "user_id")
        words = runtime.redact_text(text_of(name, "the name", runtime.config.max_message_bytes))
        agent, most = optional_id(agent_id, "agent_id") or None, whole_number(limit, "limit", 1, 10_000)
        return list_about(runtime, words, user, agent, most)

    @verb
    def erase(
        self, *, user_id: str, turn_id: str | None = None, memory_id: str | None = None, session_id: str | None = None
    ) -> EraseReceipt:
        """Destroy everything of a user: rows, versions, indexes, journal, decisions. Adapters that learned from the
        user are marked tainted. Cannot be undone. Or of one turn (or `add`, by its trace_id), one memory with the turns
        that it was drawn from, or one session: the words, what was drawn from them, and whatever showed it."""
        return erasure.erase(self._runtime.alive(), scope_id(user_id, "user_id"), turn_id, memory_id, session_id)

    @verb
    def tidy(self, *, user_id: str, agent_id: str | None = None, budget: int | None = None) -> TidyResult:
        """Consolidate what is remembered of a user. Each fact is put before the manager again beside the older ones
        that are near to it: what says the same becomes one, and what is over is settled; of words that were said again
        later, the later ones stay. budget: so many decisions of the manager at most; the next pass goes on from there.
        Everything is logged, and undo(turn_id=result.trace_id) takes the whole pass back."""
        from memkit.runtime import tidying

        most = None if budget is None else whole_number(budget, "budget", 1, 1_000_000)
        agent = None if agent_id is None else scope_id(agent_id, "agent_id")
        return tidying.tidy(self._runtime.alive(), scope_id(user_id, "user_id"), agent, most)

    @verb
    def prune(self, *, days: int | None = None, megabytes: int | None = None) -> PruneReceipt:
        """Drop the log that is older than so many days, or the oldest of it until the rest takes about so many
        megabytes: decisions with prompts and replies, traces of reads, their labels, what is held. The words that were
        said, memories and every op stay, so `undo`, `as_of`, `history` and `erase` work as before. What is dropped can
        no longer be learned from, explained or rated."""
        from memkit.runtime import pruning

        return pruning.prune(self._runtime.alive(), days, megabytes)

    @verb
    def backup(self, path: str | Path) -> int:
        """Copy the store as it is at one moment, whoever writes meanwhile, into a new folder. Returns the sequence
        number up to which it goes. `memkit restore` makes a store of it. The files of a store are never copied by hand:
        what is copied so does not fit together."""
        from memkit.runtime import copies

        return copies.backup(self._runtime.alive(), path_of(path, "path"))

    @verb
    def export(self, path: str | Path, *, user_id: str | None = None) -> int:
        """Write turns, ops, decisions, traces and feedback as JSON lines, as they are at one moment, whoever writes
        meanwhile. Returns the number of lines."""
        from memkit.runtime import portability

        return portability.export(
            self._runtime.alive(), path_of(path, "path"), None if user_id is None else scope_id(user_id, "user_id")
        )

    @verb
    def import_(self, path: str | Path | Iterable[Mapping[str, Any]], *, drop_dangling: bool = False) -> Imported:
        """Read a file that `export` wrote into this store; what is already there is left as it is. Or take over what
        another system kept: mappings with text, user_id and, where known, agent_id, session_id, speaker, at, metadata,
        kind and key (its id over there). Returns how many records or memories are new.
        drop_dangling: a file that refers to what it does not hold is read without what does so; `.dropped` says how
        much that was."""
        if not isinstance(path, str | Path):
            return Imported(writes.adopt(self._runtime.alive(), path))
        from memkit.runtime import portability

        return portability.import_(self._runtime.alive(), path_of(path, "path"), drop_dangling=drop_dangling)

    @verb
    def flush(self) -> None:
        """Wait until every accepted turn is decided and LanceDB shows everything."""
        self._runtime.alive().flush()

    @verb
    def stats(self) -> dict[str, Any]:
        return care.stats(self._runtime.alive())

    @verb
    def doctor(self, *, repair: bool = False, reembed: bool = False, keep_turns: bool = False) -> Problems:
        """Check journal, projection and adapters against each other; repair rebuilds LanceDB from the journal.
        keep_turns: also make searchable what was said to a version that kept no words, but for what has ended since."""
        return care.doctor(self._runtime.alive(), repair=repair, reembed=reembed, keep_turns=keep_turns)

    @verb
    def parked(self, *, user_id: str | None = None) -> ParkedTurns:
        """Turns that are kept but could not be decided, with their reasons."""
        return care.list_parked(self._runtime.alive(), None if user_id is None else scope_id(user_id, "user_id"))

    @verb
    def retry(self, trace_ids: Iterable[str] | None = None, *, user_id: str | None = None, wait: bool = True) -> int:
        """Decide parked turns again: all of them, those named, or one user's. Returns how many."""
        return care.retry(self._runtime.alive(), trace_ids, user_id, wait)

    @property
    def held(self) -> HeldChanges:
        """What models asked for on the words of tools, documents or assistants, against what the user said."""
        return HeldChanges(self._runtime.alive())

    @verb
    def trainable(self, value: bool, *, user_id: str, agent_id: str | None = None) -> None:
        """Whether this user's decisions may be trained on (they may, unless switched off)."""
        care.set_trainable(
            self._runtime.alive(),
            Bank(scope_id(user_id, "user_id"), optional_id(agent_id, "agent_id")),
            agent_id,
            value,
        )
