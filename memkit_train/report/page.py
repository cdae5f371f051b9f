"""One self-contained HTML page per run: no script, no network, readable on a phone."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from memkit.models import JSON
from memkit_train.files.run_folder import RunFolder, is_number, series
from memkit_train.report import svg
from memkit_train.report.style import STYLE

CASES = 20
_CURVES = ("loss", "reward", "kl", "entropy", "mean_token_accuracy", "grad_norm")
_ACTIONS = ("add", "update", "delete", "noop")
_COLOURS = ("#059669", "#d97706", "#dc2626", "#4b5563")


def page(run: RunFolder) -> str:
    """Whatever the record holds: a part that is missing is left out."""
    record = run.record
    judged: JSON = record.get("stages", {}).get("evaluate", {})
    title = f"Run {run.path.name}: {record.get('outcome') or 'unfinished'}"
    parts = [
        f"<h1>{_e(title)}</h1>{_intro(record)}",
        _section("Gate", _gate(judged.get("verdict"))),
        _section("Held-out users, beside the parent", _scores(judged.get("scores", {}))),
        _section("Training", _curves(run)),
        _section("Operations", _mix(judged.get("actions", {}), run.metrics())),
        _section("Questions that got better", _cases(judged.get("best", ()))),
        _section("Questions that got worse", _cases(judged.get("worst", ()))),
        _section("Configuration", f"<pre>{_e(_tree(record.get('config', {})))}</pre>"),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_e(title)}</title><style>{STYLE}pre{{overflow-x:auto;font-size:.8rem}}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _intro(record: JSON) -> str:
    stages = record.get("stages", {})
    counts = stages.get("collect", {}).get("counts", {})
    facts = [f"started {record.get('started_at', '')[:16]}"]
    facts += [f"{value} {name}" for name, value in counts.items() if name in ("users", "answers", "labels", "rows")]
    if taken := stages.get("amends"):
        blamed, amended, acquitted = (taken.get(name, 0) for name in ("blamed", "amended", "acquitted"))
        facts.append(f"{blamed} blamed decisions taken again, {amended} amended, {acquitted} acquitted")
    if digest := record.get("digest"):
        facts.append(f"adapter {digest[:12]}")
    return f"<p>{_e('; '.join(facts))}.</p>"


def _section(title: str, body: str) -> str:
    return f"<h2>{_e(title)}</h2>{body}" if body else ""


def _gate(verdict: JSON | None) -> str:
    if not verdict:
        return ""
    rows = ""
    words = {True: ("passed", "good"), False: ("refused", "bad")}
    for check in verdict.get("checks", ()):
        word, kind = words.get(check.get("passed"), ("not judged", ""))
        rows += (
            f"<tr><td>{_e(check.get('name', ''))}</td><td class='{kind}'>{word}</td><td>{_e(check.get('bar', ''))}</td>"
            f"<td style='text-align:left'>{_e(check.get('why', ''))}</td></tr>"
        )
    head = "<tr><th>check</th><th></th><th>bar</th><th style='text-align:left'>measured</th></tr>"
    return (
        f"<p>Outcome: <b>{_e(verdict.get('outcome', 'unknown'))}</b>, on {verdict.get('probes', 0)} probes of "
        f"{verdict.get('users', 0)} users; 95 % intervals from redrawing users.</p>"
        f"<div class='scroll'><table>{head}{rows}</table></div>"
    )


def _scores(scores: Mapping[str, Mapping[str, float]]) -> str:
    names = list(dict.fromkeys(name for row in scores.values() for name in row))
    if not names:
        return ""
    head = "".join(f"<th>{_e(who)}</th>" for who in scores)
    rows = "".join(
        f"<tr><td>{_e(name)}</td>{''.join(_number(row.get(name)) for row in scores.values())}</tr>" for name in names
    )
    clock = "<p>latency_ms is wall-clock time, for information: no check reads it.</p>" if "latency_ms" in names else ""
    return f"<div class='scroll'><table><tr><th></th>{head}</tr>{rows}</table></div>{clock}"


def _curves(run: RunFolder) -> str:
    """Each on its own scale, from its smallest value to its largest."""
    out, rows = "", run.metrics()
    for name in _CURVES:
        points = series(rows, name)
        if len(points) < 2:
            continue
        values = [y for _, y in points]
        out += svg.lines({name: points}, "step", name, bounds=(min(values), max(values)))
    return out


def _mix(actions: Mapping[str, Mapping[str, int]], metrics: Sequence[JSON]) -> str:
    rows = {
        who: [found.get(name, 0) / total for name in _ACTIONS]
        for who, found in actions.items()
        if (total := sum(found.values()))
    }
    over_time = {name: series(metrics, f"memory/ops/{name}") for name in _ACTIONS}
    shown = {name: points for name, points in over_time.items() if points}
    chart = svg.lines(shown, "step", "share of operations") if shown else ""
    return (svg.bars(rows, _ACTIONS, _COLOURS) if rows else "") + chart


def _cases(cases: Sequence[Mapping[str, Any]]) -> str:
    out = ""
    for case in cases[:CASES]:
        columns = "".join(_side(who, case[who]) for who in ("candidate", "parent") if who in case)
        out += (
            f"<details><summary>{_e(case.get('question', ''))} <small>expected {_e(case.get('expected', ''))}</small>"
            f"</summary>{columns}</details>"
        )
    return out


def _side(who: str, side: Mapping[str, Any]) -> str:
    score = side["score"] if is_number(side.get("score")) else 0.0
    return (
        f"<p><b>{_e(who)}</b> answered <b class='{'good' if score >= 0.5 else 'bad'}'>"
        f"{_e(side.get('answer', ''))}</b> ({score:.2f})<br>"
        f"<small>did: {_e('; '.join(side.get('ops', ())) or 'nothing')}"
        f"<br>was served: {_e(' | '.join(side.get('served', ())[:5]) or 'nothing')}</small></p>"
    )


def _number(value: Any) -> str:
    return f"<td>{value:.3f}</td>" if is_number(value) else "<td>–</td>"


def _tree(value: Any, depth: int = 0) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    pad = "  " * depth
    lines = [
        f"{pad}{key}:\n{_tree(one, depth + 1)}" if isinstance(one, Mapping) else f"{pad}{key}: {one}"
        for key, one in value.items()
    ]
    return "\n".join(lines)


def _e(text: object) -> str:
    return html.escape(str(text))
