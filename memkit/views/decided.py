"""Decisions: the newest of a user, and one in full with its prompt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memkit.errors import NotFound
from memkit.models import JSON
from memkit.runtime.care import tell_decision
from memkit.views.records import Chunk, DecisionDetail

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime

_SCANNED = 2_000
"""Decisions that are looked through for a text, before the page ends."""


def list_decisions(runtime: Runtime, user_id: str, before: str | None, limit: int, grep: str = "") -> Chunk:
    """Newest first; `grep`: only those whose turns, prompts, replies or operations say it."""
    found: list[JSON] = []
    needle, scanned = grep.casefold(), 0
    while len(found) < limit and scanned < _SCANNED:
        page = runtime.journal.decisions(user_id=user_id, after=before, limit=limit, newest_first=True, gaps=True)
        for record in page:
            if not record.payload:
                continue
            told = tell_decision(runtime, record)
            if not needle or needle in _words(told).casefold():
                found.append(told)
        scanned += len(page)
        if len(page) < limit:
            return Chunk(found, None)
        before = page[-1].decision_id
    return Chunk(found[:limit], found[limit - 1]["decision_id"] if len(found) >= limit else before)


def _words(told: JSON) -> str:
    """Everything that a person could read in it."""
    parts = [told.get("reply") or ""]
    parts += [turn["text"] for turn in told["turns"]] + [one["text"] for one in told["candidates"]]
    parts += [op["text"] or "" for op in told["ops"]]
    parts.append(str(told.get("extra", {}).get("reason", "")))
    return "\n".join(parts)


def tell_in_full(runtime: Runtime, user_id: str, decision_id: str) -> DecisionDetail:
    records = runtime.journal.decisions(user_id=user_id, decision_id=decision_id)
    if not records:
        raise NotFound(
            "no such decision of this user",
            why="it belongs to somebody else, or was erased",
            fix="look at the user's list of decisions",
        )
    (record,) = records
    told = tell_decision(runtime, record)
    prompt = record.blobs.get(str(record.payload.get("prompt_hash")))
    logprobs = record.payload.get("logprobs")
    return DecisionDetail(
        told,
        tuple((role, text) for role, text in json.loads(prompt)) if prompt else (),
        sum(logprobs) if logprobs else None,
        _shadows(runtime, user_id, decision_id),
    )


def _shadows(runtime: Runtime, user_id: str, decision_id: str) -> tuple[JSON, ...]:
    if not runtime.has_adapters:
        return ()
    from memkit.adapters.shadow import SHADOW, ShadowLog

    log = ShadowLog(runtime.adapters.registry.root / SHADOW)
    return tuple(
        {
            "candidate": one.candidate,
            "served": one.live,
            "served_ops": one.live_ops,
            "ops": one.candidate_ops,
            "error": one.error,
            "agrees": one.agrees,
        }
        for one in log.read()
        if one.decision_id == decision_id and one.user_id == user_id
    )
