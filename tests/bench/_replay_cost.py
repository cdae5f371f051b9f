"""What replaying one decision costs beside the model: find the candidates, resolve the ops, step the bank.

    python -m tests.bench._replay_cost

The steps are those of `memkit_train.replay.Env`: `decide` ranks and resolves, then the environment resolves
the turn's batch and steps the bank. Prompts, parsing and the model are not in it."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median

from memkit.embedders.hash import HashEmbedder
from memkit.engine.bank import LiveBank
from memkit.models import Bank, MemoryRecord, OpDraft
from memkit.ops import Context, resolve
from memkit.retrieval import Scored
from tests.bench._table import Row, as_text

SIZE = 300
DECISIONS = 400
ROUNDS = 7
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BANK = Bank("ana")
SHARES = {"add": 0.3, "update": 0.25, "delete": 0.3, "noop": 0.15}
"""As many end as begin, so that the bank keeps its size."""

_WHO = ("Ana", "Ana's sister", "Ben", "my neighbour Joe", "Dr. Okafor", "the new manager", "Mia", "our landlord")
_DOES = ("lives in", "moved to", "works at", "bought a ticket to", "grew up near", "is learning to cook in")
_WHERE = ("Oslo", "Bergen", "Lisbon", "a bakery on Mill Lane", "the harbour office", "Kyoto", "a farm outside Turin")
_EXTRA = ("since last May", "with two cats", "because of the weather", "and likes it", "for the third time", "again")


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy said: the fact that was looked up, and the operation on the n-th memory that was shown."""

    fact: str
    action: str
    target: int
    at: datetime
    turn: str


def run() -> list[Row]:
    rng = random.Random(11)
    start = LiveBank.of(_records(rng), HashEmbedder(), SIZE)
    decisions = [_decision(rng, number) for number in range(DECISIONS)]
    replayed(start, decisions)  # words are read and caches filled, as in any replay but the first
    costs: list[float] = []
    for _ in range(ROUNDS):
        before = time.thread_time()
        end = replayed(start, decisions)
        costs.append((time.thread_time() - before) / len(decisions) * 1e3)
    cost = median(costs)
    kinds = Counter(decision.action for decision in decisions)
    return [
        Row(
            "replay cost: ops + retrieval per decision",
            cost,
            "ms CPU",
            "≤ 0.3",
            cost <= 0.3,
            f"{SIZE} → {len(end)} memories; {', '.join(f'{n} {action}' for action, n in sorted(kinds.items()))};"
            f" median of {ROUNDS} ({min(costs):.3f}–{max(costs):.3f})",
        ),
    ]


def replayed(live: LiveBank, decisions: list[Decision]) -> LiveBank:
    embedder = HashEmbedder()
    for number, decision in enumerate(decisions):
        (shown,) = live.candidates([decision.fact], embedder, k=5, now=decision.at)
        drafts = [_draft(decision, shown)]
        context = Context(BANK, f"d_{number}", live.seq + 1, decision.at, decision.at)
        resolve(live.state, drafts, context)  # as `decide` does, to judge the reply
        live = live.after(resolve(live.state, drafts, context), embedder)
    return live


def _draft(decision: Decision, shown: list[Scored]) -> OpDraft:
    target = shown[decision.target].record.id
    match decision.action:
        case "add":
            return OpDraft("add", text=decision.fact, source_turns=(decision.turn,), at=decision.at)
        case "update":
            return OpDraft("update", target, decision.fact, source_turns=(decision.turn,), at=decision.at)
        case "delete":
            return OpDraft("delete", target, at=decision.at)
        case _:
            return OpDraft("noop")


def _decision(rng: random.Random, number: int) -> Decision:
    action = rng.choices(list(SHARES), list(SHARES.values()))[0]
    return Decision(_fact(rng, SIZE + number), action, rng.randrange(5), NOW + timedelta(minutes=number), f"t_{number}")


def _records(rng: random.Random) -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"m_{n}",
            text=_fact(rng, n),
            at=NOW - timedelta(hours=SIZE - n),
            seq=n + 1,
            content_hash=f"h{n}",
            speaker="Ana" if n % 3 else "",
            session_id=f"s{n // 20}",
            created_at=NOW,
            updated_at=NOW,
        )
        for n in range(SIZE)
    ]


def _fact(rng: random.Random, number: int) -> str:
    extra = " ".join(rng.sample(_EXTRA, rng.randint(0, 2)))
    return f"{rng.choice(_WHO)} {rng.choice(_DOES)} {rng.choice(_WHERE)} {extra}, note {number}."


if __name__ == "__main__":
    print(as_text(run()))
