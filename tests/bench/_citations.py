"""A small talkative world for the learned ranker: users chat with an assistant, later ask, and answers cite turns.

What there is to learn, and the default weights do not know: here the assistant asks and the user answers in a few words
that repeat nothing of the question, so the turn to cite often shares no word with what is asked later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from memkit.embedders.hash import HashEmbedder
from memkit.models import MemoryRecord
from memkit.retrieval import BankIndex, Query, embed_text, features, rank
from memkit_train.ranker.fit import RankExample

_TOPICS_TEXT = """
dog sister car garden brother job kitchen bike piano neighbour holiday cousin doctor flat dentist roof cat
teacher
"""
_TOPICS = _TOPICS_TEXT.split()
_ASPECTS = (
    "name",
    "colour",
    "age",
    "price",
    "birthday",
    "address",
    "favourite song",
    "size",
    "best friend",
    "nickname",
)
_VALUES_TEXT = "Biscuit green twelve Lisbon Tuesday Marta crimson forty Oslo Nina amber seven Porto Rufus violet ninety"
_VALUES = _VALUES_TEXT.split()
_CHAT = (
    "I had a long day with the {t}",
    "the {t} again, you know how it is",
    "thinking about the {t} and its {a} lately",
    "we talked about the {t} all evening",
    "nothing new about the {t}",
    "the {a} of the {t} is a funny story for later",
)
SERVED = 30


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    evidence: int
    """Row of the turn that holds the answer."""


@dataclass(frozen=True, slots=True)
class Talk:
    user: str
    index: BankIndex
    questions: tuple[Asked, ...]


def talk(user: str, rng: random.Random, topics: int = 9) -> Talk:
    records: list[MemoryRecord] = []
    asked: list[Asked] = []
    at = datetime(2024, 1, 1, 9, tzinfo=UTC)

    def say(speaker: str, text: str) -> int:
        origin = "assistant" if speaker == "assistant" else "user"
        number = len(records)
        records.append(
            MemoryRecord(
                id=f"{user}-{number}", text=text, kind="episode", at=at, speaker=speaker, origin=origin, seq=number + 1
            )
        )
        return number

    for topic in rng.sample(_TOPICS, topics):
        at += timedelta(days=rng.randint(1, 9))
        for aspect in rng.sample(_ASPECTS, 3):
            for _ in range(rng.randint(1, 3)):
                say("user", rng.choice(_CHAT).format(t=topic, a=aspect))
            value = rng.choice(_VALUES)
            if rng.random() < 0.7:
                say("assistant", f"By the way, what is the {aspect} of your {topic}?")
                row = say("user", f"{value}, and I am glad about it")
            else:
                row = say("user", f"The {aspect} of my {topic} is {value}")
            asked.append(Asked(f"What is the {aspect} of the {topic} of {user}?", row))
    vectors = HashEmbedder().embed([embed_text(record) for record in records])
    return Talk(user, BankIndex.build(records, vectors), tuple(asked))


def query(asked: Asked, k: int = SERVED) -> Query:
    return Query(asked.text, HashEmbedder().embed([asked.text])[0], k=k)


def cited(one: Talk, rng: random.Random, wrong: float = 0.1, shuffled: bool = False) -> list[RankExample]:
    """What logs hold: the served candidates of each question and the one that the answer cited, sometimes wrongly.
    Questions whose evidence was not served are answered without a citation."""
    out: list[RankExample] = []
    for asked in one.questions:
        served = [found.record.seq - 1 for found in rank(one.index, query(asked))]
        if asked.evidence not in served:
            continue
        choice = served.index(asked.evidence)
        if shuffled or rng.random() < wrong:
            choice = rng.randrange(len(served))
        relevant = np.zeros(len(served), dtype=bool)
        relevant[choice] = True
        out.append(RankExample(one.user, features(one.index, query(asked))[served], relevant))
    return out


def judged(one: Talk) -> list[RankExample]:
    """The truth about held-out users: all their rows, and the right one."""
    out: list[RankExample] = []
    for asked in one.questions:
        relevant = np.zeros(len(one.index), dtype=bool)
        relevant[asked.evidence] = True
        out.append(RankExample(one.user, features(one.index, query(asked)), relevant))
    return out
