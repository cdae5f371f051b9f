"""From the journal to the LanceDB table `trajectories`, in large groups: what a decision was made of is kept for
training, not for serving, and one columnar file reads back many times faster than a million small rows.

A payload leaves the journal only after it was appended, synced to disk and read back equal. Turns, ops and the fact
that a decision was made stay in the journal for ever; readers of the journal get sealed payloads from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from memkit.errors import StoreDamaged
from memkit.models import JSON

if TYPE_CHECKING:
    from memkit.journal import DecisionRecord, Journal
    from memkit.store import Trajectories, TrajectoryRow

GROUP = 1_000
"""Decisions that wait in the journal before they are sealed, and that go into one commit."""


class Sealer:
    def __init__(self, journal: Journal, table: Callable[[], Trajectories], *, maintain_commits: int = 100) -> None:
        self._journal, self._table, self._maintain_commits = journal, table, maintain_commits
        journal.sealed = self.read

    def read(self, numbers: Sequence[int]) -> Mapping[int, tuple[JSON, Mapping[str, str]]]:
        return self._table().fetch(numbers)

    def seal(self, *, force: bool = False) -> int:
        """Move full groups, with `force` everything; returns how many decisions moved. Interrupted anywhere, the next
        call continues: a payload is in the journal until its copy is proven."""
        if self._journal.is_shared:
            return 0  # the folder is this machine's alone: what is in it and nowhere else, the others would miss
        if self._journal.unsealed_count() < (1 if force else GROUP):
            return 0
        from memkit.store.lance import forked_after_loading

        if forked_after_loading():
            return 0  # writing to LanceDB may hang there; others seal
        table, moved = self._table(), 0
        with self._journal.applier_lock():
            while page := self._journal.read_unsealed(limit=GROUP):
                if len(page) < GROUP and not force:
                    break
                self._move(table, page)
                moved += len(page)
        if table.commits_since_maintenance >= self._maintain_commits:
            table.maintain()
        return moved

    def _move(self, table: Trajectories, page: Sequence[tuple[int, DecisionRecord]]) -> None:
        rows = [self._row(number, record) for number, record in page]
        wrong = self._copy(table, rows)
        if wrong and table.heal():  # a power cut tore the version that holds an earlier copy of them
            wrong = self._copy(table, rows)
        if wrong:
            raise StoreDamaged(
                f"{len(wrong)} sealed decisions cannot be read back as they were written",
                why="the disk failed, or the table `trajectories` belongs to another state of this journal",
                fix="nothing is lost, the journal still has them; move the folder sealed aside and call flush()",
            )
        self._journal.drop_payloads([number for number, _ in page])

    def _copy(self, table: Trajectories, rows: Sequence[TrajectoryRow]) -> Sequence[int]:
        """Which of them cannot be read back as they are."""
        table.append(rows)
        table.sync()
        return table.differing(rows)

    def _row(self, number: int, record: DecisionRecord) -> TrajectoryRow:
        from memkit.store import TrajectoryRow

        return TrajectoryRow(
            seq=number,
            decision_id=record.decision_id,
            bank=record.bank,
            role=record.role,
            state_seq=record.state_seq,
            payload=record.payload,
            created_at=record.created_at,
            intake_id=record.intake_id or "",
            blobs=record.blobs,
            trainable=self._journal.is_trainable(record.bank),
        )
