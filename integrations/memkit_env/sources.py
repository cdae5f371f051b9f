"""Where states come from, and who speaks in the roles that are not trained.

A world's people are played by a manager with bad habits, so that banks hold what real ones hold: doubles, stale facts,
jokes. A log's banks are those of the log; what its extractor heard is said again, in lines, whatever it was asked in.
A file's banks hold every fact beside the last, as those of a memory without a manager do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memkit.backbones import make_backbone
from memkit.embedders import Embedder, make_embedder
from memkit.embedders.recorded import name_of, remake
from memkit.errors import BadReply, InvalidConfig
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Replies
from memkit_env.settings import EXACT, WORLD, StateSettings
from memkit_env.spoken import VerbatimHearing, read_talks
from memkit_train.credit.assign import learn_topics
from memkit_train.lab.worlds import OracleBackbone, TeacherBackbone, Truth, dataset
from memkit_train.log.records import Trajectory
from memkit_train.log.source import StoreSource
from memkit_train.replay.env import Env, Policy, State, beside
from memkit_train.replay.rewrite import Rewriter
from memkit_train.replay.served_with import served_with
from memkit_train.retrain.collect import open_source, sides, validation
from memkit_train.rewards.cached import CachedBackbone
from memkit_train.rl.talks import Talk, of_log, of_world


@dataclass(frozen=True, slots=True)
class StateSource:
    env: Env
    talks: Sequence[tuple[Talk, list[State]]]
    """Conversations, and the bank before each of their scenes."""
    others: Backbone
    answerer: Backbone
    oracle: OracleBackbone | None = None
    """Who knows what is right; nobody does of a log."""


@dataclass(slots=True)
class SaidReply:
    """Says one thing, whatever it is asked, in the style of local models."""

    reply: GenReply
    style: str = "compact"
    identity: str = "said"
    max_parallel: int = 1 << 20

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self.reply] * len(requests)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class LoggedHearing:
    """What was heard in the scenes of a log, by the decision that heard it."""

    heard: Mapping[str, str]
    style: str = "compact"
    identity: str = "log"
    max_parallel: int = 1 << 20
    missing: str = field(default="the log does not say what was heard", init=False)

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [
            GenReply(self.heard[one.key], model=self.identity) if one.key in self.heard else BadReply(self.missing)
            for one in requests
        ]

    def close(self) -> None:
        """Nothing is held."""


def open_states(settings: StateSettings) -> StateSource:
    if settings.check().spoken is not None:
        return _of_file(settings)
    return _of_world(settings) if settings.is_world else _of_log(settings)


def _of_world(settings: StateSettings) -> StateSource:
    side = "train" if settings.split == "train" else "heldout"
    made = dataset.load(f"{settings.world or WORLD},split={side}").conversations
    episodes = [one.info["episode"] for one in made]
    truth = Truth(episodes)
    oracle = OracleBackbone(truth)
    env = Env(make_embedder(settings.embedder), served_with(None, settings.as_trained().data))
    states = _play(env, of_world(episodes), Policy(TeacherBackbone(truth, seed=settings.seed)))
    named = settings.reward_settings.answerer
    answerer = oracle if named == EXACT else _hosted(settings, named)
    others = oracle if settings.others is None else _hosted(settings, settings.others)
    return StateSource(env, states, others, answerer, oracle)


def _of_file(settings: StateSettings) -> StateSource:
    env = Env(make_embedder(settings.embedder), served_with(None, settings.as_trained().data))
    hearing = VerbatimHearing() if settings.others is None else _hosted(settings, settings.others)
    adding = Policy(beside(SaidReply(GenReply("ADD")), hearing, ("manager",)))
    states = _play(env, read_talks(settings), adding)
    return StateSource(env, states, hearing, _hosted(settings, settings.reward_settings.answerer))


def _play(env: Env, talks: Sequence[Talk], policy: Policy) -> list[tuple[Talk, list[State]]]:
    """In two calls, in whichever the states are asked."""
    split = Env(env.embedder, replace(env.served, mode="split"))
    trails = split.run([(split.start(talk.script), policy) for talk in talks], upto=None)
    return [
        (talk, [State(talk.script, at, step.before) for at, step in enumerate(trail.steps)])
        for talk, trail in zip(talks, trails, strict=True)
    ]


def _of_log(settings: StateSettings) -> StateSource:
    config = settings.as_trained()
    with open_source(config) as source:
        embedder = _remake_embedder(source, settings.embedder)
        train, held = sides(source, config)
        chosen = {"train": train, "validation": validation(source, config), "heldout": held}[settings.split]
        env = Env(embedder, served_with(source, config.data))
        topics, rewriter = learn_topics(source, train), Rewriter(env)
        talks: list[tuple[Talk, list[State]]] = []
        heard: dict[str, str] = {}
        for user in chosen:
            talks += [(talk, env.list_states(talk.script)[:-1]) for talk in of_log(source, [user], topics, embedder)]
            if settings.role == "manager" and settings.others is None:
                for episode in source.trajectories([user]):
                    heard |= _hear(episode, rewriter)
    others = LoggedHearing(heard) if settings.others is None else _hosted(settings, settings.others)
    return StateSource(env, talks, others, _hosted(settings, settings.reward_settings.answerer))


def _remake_embedder(source: StoreSource, named: str | None) -> Embedder:
    """With any other than its own a search shows other memories than the log's."""
    own = source.journal.meta_get("embedder")
    if own is None:
        return make_embedder(named)
    name = name_of(own)
    made = remake(own, asked=named is not None) if named in (None, name) else make_embedder(named)
    if made is None:
        server = ", with OPENAI_BASE_URL where it is a server of your own" if own.startswith("openai:") else ""
        raise InvalidConfig(
            f"the embedder of this log, {own}, is not one that can be made here",
            why="its name does not say how, or leads to another one",
            fix=f"name it, embedder={name}{server}"
            if name and named is None
            else "embed a copy of the store anew (`memkit doctor COPY --reembed --embedder hash`), and name that",
        )
    if made.identity != own:
        raise InvalidConfig(
            f"this log was made with the embedder {own}, and embedder={named} is {made.identity}",
            why="a search would show other memories than were shown there",
            fix="leave embedder out: then it is the log's own",
        )
    return made


def _hear(episode: Trajectory, rewriter: Rewriter) -> dict[str, str]:
    said = {
        one.decision_id: one.reply
        for one in episode.decisions
        if one.role == "extractor" and one.ok and one.reply and rewriter.is_asked_so(one)
    }
    anew = {call.decision_ids[0]: call.reply for call in rewriter.rewrite(episode)[0] if call.role == "extractor"}
    return said | anew


def _hosted(settings: StateSettings, spec: str) -> Backbone:
    access: dict[str, Any] = {} if settings.base_url is None else {"base_url": settings.base_url}
    return CachedBackbone(make_backbone(spec, **access))
