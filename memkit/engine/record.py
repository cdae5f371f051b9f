"""A decision as it is logged: every field of the trajectory record, or the reason why it is absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from memkit.engine.call import ModelCall
from memkit.errors import MemkitError
from memkit.models import JSON, WORDS_NOT_KEPT, Bank, DecisionRecord, OpDraft, digest, to_json
from memkit.roles import Prompt, Shown
from memkit.seams.backbone import GenReply

RECORD_VERSION = 1

_MAYBE = ("prompt_ids", "token_ids", "logprobs", "sampled_logprobs")
"""Fields that only some backbones can give."""
_WORDS = ("prompt_hash", "reply", *_MAYBE)
"""Fields that say, or stand for, what was said."""


def edition_of(payload: Mapping[str, Any]) -> int:
    """The rules by which a logged decision was made; version 0.1.0 did not record them."""
    edition = payload.get("edition")
    return edition if isinstance(edition, int) else 1


def prompt_text(prompt: Prompt) -> str:
    """The rendered prompt as stored: content-addressed, so that equal prompts are kept once."""
    return to_json([[message.role, message.content] for message in prompt.messages])


def decision_record(
    call: ModelCall, *, bank: Bank, intake_id: str | None, source_turns: Sequence[str], created_at: datetime
) -> DecisionRecord:
    prompts = [attempt.prompt for attempt in call.attempts] or [call.prompt]
    blobs = {digest(text): text for text in map(prompt_text, prompts)}
    reply = call.reply
    missing = dict(reply.missing) if reply else {name: "the model gave no reply" for name in _MAYBE}
    payload: JSON = {
        "v": RECORD_VERSION,
        "decision_id": call.decision_id,
        "role": call.role,
        "state_seq": call.state_seq,
        "candidates": [candidate(one) for one in call.candidates],
        "prompt_hash": digest(prompt_text(prompts[-1])),
        "prompt_version": call.prompt.version,
        "style": call.prompt.style,
        "sampling": asdict(call.request.sampling),
        "adapter": call.routing.adapter,
        "alias": call.routing.alias,
        "alias_version": call.routing.alias_version,
        "propensity": call.routing.propensity,
        "attempts": [
            {
                "prompt_hash": digest(prompt_text(a.prompt)),
                "reply": a.reply.text if a.reply else None,
                "finish": a.reply.finish if a.reply else "error",
                "calls": a.reply.usage.calls if a.reply else 0,
                "error": describe_error(a.error),
            }
            for a in call.attempts
        ],
        "parse": {"ok": call.error is None, "repairs": list(call.repairs), "error": describe_error(call.error)},
        "drafts": [{"action": draft.action, "memory_id": draft.memory_id, "text": draft.text} for draft in call.drafts],
        "source_turns": list(source_turns),
    }
    if call.edition is not None:
        payload["edition"] = call.edition
    if call.held:
        payload["held"] = [one.to_json() for one in call.held]
    payload |= _generated(reply, missing)
    payload["missing"] = missing
    return DecisionRecord(
        decision_id=call.decision_id,
        intake_id=intake_id,
        bank=bank,
        role=call.role,
        state_seq=call.state_seq,
        payload=payload,
        blobs=blobs,
        created_at=created_at,
    )


def without_words(record: DecisionRecord) -> DecisionRecord:
    """The record of a decision on words that are not kept: who decided, what it cost and what came of it. Of what the
    backbone says beside its reply, only why it wrote nothing."""
    payload = {name: value for name, value in record.payload.items() if name not in _WORDS}
    extra = payload.get("extra", {})
    payload |= {
        "reply": None,
        "attempts": [{name: one[name] for name in ("finish", "calls")} for one in payload["attempts"]],
        "drafts": [draft | {"text": None} for draft in payload["drafts"]],
        **({"held": [one | {"text": None} for one in payload["held"]]} if "held" in payload else {}),
        "extra": {"reason": extra["reason"]} if "reason" in extra else {},
        **{name: _unquoting(payload[name]) for name in ("parse", "apply") if name in payload},
        "missing": {**payload["missing"], **dict.fromkeys(_WORDS, WORDS_NOT_KEPT)},
    }
    return replace(record, payload=payload, blobs={})


def _unquoting(outcome: JSON) -> JSON:
    """What became of a reply, its error by name alone: some quote a word of it."""
    error = outcome["error"]
    return outcome | {"error": error and {"type": error["type"], "what": WORDS_NOT_KEPT, "details": {}}}


def drafts_without_words(drafts: Sequence[OpDraft], source_turns: Sequence[str]) -> list[OpDraft]:
    """Memories stay as they were decided; an op that leaves none says only that the words were not kept."""
    kept = [replace(one, text=None) if one.action in ("delete", "noop") else one for one in drafts]
    return [*kept, OpDraft("noop", text=WORDS_NOT_KEPT, source_turns=tuple(source_turns))]


def reason(payloads: Iterable[JSON]) -> str:
    """Why decisions wrote nothing, in plain words: what the manager said of it (the rules do), else what its reply
    means."""
    decisions = list(payloads)
    given = [str(payload["extra"]["reason"]) for payload in decisions if payload.get("extra", {}).get("reason")]
    if given:
        return "; ".join(dict.fromkeys(given))
    known = any(draft["memory_id"] for payload in decisions for draft in payload["drafts"])
    return "known already" if known else "the manager kept nothing"


def _generated(reply: GenReply | None, missing: dict[str, str]) -> JSON:
    """What the backbone reports of its reply; `missing` gains a reason for each field that it leaves out."""
    out: JSON = {
        "reply": reply.text if reply else None,
        "model": reply.model if reply else None,
        "served_by": reply.adapter if reply else None,
        "finish": reply.finish if reply else "error",
        "usage": asdict(reply.usage) if reply else None,
        "latency_ms": round(reply.latency_ms, 3) if reply else None,
        "extra": dict(reply.extra) if reply else {},
    }
    for name in _MAYBE:
        value = getattr(reply, name) if reply else None
        if value is None:
            missing.setdefault(name, "this backbone does not report it")
        else:
            out[name] = [round(x, 7) for x in value] if "logprobs" in name else list(value)
            missing.pop(name, None)
    return out


def candidate(shown: Shown) -> JSON:
    return {
        "handle": shown.handle,
        "id": shown.record.id,
        "revision": shown.record.revision,
        "score": round(float(shown.score), 6),
        "signals": {name: round(float(value), 6) if value else 0.0 for name, value in shown.signals.items()},
    }


def describe_error(error: MemkitError | None) -> JSON | None:
    """An error in the log: its class and words. Messages hold no content by rule, so neither does this."""
    if error is None:
        return None
    return {"type": type(error).__name__, "what": str(error), "details": {k: str(v) for k, v in error.details.items()}}
