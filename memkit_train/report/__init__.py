"""A run's folder, and what can be read from it: run.json, metrics.jsonl, model card, report.html."""

from memkit_train.report.card import model_card
from memkit_train.report.folder import RunFolder
from memkit_train.report.page import page

__all__ = ["RunFolder", "model_card", "page"]
