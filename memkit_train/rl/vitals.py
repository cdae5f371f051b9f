"""Signs of collapse, compared with how the run began. Pure: what a batch decided in, alarms by name out.

The authors of Memory-R2 saw banks emptied when the answerer read too much, policies that only insert, and runs that
never came back. None of it shows in a training reward that is normalised within groups, all of it shows here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from memkit.models import JSON
from memkit.seams.backbone import GenReply
from memkit_train.replay.env import Trail
from memkit_train.rl.settings import StopSettings


@dataclass(frozen=True, slots=True)
class Vitals:
    ops: Mapping[str, float]
    """Share of each kind of operation."""
    memories: float
    """Added less deleted, per scene."""
    length: float
    """Tokens per reply; 0: there was none, and nothing is known of length, validity and entropy."""
    validity: float
    """Share of replies that would have kept the format without the mask."""
    entropy: float
    """Mean surprise per sampled token, in nats."""
    scenes: int = 0
    """Played from the start; 0: nothing is known of ops and memories."""

    @property
    def metrics(self) -> dict[str, float]:
        mix = {f"ops/{action}": share for action, share in self.ops.items()}
        if self.scenes:
            mix["bank/growth"] = self.memories
        return mix | {"completions/valid": self.validity, "sampling/surprise": self.entropy}

    def to_json(self) -> JSON:
        return asdict(self)

    @classmethod
    def of_json(cls, raw: JSON) -> Vitals:
        return cls(**raw)


def vitals(trails: Sequence[Trail], replies: Sequence[GenReply]) -> Vitals:
    mix = Counter(op.action for trail in trails for op in trail.ops)
    total, scenes = sum(mix.values()), sum(len(trail.steps) for trail in trails)
    surprise = [-logprob for reply in replies for logprob in reply.logprobs or ()]
    lengths = [float(len(reply.token_ids or ())) for reply in replies]
    valid = [float(reply.extra.get("unconstrained_valid", True)) for reply in replies]
    length, validity, entropy = (fmean(values) if values else 0.0 for values in (lengths, valid, surprise))
    return Vitals(
        {action: mix[action] / total for action in ("add", "update", "delete", "noop")} if total else {},
        (mix["add"] - mix["delete"]) / scenes if scenes else 0.0,
        length,
        validity,
        entropy,
        scenes,
    )


def alarms(now: Vitals, start: Vitals, limits: StopSettings) -> dict[str, str]:
    """What is wrong, in words; "" where nothing is. An alarm whose vital this batch did not measure is absent: most
    batches play no conversation from the start. Nothing is wrong that was so at the start."""
    skewed = [
        f"{share:.0%} of all operations are {action}, {start.ops.get(action, 0.0):.0%} at the start"
        for action, share in now.ops.items()
        if share > limits.one_op >= start.ops.get(action, 0.0)
    ]
    played, replied = now.scenes > 0, now.length > 0
    every = [
        ("ops", bool(now.ops), bool(skewed), "; ".join(skewed)),
        ("memories", played, start.memories > 0 and now.memories < limits.memories * start.memories,
         f"banks grow by {now.memories:.2f} memories per scene, {start.memories:.2f} at the start"),
        ("length", replied, start.length > 0 and now.length > limits.length * start.length,
         f"replies are {now.length:.0f} tokens long, {start.length:.0f} at the start"),
        ("validity", replied, now.validity < limits.validity * start.validity,
         f"{now.validity:.0%} of the replies keep the format, {start.validity:.0%} at the start"),
        ("entropy", replied, start.entropy > 0 and now.entropy < limits.entropy * start.entropy,
         f"surprise per token is {now.entropy:.4f}, {start.entropy:.4f} at the start"),
    ]  # fmt: skip
    return {name: told if wrong else "" for name, measured, wrong, told in every if measured}
