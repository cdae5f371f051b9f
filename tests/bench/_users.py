"""Simulated users at an app whose memory is run by a tiny model: what they leave behind is all that training gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memkit.backbones.hf import HFBackbone
from memkit.engine.served_with import ServedWith
from memkit.seams.backbone import Backbone
from memkit_train.lab.demo.chatbot import AT_ONCE, Chatbot, Visit
from memkit_train.lab.worlds import Episode, Manners
from memkit_train.replay.env import beside

SERVED = ServedWith(answer_candidates=8)
"""The tiny checkpoints were taught to read up to eight memories."""
OPTIONS = {"workers": 0, "answer_candidates": SERVED.answer_candidates}


def live(
    path: Path,
    episodes: Sequence[Episode],
    model: Path,
    *,
    manners: Manners,
    seed: int = 0,
    explore: float = 0.0,
    others: Backbone | None = None,
    roles: Sequence[str] = ("manager",),
) -> float:
    """Every user's months with the app, into a store at `path`; returns the share of right answers. `others` answers in
    all roles but `roles`; None: the model does."""
    with (
        HFBackbone(model, threads=1, max_batch=AT_ONCE) as backbone,
        Chatbot(path, beside(backbone, others, roles), explore=explore, config=OPTIONS) as chatbot,
    ):
        found = chatbot.serve([Visit(one, one.user_id, manners, seed=seed) for one in episodes])
    return sum(one.right for one in found) / len(found)
