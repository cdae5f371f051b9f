"""A run's folder, and what can be read from it: run.json, metrics.jsonl, model card, report.html."""

from memkit_train.files.run_folder import RunFolder
from memkit_train.report.card import model_card
from memkit_train.report.page import page

__all__ = ["RunFolder", "model_card", "page", "write_report"]


def write_report(run: RunFolder) -> None:
    """Model card and page, from the run's own record."""
    (run.path / "README.md").write_text(model_card(run.record), encoding="utf-8")
    (run.path / "report.html").write_text(page(run), encoding="utf-8")
