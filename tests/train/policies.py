"""Policies with one fault each, as backbones: they read what a model reads and reply in its grammar."""

from __future__ import annotations

from collections.abc import Sequence

from memkit.models import Turn
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit_train.lab.worlds import Episode, OracleBackbone
from memkit_train.lab.worlds.dataset import as_conversation


def turns_of(episode: Episode) -> list[Turn]:
    return [said.as_turn(episode.user_id) for said in as_conversation(episode).turns]


class OnlyAdds(OracleBackbone):
    """Never updates, never deletes, never leaves anything alone."""

    def _manage(self, request: GenRequest, fact: str, shown: list[tuple[int, str]]) -> list[str]:
        return ["ADD"]


class Empties(OracleBackbone):
    """Adds, and deletes what it is shown."""

    def _manage(self, request: GenRequest, fact: str, shown: list[tuple[int, str]]) -> list[str]:
        return ["ADD", f"DELETE {shown[0][0]}"] if shown else ["ADD"]


class Breaks(OracleBackbone):
    """The right operations, in a form that nobody can read half of the time."""

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        replies = super().generate(requests)
        return [
            reply if hash_of(request) % 2 else GenReply("I would say: " + reply.text.lower() + " I think", model="b")
            for request, reply in zip(requests, replies, strict=True)
        ]


def hash_of(request: GenRequest) -> int:
    return sum(request.key.encode())


class Spelled(OracleBackbone):
    """Greedy it is right; sampled, it forgets half of its facts. Reports its letters as tokens."""

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._spelled(request) for request in requests]

    def _spelled(self, request: GenRequest) -> GenReply:
        draw = (sum(request.key.encode()) * 7 + request.sampling.seed * 13) % 2
        forget = request.sampling.temperature > 0 and draw and request.prompt.role == "manager"
        text = "NOOP" if forget else self.reply(request)
        prompt = tuple(request.prompt.messages[-1].content.encode())
        return GenReply(text, model="letters", prompt_ids=prompt, token_ids=(*text.encode(), 0))
