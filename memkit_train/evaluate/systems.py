"""The systems that a report compares: baselines without a manager, policies that decide, and what each one costs.

A system turns a conversation into banks (one per session end) and serves memories for a question. Baselines and
policies share the runtime's retrieval, embedder and answerer, so that only the memory differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memkit.engine.bank import LiveBank
from memkit.engine.served_with import ServedWith
from memkit.errors import InvalidConfig
from memkit.models import MemoryRecord, Op, Turn, content_hash
from memkit.retrieval import Query, RankerWeights, rank
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Replies
from memkit.seams.embedder import Embedder, embed_queries
from memkit_train.evaluate.conversations import Conversation
from memkit_train.lab.worlds import Episode, OracleBackbone, TeacherBackbone, Truth
from memkit_train.replay.env import Env, Policy, Trail
from memkit_train.replay.script import script_of

BASELINES = ("full", "raw", "none")
"""full: every turn, in order. raw: the turns that retrieval finds. none: nothing."""


@dataclass(slots=True)
class Built:
    """A conversation's memory, at its end and after each session."""

    final: LiveBank
    sessions: Mapping[str, LiveBank]
    ops: Sequence[Op] = ()
    parked: int = 0
    decisions: int = 0
    trail: Trail | None = None
    everything: bool = False
    """Serve all of it in order (full context) instead of searching."""

    def at(self, session_id: str | None, as_of: datetime | None, embedder: Embedder) -> LiveBank:
        """After a session, as of a time, or both: a question asked early sees nothing of what is said later, whatever
        time it asks about."""
        bank = self.final if session_id is None else self.sessions.get(session_id, self.final)
        if as_of is None:
            return bank
        if self.trail is not None:
            return self.trail.as_of(as_of, embedder, until=bank.seq)
        kept = [record for record in bank.state if record.at is not None and record.at <= as_of]
        return LiveBank.of(kept, embedder, bank.seq)


@dataclass
class System:
    """One column of the report."""

    name: str
    identity: str
    backbone: Backbone | None = None
    served: ServedWith = field(default_factory=ServedWith)

    @property
    def origin(self) -> str:
        """The identity and, where it has one, the endpoint: another server may mean another model by the same name."""
        endpoint = getattr(self.backbone, "endpoint", "")
        return f"{self.identity} at {endpoint}" if endpoint else self.identity

    def build(self, conversation: Conversation, embedder: Embedder) -> Built:
        turns = [turn.as_turn(conversation.conversation_id) for turn in conversation.turns]
        if self.backbone is None:
            return _baseline(self.name, turns, embedder)
        backbone = self.backbone
        if isinstance(backbone, _OfEpisode):
            backbone = backbone.of(conversation)
        env = Env(embedder, self.served)
        start = env.start(script_of(conversation.conversation_id, turns))
        (trail,) = env.run([(start, Policy(backbone))], upto=None)
        return Built(trail.end.live, trail.sessions, trail.ops, len(trail.parked), len(trail.calls), trail)


def serve(
    built: Built,
    bank: LiveBank,
    question: str,
    now: datetime,
    embedder: Embedder,
    k: int,
    weights: RankerWeights | None = None,
) -> list[MemoryRecord]:
    """The memories for a question, best first."""
    if built.everything:
        return list(bank.state)
    if not len(bank):
        return []
    (vector,) = embed_queries(embedder, [question])
    query = Query(text=question, vector=vector, k=k, now=now)
    scored = rank(bank.index, query, weights) if weights else rank(bank.index, query)
    return [one.record for one in scored]


def _baseline(name: str, turns: Sequence[Turn], embedder: Embedder) -> Built:
    if name == "none":
        empty = LiveBank.empty(embedder)
        return Built(empty, {turn.session_id: empty for turn in turns})
    records = [episode_record(turn, seq) for seq, turn in enumerate(turns, start=1)]
    final = LiveBank.of(records, embedder, len(records))
    ends = {turn.session_id: position for position, turn in enumerate(turns, start=1)}
    sessions = {session: LiveBank.of(records[:end], embedder, end) for session, end in ends.items()}
    return Built(final, sessions, everything=name == "full")


def episode_record(turn: Turn, seq: int) -> MemoryRecord:
    """The turn as `add(infer=False)` stores it."""
    return MemoryRecord(
        id=f"m_{turn.turn_id}",
        text=turn.text,
        kind="episode",
        source_turns=(turn.turn_id,),
        created_at=turn.at,
        updated_at=turn.at,
        at=turn.at,
        speaker=turn.speaker,
        session_id=turn.session_id,
        origin=turn.origin,
        content_hash=content_hash(turn.text, "episode", turn.turn_id),
        seq=seq,
    )


class AddOnly:
    """Any backbone whose manager only ever adds: the collapse that the literature warns of, as a baseline."""

    def __init__(self, inner: Backbone | _OfEpisode) -> None:
        self._inner = inner
        self.identity = f"add-only({inner.identity})"
        self.style, self.max_parallel = inner.style, inner.max_parallel
        self.endpoint: str = getattr(inner, "endpoint", "")

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        others = [request for request in requests if request.prompt.role != "manager"]
        replies = iter(self._inner.generate(others) if others else [])
        add = "ADD" if self.style == "compact" else None
        return [
            GenReply(add or _json_add(request), model=self.identity)
            if request.prompt.role == "manager"
            else next(replies)
            for request in requests
        ]

    def close(self) -> None:
        self._inner.close()


def _json_add(request: GenRequest) -> str:
    import json

    text = request.prompt.view.facts[0].text
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": text}]}, ensure_ascii=False)


class _OfEpisode:
    """A policy that must know the episode: it is bound to each conversation of a world in turn."""

    style, max_parallel = "compact", 1024

    def __init__(self, kind: str, seed: int = 0, add_only: bool = False) -> None:
        self.kind, self.seed, self.add_only = kind, seed, add_only
        self.identity = f"world-{kind}/1:{seed}{':add' if add_only else ''}"

    def of(self, conversation: Conversation) -> Backbone:
        episode = conversation.info.get("episode")
        if not isinstance(episode, Episode):
            raise _only_of_the_world(self.kind)
        truth = Truth([episode])
        backbone: Any = OracleBackbone(truth) if self.kind == "oracle" else TeacherBackbone(truth, seed=self.seed)
        return AddOnly(backbone) if self.add_only else backbone

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        raise AssertionError("bound per conversation by `of`")

    def close(self) -> None:
        """Nothing to release."""


def make_system(
    spec: str, served: ServedWith, *, world: bool, backbone_options: Mapping[str, Any] | None = None
) -> System:
    """`full` `raw` `none`; `oracle` `teacher[:SEED]` (world only); `rules`; `tiny`, `tiny-biased`; `add-only[:POLICY]`;
    or any model of the runtime (`hf:PATH`, `openai:NAME`)."""
    if spec in BASELINES:
        return System(spec, f"{spec}/1", served=served)
    kind, _, rest = spec.partition(":")
    if not world and (rest if kind == "add-only" else kind) in ("oracle", "teacher"):
        raise _only_of_the_world(spec)
    if kind in ("oracle", "teacher"):
        if rest and not rest.isdecimal():
            raise InvalidConfig(f"the seed of {spec!r} is no number", fix=f"write {kind} or {kind}:1")
        bound = _OfEpisode(kind, int(rest or 0))
        return System(spec, bound.identity, bound, served)
    if kind == "add-only":
        inner = rest or ("oracle" if world else "rules")
        if inner in ("oracle", "teacher"):
            bound = _OfEpisode(inner, add_only=True)
            return System(spec, bound.identity, bound, served)
        backbone: Any = AddOnly(_backbone(inner, backbone_options or {}))
        return System(spec, backbone.identity, backbone, _styled(served, backbone))
    backbone = _backbone(spec, backbone_options or {})
    return System(spec, backbone.identity, backbone, _styled(served, backbone))


def _only_of_the_world(spec: str) -> InvalidConfig:
    return InvalidConfig(
        f"the system {spec!r} exists only for the world",
        why="it needs the truth behind the dialogue, and other data sets have none",
        fix="leave it out, or evaluate on world:closed or world:open",
    )


def make_answerer(spec: str, served: ServedWith) -> System:
    """A model that answers. A baseline has none, and what knows the truth behind a world would give it away."""
    if spec in BASELINES or spec.partition(":")[0] in ("oracle", "teacher", "add-only"):
        raise InvalidConfig(
            f"{spec} answers nothing",
            why="it is a memory to compare, and an answerer is a model",
            fix="name a model: tiny, hf:PATH or openai:NAME",
        )
    return make_system(spec, served, world=False)


def _backbone(spec: str, options: Mapping[str, Any]) -> Backbone:
    from memkit.backbones import make_backbone
    from memkit_train.lab.tiny import checkpoint

    if spec == "rules":
        return make_backbone(None)
    if spec in ("tiny", "tiny-biased"):
        return make_backbone(f"hf:{checkpoint('biased' if spec == 'tiny-biased' else 'skilled')}", **options)
    return make_backbone(spec, **options)


def _styled(served: ServedWith, backbone: Backbone) -> ServedWith:
    """Each backbone in the reply style that it follows best."""
    roles = ("extractor", "manager", "answerer", "fused")
    styles = tuple((role, backbone.style) for role in roles)
    return replace(served, styles=styles)
