"""How good a memory is: data sets, metrics in their published dialects, baselines, failure split, report."""

from memkit_train.evaluate.runner import EvalConfig, JudgeConfig, Progress, Report, evaluate
from memkit_train.evaluate.summary import summarise

__all__ = ["EvalConfig", "JudgeConfig", "Progress", "Report", "evaluate", "summarise"]
