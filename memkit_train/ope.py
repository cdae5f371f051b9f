"""What an adapter is worth, estimated from the logs of a router that split users between adapters.

The unit is the *user*: a bank carries over from session to session, so splitting a user's sessions would let one
adapter answer from the other's memories. The router assigns users by a sticky hash with known probability and logs it,
so at user level the propensity is exact and the estimate unbiased:

    IPS    mean over users of  1{served by A} / p  × reward
    SNIPS  the same, divided by the sum of the weights (a little bias, much less variance)
    DR     a linear model of reward from what was known before the assignment, plus the SNIPS of its residuals

Below a floor of effective sample size the answer is "cannot tell", never a number to act on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memkit_train.errors import NoRows

Method = Literal["ips", "snips", "dr"]
Z = 1.959963984540054
MIN_SAMPLE = 100.0
"""Effective users per adapter below which nothing is claimed."""


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """One user over the logged time: who served, how likely that was, how the user's labelled answers went."""

    user: str
    adapter: str | None
    propensity: float
    """Probability with which the router chose that adapter for this user."""
    reward: float
    """Mean reward of the user's labelled answers."""
    features: tuple[float, ...] = ()
    """Known before the assignment: the reward of earlier weeks, turns per week, …"""


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    low: float
    high: float
    effective: float
    """Effective sample size: (sum of weights)² / sum of squared weights."""
    users: int
    tells: bool
    """False: too few effective users; value and interval are not to be acted on."""

    @property
    def verdict(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]" if self.tells else "cannot tell"


def value_of(
    outcomes: Sequence[UserOutcome], adapter: str | None, *, method: Method = "snips", floor: float = MIN_SAMPLE
) -> Estimate:
    """Mean reward per user, had `adapter` served everybody."""
    contribution, effective = _influence(outcomes, adapter, method)
    return _estimate(contribution, effective, floor)


def difference(
    outcomes: Sequence[UserOutcome],
    candidate: str | None,
    incumbent: str | None,
    *,
    method: Method = "snips",
    floor: float = MIN_SAMPLE,
) -> Estimate:
    """Value of `candidate` minus value of `incumbent`, with the covariance of the two accounted for."""
    ours, our_sample = _influence(outcomes, candidate, method)
    theirs, their_sample = _influence(outcomes, incumbent, method)
    return _estimate(ours - theirs, min(our_sample, their_sample), floor)


def _influence(
    outcomes: Sequence[UserOutcome], adapter: str | None, method: Method
) -> tuple[NDArray[np.float64], float]:
    """Per user, a number whose mean is the estimate and whose spread is its variance; and the effective sample."""
    if not outcomes:
        raise NoRows("there are no outcomes to estimate from", fix="collect feedback under a router with a canary")
    reward = np.array([one.reward for one in outcomes])
    weight = np.array([1.0 / one.propensity if one.adapter == adapter else 0.0 for one in outcomes])
    total = weight.sum()
    if total == 0:
        return np.zeros(len(outcomes)), 0.0
    effective = float(total**2 / (weight**2).sum())
    if method == "ips":
        return weight * reward, effective
    share = weight / weight.mean()
    if method == "snips":
        mean = float((share * reward).mean())
        return mean + share * (reward - mean), effective
    predicted = _predicted(outcomes, reward, weight)
    left = float((share * (reward - predicted)).mean())
    return predicted + left + share * (reward - predicted - left), effective


def _predicted(
    outcomes: Sequence[UserOutcome], reward: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Ridge regression on the users that the adapter served, weighted as they count, read off for everybody."""
    features = np.array([one.features for one in outcomes], dtype=float).reshape(len(outcomes), -1)
    design = np.column_stack([np.ones(len(outcomes)), features])
    gram = design.T @ (weight[:, None] * design) + 1e-3 * weight.sum() * np.diag([0.0, *[1.0] * features.shape[1]])
    return design @ np.linalg.lstsq(gram, design.T @ (weight * reward), rcond=None)[0]


def _estimate(contribution: NDArray[np.float64], effective: float, floor: float) -> Estimate:
    value = float(contribution.mean())
    half = Z * float(contribution.std(ddof=1)) / np.sqrt(len(contribution)) if len(contribution) > 1 else float("inf")
    return Estimate(value, value - half, value + half, effective, len(contribution), effective >= floor)
