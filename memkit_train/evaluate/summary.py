"""Rows → figures with intervals. Pure; the report and the JSON print the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memkit.models import JSON
from memkit_train.evaluate.runner import BUDGETS, RANKS, Report
from memkit_train.metrics.stats import Estimate, mean_by_cluster

ANSWER_SCORES = (
    "right",
    "judge_strict",
    "judge_strict_unreadable",
    "judge_lenient",
    "judge_lenient_unreadable",
    "f1_locomo",
    "gold_recall",
    "f1_squad",
    "f1_mem0",
    "bleu1",
    "em_set",
    "em_squad",
    "em_mem0",
    "abstained",
    "stale_answer",
    "words",
)
MEMORY_SCORES = (
    "evidence_recall",
    "evidence_not_in_memory",
    "evidence_not_retrieved",
    "evidence_unused",
    "evidence_recall_content",
    "evidence_kept_content",
    "mrr",
    "gold_in_bank",
    "gold_in_top",
    *(f"recall@{k}" for k in RANKS),
    *(f"gold@{n}" for n in BUDGETS),
)
BANK_FIGURES = (
    "memories",
    "size",
    "ops_add",
    "ops_update",
    "ops_delete",
    "ops_noop",
    "duplicates",
    "junk",
    "stale",
    "true_kept",
    "unsupported_tags",
    "parked",
)


def scores_of(rows: Sequence[Mapping[str, Any]], name: str, draws: int) -> Estimate | None:
    grouped: dict[str, list[float]] = {}
    for row in rows:
        if name in row["scores"]:
            grouped.setdefault(row["conversation"], []).append(row["scores"][name])
    return mean_by_cluster(grouped, draws=draws) if grouped else None


def headline(report: Report) -> str | None:
    """The score that answers are ranked by: exact where the world knows, a strict judge, else official F1."""
    present = {name for row in report.rows for name in row["scores"]}
    return next((name for name in ("right", "judge_strict", "f1_locomo") if name in present), None)


def summarise(report: Report) -> JSON:
    """{system: {score: {value, low, high, n}}} overall, by category, by step, and per bank."""
    draws = int(report.config.get("draws", 1000))
    by_system = {name: [row for row in report.rows if row["system"] == name] for name in report.systems}
    names = (*ANSWER_SCORES, *MEMORY_SCORES)
    best = headline(report)
    out: JSON = {"headline": best, "overall": {}, "categories": {}, "steps": {}, "banks": {}}
    for system, rows in by_system.items():
        found = {name: scores_of(rows, name, draws) for name in names}
        out["overall"][system] = {name: as_dict(one) for name, one in found.items() if one is not None}
        banks = [bank for bank in report.banks if bank["system"] == system]
        out["banks"][system] = {
            name: as_dict(mean_by_cluster({b["conversation"]: [b[name]] for b in banks if name in b}, draws=draws))
            for name in BANK_FIGURES
            if any(name in bank for bank in banks)
        }
        key = best or "evidence_recall"
        for category in sorted({row["category"] for row in rows}):
            one = scores_of([row for row in rows if row["category"] == category], key, draws)
            if one is not None:
                out["categories"].setdefault(category, {})[system] = as_dict(one)
        for step in sorted({row["step"] for row in rows}):
            one = scores_of([row for row in rows if row["step"] == step], key, draws)
            if one is not None:
                out["steps"].setdefault(str(step), {})[system] = as_dict(one)
    return out


def as_dict(estimate: Estimate) -> JSON:
    return {
        "value": round(estimate.value, 4),
        "low": round(estimate.low, 4),
        "high": round(estimate.high, 4),
        "n": estimate.n,
    }


def worst_cases(report: Report, system: str, count: int = 12) -> Sequence[Mapping[str, Any]]:
    """Questions that went wrong, those that others got right first."""
    key = headline(report) or "evidence_recall"
    others: dict[str, float] = {}
    for row in report.rows:
        if row["system"] != system and key in row["scores"]:
            name = f"{row['conversation']}/{row['id']}"
            others[name] = max(others.get(name, 0.0), row["scores"][key])
    mine = [row for row in report.rows if row["system"] == system and row["scores"].get(key, 1.0) < 0.5]
    return sorted(
        mine, key=lambda row: (row["scores"][key] - others.get(f"{row['conversation']}/{row['id']}", 0.0), row["id"])
    )[:count]
