"""Hand-computed advantages, and LoGo's credit against planted truth."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from memkit_train.errors import BadRow, NoSignal
from memkit_train.rl.algorithms import grpo, logo, ppo
from memkit_train.rl.algorithms.advantages import GroupStats, advantages, group_advantages
from memkit_train.rl.algorithms.values import ScoredEpisode, ScoredStep, StateGroup
from memkit_train.rows import Row


def step(completion: int, *, prompt: int = 1, session: int = 0, **more: object) -> ScoredStep:
    return ScoredStep((prompt,), (completion,), (-1.0,), session=session, **more)  # type: ignore[arg-type]


class TestAdvantages:
    def test_mean_and_sample_deviation(self) -> None:
        # mean .5, sample deviation sqrt((.25 + .0 + .0625 + .0625 + .25 ...) / 4)
        rewards = [0.0, 1.0, 0.5, 0.25, 0.75]
        deviation = math.sqrt((0.25 + 0.25 + 0.0 + 0.0625 + 0.0625) / 4)
        expected = [(reward - 0.5) / deviation for reward in rewards]
        assert advantages(rewards, baseline="mean") == pytest.approx(expected)
        assert advantages(rewards, baseline="auto") == pytest.approx(expected)

    def test_floor_keeps_small_differences_small(self) -> None:
        assert advantages([0.5, 0.51], baseline="mean", std_floor=0.1) == pytest.approx([-0.05, 0.05])
        assert advantages([0.5, 0.51], baseline="mean", std_floor=0.0) == pytest.approx([-0.7071, 0.7071], abs=1e-4)

    def test_centred_divides_by_nothing(self) -> None:
        assert advantages([0.0, 0.3, 0.6], baseline="centred") == pytest.approx([-0.3, 0.0, 0.3])

    def test_median_up_to_four(self) -> None:
        # an outlier of 1 drags the mean to .275, above .2; the median, .05, leaves .1 and .2 better than 0
        rewards = [0.0, 0.0, 0.1, 1.0]
        spread = statistics.stdev(rewards)
        assert advantages(rewards) == pytest.approx([-0.05 / spread, -0.05 / spread, 0.05 / spread, 0.95 / spread])
        assert advantages(rewards, baseline="mean")[2] < 0  # type: ignore[index]
        assert advantages([0.0, 1.0, *rewards]) == advantages([0.0, 1.0, *rewards], baseline="mean")

    @pytest.mark.parametrize("rewards", [[], [1.0], [0.4, 0.4, 0.4], [0.1 + 0.2, 0.3]])
    def test_no_spread_teaches_nothing(self, rewards: list[float]) -> None:
        assert advantages(rewards) is None

    def test_groups_are_counted(self) -> None:
        found, stats = group_advantages(
            {"a": [("x", 0.0), ("y", 1.0), ("z", 0.5)], "b": [("v", 1.0), ("w", 1.0)], "c": [("u", 0.0)]}
        )
        assert [(group, member) for group, member, _ in found] == [("a", "x"), ("a", "y")]  # z is the pivot
        assert (stats.groups, stats.dropped, stats.members, stats.used) == (3, 2, 6, 2)
        assert stats.metrics["frac_reward_zero_std"] == pytest.approx(2 / 3)
        assert stats.reward == pytest.approx(3.5 / 6)
        assert stats.reward_std == pytest.approx(0.5 / 3)
        both = stats + GroupStats(1, 0, 2, 2, 0.0, 1.5)
        assert (both.groups, both.reward, both.reward_std) == (4, pytest.approx(3.5 / 8), pytest.approx(2.0 / 4))


class TestGrpo:
    def test_alternatives_of_one_state(self) -> None:
        group = StateGroup("s", (step(1), step(2, reward=-0.5), step(3), step(4), step(5)), (1.0, 0.5, 0.0, 0.0, 0.5))
        rows, stats = grpo.state_rows([group], baseline="mean")  # totals 1, 0, 0, 0, .5: mean .3, deviation sqrt(.2)
        assert [row.advantage for row in rows] == pytest.approx(
            [a / math.sqrt(0.2) for a in (0.7, -0.3, -0.3, -0.3, 0.2)]
        )
        assert [row.completion_ids for row in rows] == [(1,), (2,), (3,), (4,), (5,)]
        assert all(row.group == "s" and row.behaviour_logprobs == (-1.0,) for row in rows)
        assert stats.used == 5

    def test_only_equal_prompts_are_alternatives(self) -> None:
        with pytest.raises(BadRow, match="different prompts"):
            grpo.state_rows([StateGroup("s", (step(1), step(2, prompt=9)), (0.0, 1.0))])

    def test_whole_episodes_share_one_scalar(self) -> None:
        episodes = [ScoredEpisode((step(n), step(n + 10)), float(n == 1), "c") for n in range(2)]
        rows, _ = grpo.episode_rows(episodes)
        assert [row.advantage for row in rows] == pytest.approx([-0.7071, -0.7071, 0.7071, 0.7071], abs=1e-4)


class TestRefusedReplies:
    """What a re-ask mended is not to the credit of the reply that had to be mended."""

    GARBAGE, NOOP, ADD = step(1, refused=True), step(2), step(3)

    def test_a_refused_reply_is_never_praised_and_a_clean_one_not_blamed_beside_it(self) -> None:
        for clean in (0.0, 0.1, 0.4):
            for others in (0, 1, 6):  # the median and the mean as baseline
                episodes = [ScoredEpisode((self.GARBAGE,), 1.0, "s")]
                episodes += [ScoredEpisode((self.NOOP,), clean, "s")] * (1 + others)
                rows, _ = grpo.episode_rows(episodes)
                assert all(row.advantage <= 0 for row in rows if row.completion_ids == (1,))
                assert all(row.advantage >= 0 for row in rows if row.completion_ids == (2,))
                assert clean == 0 or any(row.completion_ids == (1,) for row in rows), "and it is blamed"

    def test_a_right_clean_reply_is_still_better_than_a_wrong_one(self) -> None:
        earned = ((self.GARBAGE, 1.0), (self.NOOP, 0.0), (self.ADD, 1.0))
        rows, _ = grpo.episode_rows([ScoredEpisode((one,), reward, "s") for one, reward in earned])
        assert [row.completion_ids for row in rows if row.advantage > 0] == [(3,)]

    def test_in_a_good_episode_of_many_steps_it_is_left_out(self) -> None:
        good = ScoredEpisode((self.GARBAGE, *(self.ADD,) * 9), 1.0, "c", {0: 1.0})
        bad = ScoredEpisode((self.NOOP,) * 10, 0.0, "c", {0: 0.0})
        for rows in (grpo.episode_rows([good, bad])[0], logo.rows([good, bad])[0]):
            assert [row.completion_ids for row in rows if row.advantage > 0] == [(3,)] * 9
            assert [row.completion_ids for row in rows if row.advantage < 0] == [(2,)] * 10

    def test_rerolls_hold_to_it_too(self) -> None:
        rerolls = (logo.Reroll((self.GARBAGE,), 1.0), logo.Reroll((self.NOOP,), 0.1))
        rows, _ = logo.rows([], [logo.LocalGroup("c", 0, "a", rerolls)])
        assert {row.completion_ids: row.advantage > 0 for row in rows} == {(1,): False, (2,): True}

    def test_a_value_head_does_not_praise_it_either(self) -> None:
        episodes = [ScoredEpisode((one,), reward) for one, reward in ((self.GARBAGE, 1.0), (self.NOOP, 0.1))]
        rows, _ = ppo.rows(episodes, [[0.0], [0.0]])
        assert rows[0].advantage <= 0 <= rows[1].advantage
        assert rows[0].ret == 0.0
        (hoped, _), _ = ppo.rows(episodes, [[-0.5], [0.5]])  # even where less still was expected
        assert hoped.advantage <= 0


class TestPpo:
    def test_advantage_estimation_by_hand(self) -> None:
        # deltas: .5 - .2 = .3 ; 0 + .4 - .5 = -.1 ; 1 - .4 = .6
        found, returns = ppo.gae([0.0, 0.0, 1.0], [0.2, 0.5, 0.4], decay=0.5)
        assert found == pytest.approx([0.3 + 0.5 * (-0.1 + 0.5 * 0.6), -0.1 + 0.5 * 0.6, 0.6])
        assert returns == pytest.approx([0.6, 0.7, 1.0])

    def test_decay_one_is_return_minus_value(self) -> None:
        found, returns = ppo.gae([0.1, 0.0, 1.0], [0.2, 0.5, 0.4], decay=1.0)
        assert returns == pytest.approx([1.1, 1.0, 1.0])
        assert found == pytest.approx([0.9, 0.5, 0.6])

    def test_rows_carry_returns_and_normalised_advantages(self) -> None:
        episodes = [ScoredEpisode((step(1), step(2)), 1.0), ScoredEpisode((step(3),), 0.0)]
        rows, stats = ppo.rows(episodes, [[0.5, 0.5], [0.5]], decay=1.0)
        assert [row.ret for row in rows] == pytest.approx([1.0, 1.0, 0.0])
        raw = [0.5, 0.5, -0.5]
        scale = statistics.pstdev(raw)
        assert [row.advantage for row in rows] == pytest.approx([(a - 0.5 / 3) / scale for a in raw])
        assert stats.explained_variance == pytest.approx(0.0)
        _, perfect = ppo.rows(episodes, [[1.0, 1.0], [0.0]], decay=1.0)
        assert perfect.explained_variance == pytest.approx(1.0)


def episode(sessions: dict[int, float], first: int = 0, group: str = "c") -> ScoredEpisode:
    return ScoredEpisode(
        tuple(step(first + session, session=session) for session in sessions),
        statistics.fmean(sessions.values()),
        group,
        sessions,
    )


class TestLogo:
    def test_global_groups_are_by_conversation_and_session(self) -> None:
        episodes = [
            episode({0: 1.0, 1: 0.0}, 10),
            episode({0: 0.0, 1: 0.0}, 20),
            episode({0: 1.0, 1: 1.0}, 30, "other"),
        ]
        rows, stats = logo.rows(episodes)
        assert {row.completion_ids[0]: row.advantage for row in rows} == pytest.approx(
            {10: 0.5 / math.sqrt(0.5), 20: -0.5 / math.sqrt(0.5)}
        )
        assert all(row.group == "c/0" for row in rows)
        assert (stats.whole.groups, stats.whole.dropped) == (4, 3)

    def test_local_groups_join_the_pool_with_a_floor(self) -> None:
        local = logo.LocalGroup(
            "c",
            1,
            "bank",
            tuple(
                logo.Reroll((step(n, session=1), step(n + 50, session=1)), reward) for n, reward in ((1, 0.5), (2, 0.6))
            ),
        )
        rows, stats = logo.rows([episode({0: 1.0}, 10), episode({0: 0.0}, 20)], [local])
        assert {row.completion_ids[0]: row.advantage for row in rows} == pytest.approx(
            {
                10: 0.5 / math.sqrt(0.5),
                20: -0.5 / math.sqrt(0.5),
                1: -0.05 / 0.3,
                51: -0.05 / 0.3,
                2: 0.05 / 0.3,
                52: 0.05 / 0.3,
            }
        )
        assert stats.metrics["local/num_groups"] == 1
        assert stats.metrics["num_groups"] == 2

    def test_copies_are_dropped_and_a_greedy_pool_is_refused(self) -> None:
        copies = logo.LocalGroup("c", 0, "a", tuple(logo.Reroll((step(1),), 0.5 + 1e-3 * n) for n in range(4)))
        real = logo.LocalGroup("c", 1, "b", tuple(logo.Reroll((step(n),), float(n)) for n in range(4)))
        tied = logo.LocalGroup("c", 2, "d", tuple(logo.Reroll((step(n),), 1.0) for n in range(4)))
        rows, stats = logo.rows([], [copies, real, tied])
        assert {row.group for row in rows} == {"c/1@b#0"}
        assert (stats.identical, stats.local.groups, stats.local.dropped) == (1, 2, 1)
        with pytest.raises(NoSignal, match="copies"):
            logo.rows([], [copies, copies])

    def test_objective_is_the_paper(self) -> None:
        aim = logo.OBJECTIVE
        assert (aim.ratio, aim.average, aim.clip_low, aim.clip_high, aim.dual_clip) == (
            "sequence",
            "row",
            0.2,
            0.2,
            3.0,
        )
        assert (aim.kl, aim.kl_unbiased, aim.entropy) == (0.001, False, 0.001)


SESSIONS, GLOBAL, REROLLS = 8, 8, 4


def quality(rng: random.Random) -> tuple[float, int]:
    """A session played once: its true credit, and an id that stands for what was written."""
    value = rng.random()
    return value, round(value * 1e6)


def correlation(rows: Sequence[Row]) -> float:
    """Between advantages and planted credit: how much better than average the session was really played."""
    planted = [row.completion_ids[0] / 1e6 - 0.5 for row in rows]
    return statistics.correlation([float(row.advantage) for row in rows], planted)  # type: ignore[arg-type]


def played(rng: random.Random, qualities: Sequence[tuple[float, int]], group: str) -> ScoredEpisode:
    """What a session wrote, less what later sessions damaged, as seen through few questions."""
    damage = [0.3 * sum(q < 0.3 for q, _ in qualities[t + 1 :]) / SESSIONS for t in range(SESSIONS)]
    rewards = {t: min(1.0, max(0.0, q - damage[t] + rng.gauss(0, 0.15))) for t, (q, _) in enumerate(qualities)}
    steps = tuple(step(written, session=t) for t, (_, written) in enumerate(qualities))
    return ScoredEpisode(steps, statistics.fmean(rewards.values()), group, rewards)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_logo_finds_planted_credit_better_than_trajectory_grpo_at_equal_generations(seed: int) -> None:
    rng = random.Random(seed)
    plain, ours, locals_ = [], [], []
    for number in range(24):
        # trajectory GRPO spends the generations of the local branch on more whole episodes
        local_sessions = SESSIONS // 2
        generations = GLOBAL * SESSIONS + local_sessions * REROLLS
        conversation = [[quality(rng) for _ in range(SESSIONS)] for _ in range(generations // SESSIONS)]
        plain += [played(rng, qualities, f"c{number}") for qualities in conversation]
        ours += [played(rng, qualities, f"c{number}") for qualities in conversation[:GLOBAL]]
        for session in rng.sample(range(SESSIONS), local_sessions):
            tries = [quality(rng) for _ in range(REROLLS)]
            rerolls = tuple(
                logo.Reroll((step(written, session=session),), value + rng.gauss(0, 0.15)) for value, written in tries
            )
            locals_.append(logo.LocalGroup(f"c{number}", session, "bank", rerolls))
    trajectory, _ = grpo.episode_rows(plain)
    pool, _ = logo.rows(ours, locals_)
    assert len(trajectory) == sum(len(e.steps) for e in ours) + len(locals_) * REROLLS
    assert correlation(pool) > correlation(trajectory) + 0.3
