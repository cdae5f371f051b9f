"""Training examples from the world: the runtime's own prompts along played episodes, with the oracle's replies.

Whoever plays decides which banks are met: the oracle's are clean, the teacher's are messy. The label is always the
oracle's (skill stage) or always the teacher's (bias stage).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memkit.engine.answer import Answered
from memkit.engine.bank import LiveBank
from memkit.engine.served_with import ServedWith
from memkit.roles import Extractor, Prompt
from memkit.seams.backbone import Backbone, GenRequest
from memkit.seams.embedder import Embedder
from memkit_train.lab.worlds import Episode, Knobs, OracleBackbone, TeacherBackbone, Truth, episode
from memkit_train.lab.worlds.dataset import as_conversation
from memkit_train.lab.worlds.model import Level
from memkit_train.lab.worlds.policies import HABITS, kind_of
from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.replay.env import Env, Policy
from memkit_train.replay.script import script_of


@dataclass(frozen=True, slots=True)
class Example:
    role: str
    kind: str
    """What it is a case of, for tables."""
    prompt: Prompt
    reply: str


@dataclass(frozen=True, slots=True)
class Diet:
    """Which examples a stage sees."""

    candidates: int = 5
    answer_candidates: int = 8
    messy: float = 0.35
    """Share of the episodes that the teacher plays, so that the banks hold duplicates, junk and leftovers."""
    biased: bool = False
    """Labels from the teacher instead of the oracle. It hears well, and answers well unless told otherwise."""
    habits: Mapping[str, float] = field(default_factory=lambda: dict(HABITS))
    """The teacher's; see worlds.policies."""
    roles: tuple[str, ...] = ("extractor", "manager", "answerer")
    context_turns: tuple[int, ...] = (0, 4)
    """Earlier turns shown to the extractor: one of these, drawn for each set of episodes."""
    level: Level = "closed"


def world_of(index: int, seed: int, rng: random.Random, level: Level = "closed") -> Episode:
    """One training episode; its size varies, so that small and large banks are met."""
    knobs = Knobs(
        level=level,
        sessions=rng.choice((3, 6, 8, 10)),
        people=rng.choice((1, 2, 2, 3)),
        questions=16,
        probes=2,
    )
    return episode(index, seed=seed, knobs=knobs, split="train")


def examples(episodes: Sequence[Episode], embedder: Embedder, diet: Diet, *, seed: int = 0) -> Iterator[Example]:
    """Every decision of the episodes, by role."""
    rng = random.Random(seed)
    truth = Truth(episodes)
    oracle, teacher = OracleBackbone(truth), TeacherBackbone(truth, seed=seed, habits=diet.habits)
    served, context_turns = ServedWith(candidates=diet.candidates), rng.choice(diet.context_turns)
    env = Env(embedder, served)
    messy = [one for one in episodes if rng.random() < diet.messy]
    clean = [one for one in episodes if one not in messy]
    labeller = teacher if diet.biased else oracle
    if diet.roles == ("extractor",):  # nothing needs a bank, so nothing is played
        yield from _heard(episodes, oracle)
        return
    for played, policy in ((clean, oracle), (messy, teacher)):
        scripts = [
            script_of(
                one.user_id,
                [said.as_turn(one.user_id) for said in as_conversation(one).turns],
                context_turns=context_turns,
            )
            for one in played
        ]
        trails = env.run([(env.start(script), Policy(policy)) for script in scripts], upto=None)
        for trail in trails:
            for call in trail.calls:
                if call.role in diet.roles:
                    yield _labelled(call.request, labeller)
        if "answerer" not in diet.roles:
            continue
        tasks: list[tuple[AnswerTask, int]] = []
        for one, trail in zip(played, trails, strict=True):
            banks = trail.sessions
            for session in one.sessions[:-1]:
                bank = banks[session.session_id]
                tasks += [_task(question.text, bank, question.asked_at, diet, rng) for question in session.probes]
            tasks += [_task(question.text, trail.end.live, question.asked_at, diet, rng) for question in one.questions]
        recorder = _Recorder(labeller)
        for answered in _answered(tasks, recorder, embedder, served):
            assert answered.reply is not None
            yield Example("answerer", _question_kind(answered.prompt), answered.prompt, answered.reply.text)


def _heard(episodes: Sequence[Episode], oracle: OracleBackbone) -> Iterator[Example]:
    role = Extractor()
    for one in episodes:
        for said in as_conversation(one).turns:
            prompt = role.render([said.as_turn(one.user_id)])
            yield _labelled(GenRequest(prompt), oracle)


def _task(text: str, bank: LiveBank, now: datetime, diet: Diet, rng: random.Random) -> tuple[AnswerTask, int]:
    """A question, and how many memories are shown for it: as many as when serving, or fewer."""
    k = rng.choice((rng.randint(1, diet.answer_candidates), diet.answer_candidates))
    return AnswerTask(text, bank, now, text), k


def _answered(
    tasks: Sequence[tuple[AnswerTask, int]], backbone: Backbone, embedder: Embedder, served: ServedWith
) -> list[Answered]:
    """In the order of the tasks."""
    found: dict[int, Answered] = {}
    for k in {k for _, k in tasks}:
        mine = [at for at, (_, own) in enumerate(tasks) if own == k]
        answers = answer_all([tasks[at][0] for at in mine], backbone, embedder, replace(served, answer_candidates=k))
        found |= zip(mine, answers, strict=True)
    return [found[at] for at in range(len(tasks))]


class _Recorder:
    """Who answers, under the name of a plain backbone."""

    identity, style, max_parallel = "recorder", "compact", 4096

    def __init__(self, labeller: OracleBackbone) -> None:
        self.generate = labeller.generate

    def close(self) -> None:
        """Nothing to release."""


def _labelled(request: GenRequest, labeller: OracleBackbone) -> Example:
    reply = labeller.reply(request)
    view = request.prompt.view
    if request.prompt.role == "manager":
        kind = kind_of(view.facts[0].text, [(one.handle, one.record.text) for one in view.shown])
    else:
        kind = heard_kind(request.prompt, reply)
    return Example(request.prompt.role, kind, request.prompt, reply)


def heard_kind(prompt: Prompt, reply: str) -> str:
    """Most of what people say is of themselves; what they say of others, and what is no more, is heard more seldom."""
    if reply == "NONE":
        return "none"
    if " no longer " in reply:
        return "gone"
    return "fact" if all(f" {turn.speaker} " in reply for turn in prompt.view.turns) else "other"


def _question_kind(prompt: Prompt) -> str:
    from memkit_train.lab.worlds.language import understand

    asked = understand(prompt.view.question)
    return asked.kind if asked else "other"


__all__ = ["Diet", "Example", "examples", "world_of"]
