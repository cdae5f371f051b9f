"""An app whose field the small manager does not know (`memkit_train.lab.field`): its log, and its full labels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.backbone import SHIPPED
from memkit.embedders import make_embedder
from memkit_train.lab.demo.chatbot import Chatbot, Visit
from memkit_train.lab.field import FieldUser, generate_field, read_answer
from memkit_train.lab.field.talk import label_talk
from memkit_train.lab.small.scenes import clause_rows, relation_rows
from memkit_train.lab.worlds import Manners
from memkit_train.rows import ChoiceRow

MANNERS = Manners(0.3, 0.1, corrects=0.35)


def log_field(store: Path, users: int, seed: int, manners: Manners = MANNERS) -> datetime:
    """The day after all was said."""
    with open_desk(store, SHIPPED) as chatbot:
        talk = [Visit(one, one.user_id, manners, seed=seed) for one in generate_field(users, seed=seed)]
        log = chatbot.serve(talk)
    return max(one.question.asked_at for one in log) + timedelta(days=1)


def open_desk(store: Path, weights: Path) -> Chatbot:
    options = {"embedder": "minilm", "keep_turns": "all"}
    return Chatbot(store, SmallBackbone(weights=weights), reads=read_answer, users=FieldUser, **options)


def label_fully(users: Sequence[str]) -> list[ChoiceRow]:
    """What the manager should have chosen all through the talk of these users."""
    embedder, rows = make_embedder("minilm"), list[ChoiceRow]()
    for user in users:
        scene = label_talk(user)
        rows += [*clause_rows(scene), *relation_rows(scene, embedder)]
    return rows
