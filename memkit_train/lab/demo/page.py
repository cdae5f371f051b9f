"""report.html of the story: what was measured, by kind of question, and answers in words. Self-contained, no script."""

from __future__ import annotations

import html
from collections import defaultdict
from statistics import fmean

from memkit_train.lab.demo import refusal
from memkit_train.lab.demo.figures import rows
from memkit_train.lab.demo.habits import NewHabits
from memkit_train.lab.demo.panel import BeforeAfter, Pair
from memkit_train.lab.demo.story import DemoOutcome
from memkit_train.report import svg
from memkit_train.report.style import STYLE

CASES = 12


def page(told: DemoOutcome) -> str:
    title = "A memory that learned" if told.true else "A memory, retrained"
    table = "".join(f"<tr><th>{_e(name)}</th><td>{_e(value)}</td></tr>" for name, value in rows(told))
    parts = [f"<h1>{_e(title)}</h1>", f"<table class='words'>{table}</table>"]
    if told.compared is not None:
        parts += [
            "<h2>Share of right answers, by kind of question</h2>",
            _kinds(told.compared),
            "<h2>Got better</h2>",
            _cases([one for one in told.compared.pairs if one.gain > 0]),
            "<h2>Got worse</h2>",
            _cases([one for one in told.compared.pairs if one.gain < 0]),
        ]
        parts += _habits(told.compared.habits)
    if told.outcome.digest is None:
        reasons = "".join(f"<li>{_e(one)}</li>" for one in refusal.reasons(told.outcome))
        parts.append(f"<h2>Why the gate refused it</h2><ul>{reasons}</ul>")
    run = told.outcome.run
    if run is not None and (run / "report.html").is_file():
        link = (run / "report.html").relative_to(told.folder)
        parts.append(f'<p>The training run, its curves and its gate: <a href="{_e(str(link))}">{_e(str(link))}</a></p>')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_e(title)}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _kinds(found: BeforeAfter) -> str:
    sides: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for pair in found.pairs:
        before, after = sides[pair.before.question.kind]
        before.append(pair.before.right)
        after.append(pair.after.right)
    sides["all"] = ([one.before.right for one in found.pairs], [one.after.right for one in found.pairs])
    body = "".join(
        f"<tr><td>{_e(kind)}</td><td>{fmean(before):.2f}</td><td>{fmean(after):.2f}</td><td>{len(before)}</td></tr>"
        for kind, (before, after) in sorted(sides.items())
    )
    curves = {kind: [(0.0, fmean(before)), (1.0, fmean(after))] for kind, (before, after) in sorted(sides.items())}
    head = "<tr><th>kind</th><th>before</th><th>after</th><th>n</th></tr>"
    return svg.lines(curves, "before → after", "right") + f"<table>{head}{body}</table>"


def _habits(found: NewHabits) -> list[str]:
    parts: list[str] = []
    for title, texts in (("What it learned to keep", found.kept), ("What it learned to leave", found.left)):
        if texts:
            rows = "".join(f"<tr><td>{_e(one)}</td></tr>" for one in texts[:CASES])
            parts += [f"<h2>{title}</h2>", f"<table class='words'>{rows}</table>"]
    if found.updated:
        rows = "".join(f"<tr><td>{_e(old)}</td><td>{_e(new)}</td></tr>" for old, new in found.updated[:CASES])
        head = "<tr><th>stood there</th><th>says now</th></tr>"
        parts += ["<h2>What it learned to update</h2>", f"<table class='words'>{head}{rows}</table>"]
    return parts


def _cases(pairs: list[Pair]) -> str:
    if not pairs:
        return "<p>None.</p>"
    # one question is asked after many a session
    pairs = list({(one.before.user_id, one.before.question.text): one for one in pairs}.values())
    body = "".join(
        f"<tr><td>{_e(one.before.question.text)}</td><td>{_e(one.before.question.expected)}</td>"
        f"<td>{_e(one.before.answer)}</td><td>{_e(one.after.answer)}</td></tr>"
        for one in pairs[:CASES]
    )
    more = f"<p>{len(pairs) - CASES} more.</p>" if len(pairs) > CASES else ""
    head = "<tr><th>question</th><th>true</th><th>before</th><th>after</th></tr>"
    return f"<table class='words'>{head}{body}</table>{more}"


def _e(text: str) -> str:
    return html.escape(text)


__all__ = ["page"]
