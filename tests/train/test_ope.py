"""Off-policy estimates recover the truth within their interval, or say that they cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from memkit_train.errors import NoRows
from memkit_train.ope import UserOutcome, difference, value_of

TRUE_GAIN = 0.05


def simulate(users: int, share: float, seed: int, gain: float = TRUE_GAIN) -> list[UserOutcome]:
    """Users with habits of their own; the adapter acts on a bank that carries over, so its effect grows with time."""
    rng = np.random.default_rng(seed)
    habit, candidate = rng.beta(4, 3, users), rng.random(users) < share
    sessions, carried = rng.integers(3, 9, users), np.zeros(users)
    total = np.zeros(users)
    for session in range(8):
        carried = 0.6 * carried + 0.4 * candidate
        right = rng.random(users) < np.clip(habit + gain * 1.6 * carried, 0, 1)
        total += right * (session < sessions)
    earlier = rng.binomial(6, habit) / 6
    return [
        UserOutcome(
            f"u{number}", "new" if candidate[number] else "old", share if candidate[number] else 1 - share,
            float(total[number] / sessions[number]), (float(earlier[number]),),
        )
        for number in range(users)
    ]  # fmt: skip


def truth(gain: float = TRUE_GAIN) -> float:
    def mean(share: float) -> float:
        return float(np.mean([one.reward for one in simulate(60_000, share, seed=99, gain=gain)]))

    return mean(1.0) - mean(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["snips", "dr"])
def test_intervals_cover_the_truth_and_are_narrow(method: str) -> None:
    real = truth()
    found = [difference(simulate(5_000, 0.3, seed), "new", "old", method=method) for seed in range(200)]  # type: ignore[arg-type]
    covered = np.mean([one.low <= real <= one.high for one in found])
    assert covered >= 0.90
    assert np.mean([one.high - one.low for one in found]) <= 0.06


def test_the_doubly_robust_estimate_is_narrower_where_features_tell_something() -> None:
    outcomes = simulate(4_000, 0.3, seed=1)
    plain, robust = (difference(outcomes, "new", "old", method=method) for method in ("snips", "dr"))  # type: ignore[arg-type]
    assert robust.high - robust.low < plain.high - plain.low


def test_below_the_floor_it_cannot_tell() -> None:
    few = difference(simulate(200, 0.05, seed=3), "new", "old")
    assert few.verdict == "cannot tell"
    assert value_of(simulate(2_000, 0.3, seed=3), "never served").verdict == "cannot tell"
    with pytest.raises(NoRows):
        value_of([], "new")


def test_by_hand() -> None:
    outcomes = [
        UserOutcome("a", "new", 0.25, 1.0), UserOutcome("b", "old", 0.75, 0.0), UserOutcome("c", "old", 0.75, 1.0),
        UserOutcome("d", "new", 0.5, 0.0),
    ]  # fmt: skip
    assert value_of(outcomes, "new", method="ips").value == pytest.approx((4 * 1.0 + 2 * 0.0) / 4)
    assert value_of(outcomes, "new", method="snips").value == pytest.approx(4 / 6)
    assert value_of(outcomes, "old", method="snips").value == pytest.approx(0.5)
    assert value_of(outcomes, "new").effective == pytest.approx(36 / 20)
