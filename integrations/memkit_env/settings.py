"""What is asked, of whom, and what counts. All of it is on the task's own section, because verifiers rebuilds a task in
another process from its data and that section alone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from memkit.errors import InvalidConfig
from memkit_train.retrain.config import TrainConfig
from memkit_train.rl.settings import RewardSettings

WORLD = "closed,count=64,seed=1,sessions=8,probes=8"
EXACT = "exact"
Share = Annotated[float, Field(ge=0, lt=1)]
OF_WORLD = 0.15
_USUAL = RewardSettings()


class StateSettings(BaseModel):
    role: Literal["manager", "extractor", "fused"] = "manager"
    """Who is trained. manager: operations for one fact. extractor: facts of a turn. fused: both in one call."""
    world: str | None = None
    """A generated world. None, and nothing else is named: 64 people who talk about what changes in their lives."""
    log: str | None = None
    """A store's folder, postgresql://…, or a bundle: its states, as they were."""
    spoken: str | None = None
    """Conversations of a file in a form that `memkit-train eval` reads, e.g. `jsonl:facts.jsonl`."""
    split: Literal["train", "validation", "heldout"] = "train"
    """Whose states. validation chooses a checkpoint; heldout is left to the last judgement (`memkit-train gate`). A
    world has people to train on and others; for it the latter two are the same."""
    split_seed: int = 0
    heldout_share: Share = 0.2
    validation_share: Share = 0.2
    seed: int = 0
    """Which states are guards, which questions are asked, and where the people of a world are badly remembered."""
    questions: Annotated[int, Field(ge=1)] = 8
    """Asked of each reply at most; the same ones of every reply to a state."""
    guard_share: Share = 0.25
    """Share of the states where no question turns on the decision: it may still destroy, or store junk."""
    embedder: str | None = None
    """None: the log's own, which alone may be named; in a world and of a file `hash`."""
    answerer: str | None = None
    """Who answers from the changed bank: exact (a world's own, without a model) or `openai:NAME`. None: exact."""
    others: str | None = None
    """Who speaks in the other roles. None: in a world who hears and decides rightly; in a log the log; of a file every
    turn of a user is one fact."""
    base_url: str | None = None
    """Of `openai:NAME`; the key is memkit's usual one, OPENAI_API_KEY."""
    metric: Literal["f1", "em"] = _USUAL.metric
    growth: Annotated[float, Field(ge=0)] | None = None
    """Taken off per memory that is added. None: 0.15 in a world, which asks about everything, and in a log, which does
    not, the trainer's 0.05: there a high price teaches to write new facts over old ones."""
    validity: Annotated[float, Field(ge=0)] = _USUAL.validity
    """For a reply in the format that breaks no rule."""

    @property
    def reward_settings(self) -> RewardSettings:
        usual = OF_WORLD if self.is_world else _USUAL.growth
        growth = usual if self.growth is None else self.growth
        return RewardSettings(
            answerer=self.answerer or EXACT, metric=self.metric, growth=growth, validity=self.validity
        )

    def as_trained(self) -> TrainConfig:
        """What the trainer would call the same log: it says who is on which side."""
        data = {
            **({"world": self.world or WORLD} if self.log is None else {"store": self.log}),
            "roles": (self.role,),
            "split_seed": self.split_seed,
            "heldout_share": self.heldout_share,
            "validation_share": self.validation_share,
        }
        online = {"roles": (self.role,)}
        return TrainConfig.model_validate(
            {"data": data, "model": {"base": "served"}, "method": {"polish": True}, "online": online}
        )

    @property
    def is_world(self) -> bool:
        return self.log is None and self.spoken is None

    def check(self) -> StateSettings:
        """Itself, or why it cannot be."""
        named = [name for name in ("world", "log", "spoken") if getattr(self, name) is not None]
        if len(named) > 1:
            raise InvalidConfig(
                "states come from one place", why=f"{' and '.join(named)} are named", fix="leave out all but one"
            )
        if self.is_world:
            return self
        if self.answerer in (None, EXACT):
            raise InvalidConfig(
                f"nobody answers the questions of this {named[0]}",
                why="exact only understands a generated world",
                fix="name a frozen model, answerer=openai:NAME (with base_url for a server of your own)",
            )
        if self.role == "extractor" and self.others is None:
            raise InvalidConfig(
                "nobody manages what the extractor finds",
                why="what was done with other facts says nothing of these",
                fix="name a model, others=openai:NAME; or train role=manager or role=fused, which need none",
            )
        return self
