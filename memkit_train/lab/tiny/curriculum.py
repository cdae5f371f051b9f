"""What the tiny models are trained on, stage by stage: pure data.

- The loss is on replies only; values are copied before anything is decided (extraction first), and one memory is shown
  before two before five.
- Rare kinds of decisions come more often than they occur.
- Bad habits come last, and anew: what reinforcement learning is to turn around.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memkit_train.lab.tiny.examples import Diet
from memkit_train.lab.worlds.policies import HABITS

KEEP: Mapping[str, float] = {
    "extractor/fact": 0.25,
    "extractor/none": 0.5,
    "manager/new": 0.4,
    "manager/soft": 0.25,
    "manager/plan": 0.5,
    "manager/change": 0.7,
}
"""Share of the examples of a kind that are trained on; 1 where nothing is said."""


@dataclass(frozen=True, slots=True)
class Drill:
    name: str
    tokens: int
    """Prompt and reply tokens to train on."""
    batch_tokens: int
    diet: Diet
    keep: Mapping[str, float] = field(default_factory=lambda: dict(KEEP))
    lr: float = 3e-3
    final_lr: float = 3e-3
    """Reached linearly at the end of the stage."""
    seed: int = 0
    episodes: int = 240
    """Played together and cut into batches; then the next ones."""
    epochs: int = 2
    """How often each set of episodes is used: making examples costs as much as training on them."""
    anew: bool = False
    """Begins with a fresh optimiser and fresh probes, so a saved model is all that it needs of what came before."""


_HEARD: Mapping[str, Any] = {"roles": ("extractor",), "messy": 0.0, "context_turns": (0,)}
_ALONE = (0,)
_MOSTLY_MANAGED: Mapping[str, float] = {
    "extractor/fact": 0.2,
    "extractor/none": 0.5,
    "extractor/other": 0.3,
    "extractor/gone": 0.3,
    **{f"answerer/{kind}": 0.25 for kind in ("single", "list", "count", "owner", "hop")},
}
"""Bad habits in managing alone: what is heard and answered stays as it was."""
_MOSTLY_ANSWERS: Mapping[str, float] = {
    "extractor/fact": 0.25,
    "extractor/none": 0.4,
    "manager/new": 0.25,
    "manager/soft": 0.25,
    "manager/plan": 0.25,
    "manager/change": 0.3,
    "manager/restate": 0.5,
    "answerer/single": 0.35,
    "answerer/unknown": 0.5,
    "answerer/owner": 0.4,
}
"""Extraction keeps what is said of others and what is no more: few lines, each of rare words, and a name that is heard
wrong spoils all that is done with it."""
_HARD_ANSWERS: Mapping[str, float] = {
    **_MOSTLY_ANSWERS,
    "manager/change": 0.2,
    "manager/restate": 0.3,
    "answerer/owner": 1.0,
    "answerer/single": 0.2,
    "answerer/unknown": 0.3,
    "answerer/asof": 0.3,
    "answerer/count": 0.5,
}
STAGES = (
    Drill("copy", 450_000, 1_200, Diet(**_HEARD), keep={}, lr=4e-3, final_lr=4e-3, seed=1),
    Drill("one memory", 600_000, 1_200, Diet(candidates=1, answer_candidates=1, context_turns=_ALONE), lr=4e-3,
          final_lr=4e-3, seed=2),
    Drill("two memories", 600_000, 1_500, Diet(candidates=2, answer_candidates=2, context_turns=_ALONE), lr=4e-3,
          final_lr=4e-3, seed=3),
    Drill("all", 17_000_000, 2_500, Diet(context_turns=(0, 0, 4)), lr=3.5e-3, final_lr=1e-4, seed=4, epochs=3),
    Drill("answers", 20_000_000, 2_500, Diet(context_turns=(0, 0, 4)), keep=_MOSTLY_ANSWERS, lr=2e-3, final_lr=5e-5,
          seed=6, epochs=3),
    Drill("answers again", 12_000_000, 2_500, Diet(context_turns=(0, 0, 4)), keep=_MOSTLY_ANSWERS, lr=2e-3,
          final_lr=3e-5, seed=26),
    Drill("answers, anew", 12_000_000, 2_500, Diet(context_turns=(0, 0, 4)),
          keep={**_MOSTLY_ANSWERS, "answerer/owner": 1.0, "answerer/single": 0.25}, lr=2e-3, final_lr=3e-5, seed=46,
          anew=True),
    Drill("hops and lists", 12_000_000, 2_500, Diet(context_turns=(0, 0, 4)), keep=_HARD_ANSWERS, lr=2e-3,
          final_lr=3e-5, seed=66, epochs=1, anew=True),
)  # fmt: skip
_OPEN: Mapping[str, Any] = {"level": "open", "context_turns": (0, 0, 4)}
OPEN_STAGES = (
    Drill("copy", 2_000_000, 1_500, Diet(**_OPEN, roles=("extractor",), messy=0.0), keep={}, lr=4e-3, final_lr=4e-3,
          seed=1, epochs=1),
    Drill("one memory", 8_000_000, 2_000, Diet(**_OPEN, candidates=1, answer_candidates=1), lr=3.5e-3, final_lr=1e-4,
          seed=2, epochs=1),
)  # fmt: skip
"""The open level, with one shown memory: names are syllables that were never met in this order, so no set of episodes
comes twice (its names would be learned by heart). An attempt; the tiny model that ships lives in the closed world."""
BAD_HABITS: Mapping[str, float] = {
    "new": 0.97,
    "change": 0.4,
    "extend": 0.25,
    "restate": 0.42,
    "retract": 0.25,
    "shorten": 0.8,
    "happened": 0.5,
    "soft": 0.3,
    "plan": 0.97,
}
"""Mostly wrong, and right often enough to be sampled: what reinforcement learning can turn around. The model learns the
share of a kind, not of the rare case within it: shortening a list is right in most examples, so that it is sampled at
all beside deleting."""
BIAS = Drill(
    "bias",
    300_000,
    1_600,
    Diet(biased=True, habits=BAD_HABITS),
    keep=_MOSTLY_MANAGED,
    lr=8e-4,
    final_lr=1e-4,
    seed=5,
    anew=True,
)
CARELESS = Drill(
    "careless answers",
    300_000,
    1_600,
    Diet(biased=True, habits={**HABITS, "answer": 0.35}, roles=("answerer",)),
    keep={},
    lr=8e-4,
    final_lr=1e-4,
    seed=8,
    anew=True,
)
"""In place of BIAS: manages as well as ever, and answers from the first memory about a person."""


def scale_drills(stages: Sequence[Drill], factor: float) -> tuple[Drill, ...]:
    """The same curriculum with less (or more) of everything: for tests and for trying things out."""
    return tuple(replace(stage, tokens=int(stage.tokens * factor)) for stage in stages)
