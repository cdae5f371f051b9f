"""Reads: what was asked, what was found with which signals, what was said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memkit.errors import NotFound
from memkit.models import JSON, MemoryRecord
from memkit.retrieval.context import estimate_tokens
from memkit.retrieval.weights import RANKINGS, TO_MANAGERS, RankerWeights
from memkit.views.records import Chunk, ReadStory, ServedMemory

if TYPE_CHECKING:
    from memkit.journal import Trace
    from memkit.journal.journal import Journal

PLACE = "place"
"""What a memory has from its place: of one that says nearly the same, or behind the first."""
_ROUNDING = 0.001


def list_reads(journal: Journal, user_id: str, before: str | None, limit: int, grep: str = "") -> Chunk:
    """Newest first, each without the memories that it was served."""
    found: list[JSON] = []
    needle = grep.casefold()
    while len(found) < limit:
        page = journal.recent_traces(user_id=user_id, before=before, limit=limit)
        for trace in page:
            payload = trace.payload
            text = f"{payload.get('question', '')}\n{payload.get('answer') or ''}"
            if needle and needle not in text.casefold():
                continue
            found.append(
                {
                    "trace_id": trace.trace_id,
                    "kind": trace.kind,
                    "at": trace.created_at,
                    "question": payload.get("question", ""),
                    "answer": payload.get("answer"),
                    "served": len(payload.get("served", ())),
                    "cited": len(payload.get("cited", ())),
                    "feedback": [
                        tell_feedback(one.payload, one.source) for one in journal.feedback_for(trace.trace_id)
                    ],
                }
            )
        if len(page) < limit:
            return Chunk(found[:limit], found[limit - 1]["trace_id"] if len(found) > limit else None)
        before = page[-1].trace_id
    return Chunk(found[:limit], found[limit - 1]["trace_id"])


def tell_feedback(payload: Mapping[str, Any], source: str) -> JSON:
    """One piece of feedback, with whether it praises: None where it only says something."""
    return {**payload, "source": source, "good": verdict_of(payload)}


def verdict_of(payload: Mapping[str, Any]) -> bool | None:
    if "reward" in payload:
        return payload["reward"] >= 0.5
    return {"up": True, "down": False}.get(str(payload.get("label")))


def tell_read(journal: Journal, user_id: str, trace_id: str) -> ReadStory:
    trace = journal.trace(user_id, trace_id)
    if trace is None:
        raise NotFound(
            "no such read of this user",
            why="it belongs to somebody else, was erased, or was not sampled",
            fix="look at the user's list of questions",
        )
    payload = trace.payload
    served = _served(journal, trace)
    return ReadStory(
        trace_id,
        trace.kind,
        user_id,
        trace.bank.agent_id or None,
        trace.created_at,
        str(payload.get("question", "")),
        payload.get("answer"),
        payload.get("observed"),
        bool(payload.get("abstained")),
        served,
        payload.get("max_tokens"),
        sum(one.tokens for one in served),
        "default" if _built_in(payload) else str(payload["ranker"]),
        payload.get("adapter"),
        payload.get("decision_id"),
        str(payload.get("cited_by", "")),
        tuple(
            tell_feedback(one.payload, one.source) | {"at": one.created_at, "feedback_id": one.feedback_id}
            for one in journal.feedback_for(trace_id)
        ),
        trace.state_seq,
    )


def _served(journal: Journal, trace: Trace) -> tuple[ServedMemory, ...]:
    payload, user_id = trace.payload, trace.bank.user_id
    cited = {(one["id"], one["revision"]) for one in payload.get("cited", ())}
    weights = _built_in(payload)
    values, behind = (dict(weights.values), dict(weights.behind)) if weights else ({}, {})
    rows: list[JSON] = [*({**one, "rank": 0} for one in payload.get("core", ())), *payload.get("served", ())]
    found: list[ServedMemory] = []
    for one in rows:
        then, now = _images(journal, user_id, one["id"], one["revision"])
        signals = {name: value for name, value in one.get("signals", {}).items() if value}
        by = behind if weights and weights.behind and one["rank"] > weights.first else values
        shares = {name: round(by[name] * value, 4) for name, value in signals.items() if by.get(name)}
        if shares and abs(rest := float(one["score"]) - sum(shares.values())) > _ROUNDING:
            shares[PLACE] = round(rest, 4)
        text = then.text if then else "(erased)"
        found.append(
            ServedMemory(
                one["id"],
                one["revision"],
                one["rank"],
                float(one.get("score", 0.0)),
                text,
                dict(sorted(shares.items(), key=lambda pair: -abs(pair[1]))),
                signals,
                (one["id"], one["revision"]) in cited,
                estimate_tokens(text),
                now is not None and now.revision == one["revision"],
            )
        )
    return tuple(found)


def _built_in(payload: Mapping[str, Any]) -> RankerWeights | None:
    """The weights that a read was ranked by, where no log taught them. Earlier reads called theirs "default"."""
    known = {one.digest: one for pair in RANKINGS.values() for one in pair}
    return (known | {"default": TO_MANAGERS}).get(payload.get("ranker", "default"))


def _images(
    journal: Journal, user_id: str, memory_id: str, revision: int
) -> tuple[MemoryRecord | None, MemoryRecord | None]:
    """The memory at that revision, and as it is now."""
    now = journal.get(user_id, memory_id)
    if now is not None and now[1].revision == revision:
        return now[1], now[1]
    ops = journal.ops(user_id=user_id, memory_id=memory_id)
    then = next((op.after for op in ops if op.after is not None and op.after.revision == revision), None)
    return then, now[1] if now else None
