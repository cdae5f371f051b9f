"""What can be taken over of a file that refers to what it does not hold. Earlier versions read an export piece by piece
while others wrote, so a piece could refer to what an earlier piece had come too soon for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from memkit.models import JSON


class Untorn:
    """Asked about the records of one file, in their order. An op is left out where its turn is missing or undecided in
    the file (it will be decided again), or where it changes what an op left out before it made."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        """Kind of record → how many were left out."""
        self._named: set[str] = set()
        self._decided: set[str] = set()
        self._heads: dict[tuple[Any, str], tuple[int, str]] = {}
        """(Bank, memory) → the op that wrote it last, and its content."""
        self._contents: dict[tuple[Any, str], str] = {}
        """(Bank, content) → the memory that holds it."""
        self._in_vain: set[str] = set()
        """Decisions of ops that were left out."""

    def keeps(self, record: JSON) -> bool:
        kept = True
        match record["record"]:
            case "intake":
                self._named.add(record["intake_id"])
                if record["status"] == "applied":
                    self._decided.add(record["intake_id"])
            case "trace":
                self._named.add(record["trace_id"])
            case "op":
                kept = self._keeps_op(record)
            case "decision":
                is_here = record["intake_id"] is None or record["intake_id"] in self._named
                kept = is_here and record["decision_id"] not in self._in_vain
            case "feedback":
                kept = record["trace_id"] in self._named
            case _:
                pass
        if not kept:
            self.dropped[record["record"]] += 1
        return kept

    def _keeps_op(self, op: JSON) -> bool:
        turns = self._named if op["cause"] == "said" else self._decided
        if (op["intake_id"] is None or op["intake_id"] in turns) and self._follows(op):
            return True
        self._in_vain.add(op["decision_id"])
        return False

    def _follows(self, op: JSON) -> bool:
        """Whether the op goes on from what those before it made; if so, it is what the next ones go on from."""
        memory, before, after = op["memory_id"], op["before"], op["after"]
        if memory is None:
            return True
        bank = op["bank"]["user_id"], op["bank"]["agent_id"]
        seq, content = self._heads.get((bank, memory), (None, ""))
        if seq != (None if before is None else before["seq"]):
            return False
        if after is not None and self._contents.get((bank, after["content_hash"])) not in (None, memory):
            return False
        self._heads.pop((bank, memory), None)
        self._contents.pop((bank, content), None)
        if after is not None:
            self._heads[bank, memory] = after["seq"], after["content_hash"]
            self._contents[bank, after["content_hash"]] = memory
        return True
