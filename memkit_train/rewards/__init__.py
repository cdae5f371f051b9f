"""What a rollout is worth, in named parts that add up. Each part is one function of one file, logged by its name."""

from memkit_train.rewards.answers import AnswerReward, Answers
from memkit_train.rewards.base import Mix, Probed, Reward, Rollout, ScoredRollout
from memkit_train.rewards.budget import BudgetReward
from memkit_train.rewards.cached import CachedBackbone
from memkit_train.rewards.growth import GrowthReward
from memkit_train.rewards.validity import ValidityReward

__all__ = [
    "AnswerReward",
    "Answers",
    "BudgetReward",
    "CachedBackbone",
    "GrowthReward",
    "Mix",
    "Probed",
    "Reward",
    "Rollout",
    "ScoredRollout",
    "ValidityReward",
]
