"""GRPO for the answer agent with distillation (Memory-R1): select the memories that decide, then answer from them.

    memkit-train grpo config.yaml --set online.learn=answers --set 'online.roles=[answerer]'

The banks are those of played conversations, decided by the frozen manager (the paper: the manager's banks are fixed).
The group is G answers to one question before one set of served memories; the reward is the answer's EM or F1, a part
for the format, and, where it is known which turns the answer rests on, the F1 of the cited memories' source turns.

Departs from the paper: that last part. EM alone teaches brevity and format; what was selected stays unrewarded, and a
right answer from a wrong memory is reinforced. Set `online.reward.citations` to 0 for the paper's reward.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from statistics import fmean, pstdev

from memkit.engine.answer import Answered
from memkit.engine.call import Routing
from memkit.seams.backbone import GenReply, Sampling
from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.replay.env import Env, Policy
from memkit_train.rewards.answers import bank_for, exact, overlap
from memkit_train.rewards.base import Probed
from memkit_train.rl.algorithms import grpo
from memkit_train.rl.algorithms.values import ScoredStep, StateGroup
from memkit_train.rl.decisions import seed_of
from memkit_train.rl.pool import Pool
from memkit_train.rl.rollouts import Batch
from memkit_train.rl.settings import OnlineSettings


@dataclass(slots=True)
class Answering:
    env: Env
    pool: Pool
    settings: OnlineSettings
    seed: int

    def sample(self, batch: int, policy: Policy, trained: frozenset[str]) -> Batch:
        if self.pool.due(batch):
            self.pool.play(batch, policy)
        rng = random.Random(f"{self.seed}/asked/{batch}")
        every = [
            (f"{talk.name}/{one.probe.key or one.probe.question}", one.probe, bank_for(one.probe, trail))
            for talk, trail in self.pool.played
            for one in talk.questions
        ]
        chosen = rng.sample(every, min(self.settings.states, len(every)))
        size = self.settings.group
        seeds = {f"{key}#{n}": seed_of(self.seed, batch, n) for key, _, _ in chosen for n in range(size)}
        tasks = [
            AnswerTask(probe.question, bank, probe.now, f"{key}#{n}")
            for key, probe, bank in chosen
            for n in range(size)
        ]
        once = replace(self.env.served, reasks=0)  # a group's replies are replies to one prompt
        answered = answer_all(
            tasks,
            policy.backbone,
            self.env.embedder,
            once,
            weights=self.env.weights,
            routing=Routing(policy.adapter),
            sampling=lambda key: Sampling(temperature=policy.temperature, seed=seeds[key]),
        )
        groups: list[StateGroup] = []
        parts: list[dict[str, float]] = []
        replies: list[GenReply] = []
        for at, (key, probe, _) in enumerate(chosen):
            members = [one for one in answered[at * size : (at + 1) * size] if one.reply is not None]
            rewards = [score(one, probe, self.settings) for one in members]
            parts += [part for _, part in rewards]
            replies += [one.reply for one in members if one.reply is not None]
            groups.append(StateGroup(key, tuple(map(_step, members)), tuple(total for total, _ in rewards)))
        rows, stats = grpo.state_rows(groups, std_floor=self.settings.std_floor)
        named = {
            f"rewards/{name}/{what}": of([part[name] for part in parts if name in part])
            for name in sorted({name for part in parts for name in part})
            for what, of in (("mean", fmean), ("std", pstdev))
        }
        return Batch(rows, stats.metrics | named, [], replies)


def score(answered: Answered, probe: Probed, settings: OnlineSettings) -> tuple[float, dict[str, float]]:
    """The reward of one answer, and its parts."""
    reward = settings.reward
    if answered.draft is None:
        return 0.0, {f"answer_{reward.metric}": 0.0, "validity": 0.0}
    measure = overlap if reward.metric == "f1" else exact
    parts = {f"answer_{reward.metric}": measure(answered.text, probe.expected), "validity": 1.0}
    total = parts[f"answer_{reward.metric}"] + reward.validity
    cited = citation_f1(answered, probe)
    if cited is not None:
        parts["citations"] = cited
        total += reward.citations * cited
    return total, parts


def citation_f1(answered: Answered, probe: Probed) -> float | None:
    """None: nothing was served that holds the evidence, or it is not known."""
    found = count_citations(answered, probe)
    if found is None:
        return None
    right, named, wanted = found
    return 2 * right / (named + wanted)


def count_citations(answered: Answered, probe: Probed) -> tuple[int, int, int] | None:
    """(right citations, citations, served memories that hold the evidence)."""
    told = set(probe.source_turns)
    wanted = {one.record.id for one in answered.served if told & set(one.record.source_turns)}
    if not wanted or answered.draft is None:
        return None
    named = set(answered.draft.memory_ids)
    return len(named & wanted), len(named), len(wanted)


def _step(answered: Answered) -> ScoredStep:
    reply = answered.reply
    assert reply is not None
    return ScoredStep(reply.prompt_ids or (), reply.token_ids or (), reply.logprobs, "answerer")
