"""How the trainer has requests answered: patiently, many at a time, and never from a model that is away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memkit.errors import BadReply, ModelError, ModelRefused, ReplyTooLarge
from memkit.seams.backbone import Backbone, GenRequest, Replies

PATIENCE_S = 3600.0
"""Nobody waits for a replayed reply: a queue before the model is no reason to give it up."""
_CLOSED = (401, 403, 404)
"""Refusals of whoever asks, not of what is asked."""


def generate(backbone: Backbone, requests: Sequence[GenRequest]) -> Replies:
    """One reply per request, as many at a time as the backbone takes. What a model cannot do (a prompt that is too long
    for it) stands in its place, as it would have parked the turn. A model that is away raises: what it did not say is
    nobody's decision, and must not be scored as one."""
    out: Replies = []
    size = max(1, backbone.max_parallel)
    patient = [replace(request, deadline_s=PATIENCE_S) for request in requests]
    for start in range(0, len(requests), size):
        out += backbone.generate(patient[start : start + size])
    for reply in out:
        if isinstance(reply, ModelError) and _away(reply):
            raise reply
    return out


def _away(error: ModelError) -> bool:
    if isinstance(error, ModelRefused):
        return error.details.get("status") in _CLOSED or error.details.get("reason") == "address"
    return not isinstance(error, BadReply | ReplyTooLarge)
