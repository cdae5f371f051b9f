"""One self-contained HTML page from a report: no script, no network, readable on a phone."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from memkit_train.evaluate.runner import BUDGETS, RANKS, Report
from memkit_train.evaluate.summary import ANSWER_SCORES, BANK_FIGURES, summarise, worst_cases
from memkit_train.report import svg
from memkit_train.report.style import STYLE

_SPLIT = ("recalled", "not retrieved", "not in memory")
_SPLIT_COLOURS = ("#059669", "#d97706", "#dc2626")
_NAMES = {
    "right": "exactly right",
    "f1_locomo": "F1 (LoCoMo)",
    "f1_squad": "F1 (SQuAD)",
    "f1_mem0": "F1 (mem0)",
    "bleu1": "BLEU-1",
    "em_set": "EM (LoCoMo sets)",
    "em_squad": "EM (SQuAD)",
    "em_mem0": "EM (mem0)",
    "gold_recall": "gold tokens said",
    "abstained": "abstained",
    "stale_answer": "stale answers",
    "words": "words",
    "judge_strict": "judge, strict",
    "judge_lenient": "judge, lenient",
    "judge_strict_unreadable": "verdicts unreadable, strict",
    "judge_lenient_unreadable": "verdicts unreadable, lenient",
    "size": "words kept per word",
    "true_kept": "true facts kept",
    "unsupported_tags": "tags without content",
}


def page(report: Report) -> str:
    summary = summarise(report)
    parts = [
        f"<h1>Memory evaluation: {_e(report.dataset['name'])}</h1>",
        _intro(report),
        _section("Answers", _scores(summary["overall"], ANSWER_SCORES)),
        _section("Where evidence is lost", _split(summary) + _SPLIT_NOTE),
        _section("Recall by depth", _recall(summary)),
        _section("Compression", _compression(summary) + _COMPRESSION_NOTE),
        _section("Banks and operations", _scores(summary["banks"], BANK_FIGURES)),
        _section(f"By category ({_name(summary['headline'] or 'evidence_recall')})", _cross(summary["categories"])),
    ]
    if len(summary["steps"]) > 1:
        parts.append(_section("By step", _steps(summary)))
    parts.append(_section("Worst cases", "".join(_cases(report, system) for system in report.systems)))
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Memory evaluation: {_e(report.dataset['name'])}</title><style>{STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )


_SPLIT_NOTE = (
    "<p><small>Per question, over its evidence turns: a live memory names the turn as a source and is served; is not "
    "served; or no memory names it. The three sum to one.</small></p>"
)
_COMPRESSION_NOTE = (
    "<p><small>Up in both: share of the gold answer's words. First, in so many words of the best memories: what a "
    "prompt of that size gets. Then, in the budget for model-free checks, beside how many words the bank keeps per "
    "word said.</small></p>"
)


def _intro(report: Report) -> str:
    data, made = report.dataset, report.made
    facts = [
        f"{data['conversations']} conversations, {data['turns']} turns, {data['questions']} questions",
        f"embedder {made['embedder']}",
        f"answers by {made['answerer'] or 'the exact reader of the world, where there is one'}",
        f"{report.config['k']} memories served; {report.config['words']} words for model-free checks",
        "95 % intervals from redrawing conversations",
    ]
    if data.get("left_out"):
        facts.append(f"{data['left_out']} questions of earlier sessions left out: streaming asks them")
    if data["repairs"]:
        facts.append("repaired on loading: " + ", ".join(f"{name} ({n})" for name, n in data["repairs"].items()))
    return "<p>" + "; ".join(_e(fact) for fact in facts) + ".</p>"


def _section(title: str, body: str) -> str:
    return f"<h2>{_e(title)}</h2>{body}" if body else ""


def _scores(table: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> str:
    shown = [name for name in names if any(name in scores for scores in table.values())]
    if not shown:
        return "<p>No answers were generated: only what needs no model was measured.</p>"
    head = "".join(f"<th>{_e(_name(name))}</th>" for name in shown)
    rows = "".join(
        f"<tr><td>{_e(system)}</td>{''.join(_cell(scores.get(name)) for name in shown)}</tr>"
        for system, scores in table.items()
    )
    return f'<div class="scroll"><table><tr><th>system</th>{head}</tr>{rows}</table></div>'


def _cross(table: Mapping[str, Mapping[str, Any]]) -> str:
    systems = list(dict.fromkeys(system for row in table.values() for system in row))
    head = "".join(f"<th>{_e(system)}</th>" for system in systems)
    rows = ""
    for name, row in table.items():
        n = max(one["n"] for one in row.values())
        cells = "".join(_cell(row.get(system)) for system in systems)
        rows += f"<tr><td>{_e(name)} <small>n={n}</small></td>{cells}</tr>"
    return f'<div class="scroll"><table><tr><th>category</th>{head}</tr>{rows}</table></div>'


def _cell(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "<td>–</td>"
    digits = 1 if abs(one["value"]) >= 10 else 3
    interval = f"{one['low']:.{digits}f}–{one['high']:.{digits}f}"
    return f"<td>{one['value']:.{digits}f}<br><small>{interval}</small></td>"


def _split(summary: Mapping[str, Any]) -> str:
    rows: dict[str, list[float]] = {}
    for system, scores in summary["overall"].items():
        if "evidence_recall" in scores:
            names = ("evidence_recall", "evidence_not_retrieved", "evidence_not_in_memory")
            rows[system] = [scores[name]["value"] for name in names]
    return svg.bars(rows, _SPLIT, _SPLIT_COLOURS) if rows else ""


def _recall(summary: Mapping[str, Any]) -> str:
    return _curve(summary, "recall", RANKS, "memories served", "share of evidence")


def _curve(summary: Mapping[str, Any], name: str, depths: Sequence[int], x_label: str, y_label: str) -> str:
    series = {
        system: [(float(n), scores[f"{name}@{n}"]["value"]) for n in depths if f"{name}@{n}" in scores]
        for system, scores in summary["overall"].items()
    }
    series = {system: points for system, points in series.items() if points}
    everybody = list(summary["overall"])
    return svg.lines(series, x_label, y_label, log_x=True, everybody=everybody) if series else ""


def _compression(summary: Mapping[str, Any]) -> str:
    curve = _curve(summary, "gold", BUDGETS, "words of the best memories", "answer words in reach")
    found = {
        system: (summary["banks"][system]["size"]["value"], scores["gold_in_top"]["value"])
        for system, scores in summary["overall"].items()
        if "gold_in_top" in scores and "size" in summary["banks"][system]
    }
    return curve + svg.points(
        found, "words kept per word said", "answer words in reach", everybody=list(summary["overall"])
    )


def _steps(summary: Mapping[str, Any]) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for step, row in summary["steps"].items():
        for system, one in row.items():
            series.setdefault(system, []).append((float(step), one["value"]))
    label = _name(summary["headline"] or "evidence_recall")
    return svg.lines(series, "session", label, everybody=list(summary["overall"]))


def _cases(report: Report, system: str) -> str:
    cases = "".join(_case(row) for row in worst_cases(report, system))
    return f"<h3>{_e(system)}</h3>{cases}" if cases else ""


def _case(row: Mapping[str, Any]) -> str:
    evidence = set(row["evidence"])
    scores = row["scores"]
    if "evidence_recall" not in scores:
        fate = "no evidence to trace"
    elif scores.get("evidence_not_in_memory", 0) > 0:
        fate = "lost before retrieval: no memory names an evidence turn"
    elif scores.get("evidence_not_retrieved", 0) > 0:
        fate = "in memory, but not served"
    else:
        fate = "served, and still not answered"
    items = ""
    for text, sources in row["served"]:
        mark = ' class="good"' if evidence & set(sources) else ""
        items += f"<li{mark}>{_e(text)} <small>{_e(', '.join(sources[:6]))}</small></li>"
    gold = " / ".join(row["gold"]) or "unknown"
    said = "" if row["answer"] is None else f", answered <b class='bad'>{_e(row['answer'])}</b>"
    return (
        f"<details><summary>{_e(row['question'])} <small>{_e(row['category'])}</small></summary>"
        f"<p>expected <b>{_e(gold)}</b>{said}; {fate}.<br>"
        f"evidence: {_e(', '.join(row['evidence']) or 'none')}</p><ol>{items}</ol></details>"
    )


def _name(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " "))


def _e(text: str) -> str:
    return html.escape(str(text))
