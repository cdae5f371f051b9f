"""Every logged decision once more, by the trainer's own replay: with the replies that were logged, or the model asked
again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memkit.embedders import make_embedder
from memkit.engine.record import prompt_text
from memkit.models import digest
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Replies, Sampling
from memkit_train.log import Decision, StoreSource
from memkit_train.replay import Env, Policy, scripts_of


@dataclass(slots=True)
class Report:
    decisions: int = 0
    different: int = 0
    """Scenes that end in another bank; of replies asked for anew, those that are not the logged ones."""
    other_prompts: int = 0


@dataclass(frozen=True, slots=True)
class AsLogged(Policy):
    """Samples each decision as it was sampled."""

    known: dict[str, Decision] | None = None

    def sampling(self, decision_id: str, role: str) -> Sampling:
        known = (self.known or {}).get(decision_id)
        return Sampling() if known is None else Sampling(**known.payload["sampling"])


class Says:
    """The logged replies, attempt by attempt."""

    identity, style, max_parallel = "log", "compact", 1

    def __init__(self, known: dict[str, Decision]) -> None:
        self._left = {name: iter(one.payload["attempts"]) for name, one in known.items()}

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [GenReply(next(self._left[one.key.partition("#")[0]])["reply"] or "") for one in requests]

    def close(self) -> None:
        """Nothing to release."""


def replay(source: StoreSource, backbone: Backbone | None = None) -> Report:
    """`backbone`: who is asked again, one scene at a time; None: the log says what it said."""
    report = Report()
    env = Env(make_embedder("hash"), source.served_with)
    for episode in source.trajectories():
        known = {one.decision_id: one for one in episode.decisions}
        policy = AsLogged(backbone or Says(known), known=known)
        for script in scripts_of(episode):
            for state in env.list_states(script)[:-1]:
                ((step,),) = (trail.steps for trail in env.run([(state, policy)]))
                logged = [known.get(call.decision_id) for call in step.calls]
                report.decisions += len(state.scene.decision_ids)
                report.other_prompts += sum(
                    one is None or one.prompt_hash != digest(prompt_text(call.prompt))
                    for call, one in zip(step.calls, logged, strict=True)
                )
                if backbone is None:
                    wanted = state.live.after(state.scene.ops, env.embedder)
                    report.different += step.after.state.hash() != wanted.state.hash()
                else:
                    report.different += sum(
                        one is None or call.reply is None or call.reply.text != one.reply
                        for call, one in zip(step.calls, logged, strict=True)
                    )
    return report
