"""memkit's own engine, asked what a reply to one state is worth, and replies of every kind to ask it about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memkit.embedders import make_embedder
from memkit.seams.backbone import GenReply, Replies
from memkit_train.lab.worlds import Episode, OracleBackbone, TeacherBackbone, Truth
from memkit_train.replay.env import Env, Policy
from memkit_train.rl.acting import Acting, Stopwatch
from memkit_train.rl.algorithms.values import share_earned
from memkit_train.rl.decisions import Decisions
from memkit_train.rl.pool import Place, Pool, places
from memkit_train.rl.rollouts import steps_of
from memkit_train.rl.scoring import others, scoring
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import of_world

EVERY = 10_000
"""Questions: all that there are."""


class Saying(OracleBackbone):
    def __init__(self) -> None:
        super().__init__(Truth(()))
        self.text = GenReply("")

    def generate(self, requests: Any) -> Replies:
        return [self.text] * len(requests)


@dataclass
class Engine:
    """With a policy that says what it is told to; the people are played by the teacher."""

    decisions: Decisions
    policy: Policy
    saying: Saying
    places: dict[str, Place]

    @classmethod
    def of(cls, role: str, episodes: Sequence[Episode]) -> Engine:
        asked = {"reward": {"answerer": "exact", "growth": 0.15}, "others": "world", "roles": [role]}
        online = OnlineSettings.model_validate({**asked, "questions": EVERY})
        env = Env(make_embedder("hash"))
        env = replace(env, served=replace(env.served, reasks=0))
        saying, truth = Saying(), Truth(episodes)
        acting = Acting(saying, online.roles, Stopwatch(), others("world", episodes))
        talks = of_world(episodes)
        found: dict[str, Place] = {}
        played = env.run([(env.start(one.script), Policy(TeacherBackbone(truth))) for one in talks], upto=None)
        for talk, trail in zip(talks, played, strict=True):
            found |= {one.key: one for one in places(talk, trail, online.roles)}
        scores = scoring(online.reward, env, acting, episodes)
        decisions = Decisions(env, Pool(env, talks, online, 0), scores, online, 0)
        return cls(decisions, Policy(acting, "policy", roles=online.roles), saying, found)

    def score(self, key: str, reply: str, cut: bool) -> float:
        place, trained = self.places[key], frozenset(self.policy.roles)
        ids = tuple(reply.encode()) or (0,)
        self.saying.text = GenReply(reply, prompt_ids=(1,), token_ids=ids, finish="length" if cut else "stop")
        (trail,) = self.decisions.env.run([(place.state, self.policy)])
        ((score,),) = self.decisions.score(0, self.policy, [place], [[trail]])
        return share_earned(score.total, steps_of(trail, trained))


def list_replies(right: str, shown: int) -> Iterator[tuple[str, bool]]:
    """(text, whether it was cut): right, wrong, forbidden, unreadable."""
    yield right, False
    yield right, True
    for said in ("NOOP", "NONE", "ADD", "1 Ana lives in Oslo.", "", "DELETE 99", f"I would say: {right}."):
        yield said, False
    yield "ADD Ana lives in Oslo.\nADD Ana has a dog.", False
    yield "UPDATE 1 Ana lives in Oslo.\nDELETE 1", False
    for handle in range(1, shown + 1):
        yield f"DELETE {handle}", False
        yield f"UPDATE {handle}", False
