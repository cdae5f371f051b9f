"""Whole conversations from an empty bank: trajectory GRPO, and LoGo-GRPO (Memory-R2).

    memkit-train logo config.yaml --set online.learn=episodes
    memkit-train grpo config.yaml --set online.learn=episodes

G episodes of each conversation are played in step, and every bank on the way is a snapshot. Then:

    grpo    one reward for all decisions of an episode: answers from the terminal bank
    logo    per session, the terminal bank on that session's questions; plus, with p_local for each session, m rerolls
            of that session alone from the pre-session bank of one anchor episode, scored at once on that session's
            questions; one pool

The same questions are asked of all episodes of a conversation, at most `questions` for each session, drawn anew for
every batch from its number. Rerolls are samples with seeds of their own (algorithms/logo.py refuses copies).

Departs from the paper where algorithms/logo.py says so, and: a question about session t is only put to a bank while its
answer holds, so local rewards never ask for what a later session changed; decisions are made turn by turn, unless
`chunks` says in how many parts (K) a session is; an episode's prompt is the bank rendered anew, not a growing chat.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memkit_train.errors import NoRows
from memkit_train.replay.env import Env, Policy, State, Trail
from memkit_train.rewards.base import Probed, Rollout, ScoredRollout, metrics
from memkit_train.rl.algorithms import grpo, logo
from memkit_train.rl.algorithms.values import ScoredEpisode
from memkit_train.rl.decisions import seed_of
from memkit_train.rl.rollouts import Batch, replies_of, steps_of
from memkit_train.rl.scoring import Scoring
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk

REROLLS_FROM = 500
"""Seeds of rerolls begin here, so that none repeats an episode's."""


@dataclass(slots=True)
class Whole:
    env: Env
    talks: Sequence[Talk]
    scoring: Scoring
    settings: OnlineSettings
    seed: int

    def sample(self, batch: int, policy: Policy, trained: frozenset[str]) -> Batch:
        rng = random.Random(f"{self.seed}/episodes/{batch}")
        talks = rng.sample(list(self.talks), min(self.settings.talks, len(self.talks)))
        size = self.settings.group
        starts = [
            (self.env.start(talk.script), replace(policy, seed=seed_of(self.seed, batch, number)))
            for talk in talks
            for number in range(size)
        ]
        trails = self.env.run(starts, upto=None)
        played = [(talk, trails[at * size : (at + 1) * size]) for at, talk in enumerate(talks)]
        asked = [session_questions(talk, self.settings.questions, rng) for talk in talks]
        if self.settings.algorithm == "logo":
            return self._by_session(batch, policy, trained, played, asked, rng)
        rollouts = [
            Rollout(trail, tuple(probe for probes in by_session.values() for probe in probes), group=talk.name)
            for (talk, members), by_session in zip(played, asked, strict=True)
            for trail in members
        ]
        scored = self.scoring.sessions(rollouts)
        episodes = [
            ScoredEpisode(steps_of(one.trail, trained), score.total, one.group)
            for one, score in zip(rollouts, scored, strict=True)
        ]
        rows, stats = grpo.episode_rows([one for one in episodes if one.steps], std_floor=self.settings.std_floor)
        replies = replies_of(trails, trained)
        counted = metrics(scored) | stats.metrics | {"num_generations": float(len(replies))}
        return Batch(rows, counted, trails, replies)

    def _by_session(
        self,
        batch: int,
        policy: Policy,
        trained: frozenset[str],
        played: Sequence[tuple[Talk, Sequence[Trail]]],
        asked: Sequence[dict[int, tuple[Probed, ...]]],
        rng: random.Random,
    ) -> Batch:
        rollouts: list[Rollout] = []
        places: list[tuple[int, int]] = []
        trails = [trail for _, members in played for trail in members]
        flat = [(talk, by) for (talk, members), by in zip(played, asked, strict=True) for _ in members]
        for number, (trail, (talk, by_session)) in enumerate(zip(trails, flat, strict=True)):
            for session, probes in by_session.items():
                rollouts.append(Rollout(trail, probes, group=f"{talk.name}/{session}"))
                places.append((number, session))
        scored = self.scoring.sessions(rollouts)
        earned: list[dict[int, float]] = [{} for _ in trails]
        for (number, session), score in zip(places, scored, strict=True):
            earned[number][session] = score.total
        episodes = [
            ScoredEpisode(steps_of(trail, trained, numbers(talk)), 0.0, talk.name, rewards)
            for trail, (talk, _), rewards in zip(trails, flat, earned, strict=True)
        ]
        local, again = self._rerolled(batch, policy, trained, played, rng)
        if not any(group.distinct > 1 for group in local):
            local = []  # seeds differ, so these are no copies: the policy is sure of itself
        rows, stats = logo.rows(episodes, local, std_floor=max(self.settings.std_floor, logo.STD_FLOOR))
        replies = replies_of([*trails, *again], trained)
        counted = (
            metrics(scored)
            | stats.metrics
            | {
                "num_generations": float(len(replies)),
                "local/groups": float(len(local)),
            }
        )
        return Batch(rows, counted, trails, replies)

    def _rerolled(
        self,
        batch: int,
        policy: Policy,
        trained: frozenset[str],
        played: Sequence[tuple[Talk, Sequence[Trail]]],
        rng: random.Random,
    ) -> tuple[list[logo.LocalGroup], list[Trail]]:
        """Some sessions once more, from the bank that an anchor episode had before them."""
        chosen: list[tuple[Talk, int, State, tuple[Probed, ...]]] = []
        walks: list[tuple[State, Policy, int]] = []
        for talk, members in played:
            anchor = rng.choice(list(members))
            for session, span in enumerate(talk.sessions.values()):
                asked = _about(talk, session, span.stop, self.settings.questions, rng)
                if rng.random() >= self.settings.p_local or not asked:
                    continue
                state = State(talk.script, span.start, anchor.steps[span.start].before)
                chosen.append((talk, session, state, asked))
                walks += [
                    (state, replace(policy, seed=seed_of(self.seed, batch, REROLLS_FROM + n)), len(span))
                    for n in range(self.settings.rerolls)
                ]
        trails = self.env.run_each(walks)
        size = self.settings.rerolls
        members = [trails[at * size : (at + 1) * size] for at in range(len(chosen))]
        rollouts = [
            Rollout(trail, asked) for (_, _, _, asked), mine in zip(chosen, members, strict=True) for trail in mine
        ]
        scored: list[ScoredRollout] = self.scoring.sessions(rollouts)
        groups: list[logo.LocalGroup] = []
        for at, ((talk, session, state, _), mine) in enumerate(zip(chosen, members, strict=True)):
            rewards = scored[at * size : (at + 1) * size]
            groups.append(
                logo.LocalGroup(
                    talk.name,
                    session,
                    state.live.state.hash(),
                    tuple(
                        logo.Reroll(steps_of(trail, trained, numbers(talk)), score.total)
                        for trail, score in zip(mine, rewards, strict=True)
                    ),
                )
            )
        return groups, trails


def session_questions(talk: Talk, most: int, rng: random.Random) -> dict[int, tuple[Probed, ...]]:
    """Session number → questions about it whose answer holds when everything is over. In a log nobody knows how long
    it holds, so such a question is put to the bank that it was put to then."""
    found: dict[int, tuple[Probed, ...]] = {}
    for session, name in enumerate(talk.sessions):
        asked = _about(talk, session, len(talk.script), most, rng)
        if not asked:
            then = [one.probe for one in talk.questions if name in one.sessions]
            asked = tuple(rng.sample(then, min(most, len(then))))
        if asked:
            found[session] = asked
    return found


def askable(talks: Sequence[Talk]) -> list[Talk]:
    """Those with a question that rests on a known session."""
    found = [talk for talk in talks if any(set(talk.sessions) & set(one.sessions) for one in talk.questions)]
    if not found:
        raise NoRows(
            f"nothing can be asked of these {len(talks)} conversations",
            why="none of their questions rests on a known turn",
            fix="use conversations with more questions, or learn: decisions",
        )
    return found


def numbers(talk: Talk) -> dict[str, int]:
    return {name: number for number, name in enumerate(talk.sessions)}


def _about(talk: Talk, session: int, decided: int, most: int, rng: random.Random) -> tuple[Probed, ...]:
    name = list(talk.sessions)[session]
    fitting = [one for one in talk.questions if name in one.sessions and one.holds(decided)]
    return tuple(one.put(decided, talk.script) for one in rng.sample(fitting, min(most, len(fitting))))
