"""One self-contained HTML page per run: no script, no network, readable on a phone."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from memkit.models import JSON
from memkit_train.evaluate import svg
from memkit_train.evaluate.html import STYLE
from memkit_train.report.folder import RunFolder, series

CASES = 20
_CURVES = ("loss", "reward", "kl", "entropy", "rewards/margins", "mean_token_accuracy", "grad_norm")
_ACTIONS = ("add", "update", "delete", "noop")
_COLOURS = ("#059669", "#d97706", "#dc2626", "#4b5563")


def page(run: RunFolder) -> str:
    record = run.record
    judged: JSON = record.get("stages", {}).get("evaluate", {})
    title = f"Run {run.path.name}: {record.get('outcome') or 'unfinished'}"
    parts = [
        f"<h1>{_e(title)}</h1>{_intro(record)}",
        _section("Gate", _gate(judged.get("verdict"))),
        _section("Held-out users, beside the parent", _scores(judged.get("scores", {}))),
        _section("Ladder", _ladder(record.get("stages", {}).get("train", {}).get("rungs", ()))),
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
    if replayed := stages.get("alternatives"):
        states, choice = replayed["states"], replayed["states_with_a_choice"]
        facts.append(f"alternatives at {states} states, {choice} of them with a choice")
    if taken := stages.get("amends"):
        facts.append("{blamed} blamed decisions taken again, {amended} amended, {acquitted} acquitted".format(**taken))
    if digest := record.get("digest"):
        facts.append(f"adapter {digest[:12]}")
    return f"<p>{_e('; '.join(facts))}.</p>"


def _section(title: str, body: str) -> str:
    return f"<h2>{_e(title)}</h2>{body}" if body else ""


def _gate(verdict: JSON | None) -> str:
    if not verdict:
        return ""
    rows = ""
    for check in verdict["checks"]:
        word, kind = {True: ("passed", "good"), False: ("refused", "bad"), None: ("not judged", "")}[check["passed"]]
        rows += (
            f"<tr><td>{_e(check['name'])}</td><td class='{kind}'>{word}</td><td>{_e(check['bar'])}</td>"
            f"<td style='text-align:left'>{_e(check['why'])}</td></tr>"
        )
    head = "<tr><th>check</th><th></th><th>bar</th><th style='text-align:left'>measured</th></tr>"
    return (
        f"<p>Outcome: <b>{_e(verdict['outcome'])}</b>, on {verdict['probes']} probes of {verdict['users']} users; "
        f"95 % intervals from redrawing users.</p><div class='scroll'><table>{head}{rows}</table></div>"
    )


def _scores(scores: Mapping[str, Mapping[str, float]]) -> str:
    names = list(dict.fromkeys(name for row in scores.values() for name in row))
    if not names:
        return ""
    head = "".join(f"<th>{_e(who)}</th>" for who in scores)
    rows = "".join(
        f"<tr><td>{_e(name)}</td>{''.join(_number(row.get(name)) for row in scores.values())}</tr>" for name in names
    )
    return f"<div class='scroll'><table><tr><th></th>{head}</tr>{rows}</table></div>"


def _ladder(rungs: Sequence[Mapping[str, Any]]) -> str:
    if not rungs:
        return ""
    rows = ""
    for one in rungs:
        word, kind = ("kept", "good") if one["kept"] else ("not kept", "bad")
        rows += (
            f"<tr><td>{_e(one['name'])}</td><td>{_e(one['below'])}</td><td class='{kind}'>{word}</td>"
            f"<td>{one.get('steps', 0)}</td>{_number(one.get('gain'))}{_number(one.get('low'))}"
            f"{_number(one.get('high'))}<td style='text-align:left'>{_e(one['why'])}</td></tr>"
        )
    head = (
        "<tr><th>rung</th><th>against</th><th></th><th>steps</th><th>gain</th><th>low</th><th>high</th>"
        "<th style='text-align:left'>why</th></tr>"
    )
    return (
        "<p>Each rung starts from the best so far and is kept where it beats it on validation users, who are neither "
        f"learned from nor held out for the gate.</p><div class='scroll'><table>{head}{rows}</table></div>"
    )


def _curves(run: RunFolder) -> str:
    """Each against its own largest value: the chart's scale is 0 to 1."""
    rungs = sorted((run.path / "ladder").glob("*/metrics.jsonl"), key=lambda one: one.stat().st_mtime)
    if rungs:
        read = [run for one in rungs if (run := RunFolder.readable(one.parent)) is not None]
        return "".join(f"<h3>{_e(one.path.name)}</h3>{_curves(one)}" for one in read)
    out, rows = "", run.metrics()
    for name in _CURVES:
        points = series(rows, name)
        if len(points) < 2:
            continue
        largest = max(abs(y) for _, y in points) or 1.0
        shares = [(x, max(0.0, y) / largest) for x, y in points]
        out += svg.lines({name: shares}, "step", f"{name} (1 = {largest:.3g})")
    return out


def _mix(actions: Mapping[str, Mapping[str, int]], metrics: Sequence[JSON]) -> str:
    rows = {
        who: [found.get(name, 0) / total for name in _ACTIONS]
        for who, found in actions.items() if (total := sum(found.values()))
    }  # fmt: skip
    over_time = {name: series(metrics, f"memory/ops/{name}") for name in _ACTIONS}
    shown = {name: points for name, points in over_time.items() if points}
    chart = svg.lines(shown, "step", "share of operations") if shown else ""
    return (svg.bars(rows, _ACTIONS, _COLOURS) if rows else "") + chart


def _cases(cases: Sequence[Mapping[str, Any]]) -> str:
    out = ""
    for case in cases[:CASES]:
        columns = "".join(
            f"<p><b>{_e(who)}</b> answered <b class='{'good' if side['score'] >= 0.5 else 'bad'}'>"
            f"{_e(side['answer'])}</b> ({side['score']:.2f})<br><small>did: {_e('; '.join(side['ops']) or 'nothing')}"
            f"<br>was served: {_e(' | '.join(side['served'][:5]) or 'nothing')}</small></p>"
            for who, side in (("candidate", case["candidate"]), ("parent", case["parent"]))
        )
        out += (
            f"<details><summary>{_e(case['question'])} <small>expected {_e(case['expected'])}</small></summary>"
            f"{columns}</details>"
        )
    return out


def _number(value: float | None) -> str:
    return "<td>–</td>" if value is None else f"<td>{value:.3f}</td>"


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
