"""`memkit-train eval`: arguments in, tables and files out. The logic is in `runner`, `summary` and `html`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from memkit.errors import InvalidConfig
from memkit_train.evaluate.runner import EvalConfig, JudgeConfig, Progress, Report, evaluate
from memkit_train.evaluate.summary import summarise

app = typer.Typer(help="How good is a memory? Systems and baselines on a data set, in named metrics.")

_TERMINAL = ("right", "judge_strict", "f1_locomo", "gold_recall", "evidence_recall", "recall@10", "gold_in_top")
_INSECURE = "let the judge be asked over plain http beyond this machine"


@app.command("eval")
def command(
    data: Annotated[
        str, typer.Argument(help="locomo:PATH, longmemeval:PATH, msc:PATH, jsonl:PATH, world:closed,count=20")
    ],
    systems: Annotated[str, typer.Option(help="comma-separated; full, raw, none, rules, add-only, oracle, tiny, …")] = (
        "full,raw,add-only,rules,none"
    ),
    answerer: Annotated[str | None, typer.Option(help="model that answers: tiny, hf:PATH, openai:NAME")] = None,
    embedder: Annotated[str, typer.Option()] = "hash",
    k: Annotated[int, typer.Option(help="memories served to the answerer")] = 10,
    words: Annotated[int, typer.Option(help="budget of the model-free checks")] = 400,
    streaming: Annotated[bool, typer.Option(help="ask as soon as a question can be answered")] = False,
    limit: Annotated[int | None, typer.Option(help="first N conversations")] = None,
    judge_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the judge")] = None,
    judge_model: Annotated[str, typer.Option()] = "",
    judge_key: Annotated[str, typer.Option(envvar="MEMKIT_JUDGE_KEY")] = "",
    judge_insecure: Annotated[bool, typer.Option(help=_INSECURE)] = False,
    lenient: Annotated[bool, typer.Option(help="the lenient judge prompt beside the strict one")] = False,
    cache: Annotated[str, typer.Option(help="finished pairs are kept here; empty: nowhere")] = ".memkit-eval",
    report: Annotated[Path | None, typer.Option(help="write a self-contained HTML page")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Compare systems on a data set."""
    prompts = ("strict", "lenient") if lenient else ("strict",)
    judge = None
    if not judge_url and (judge_model or lenient or judge_insecure):
        raise InvalidConfig(
            "a judge is described and not named",
            why="nobody is asked unless --judge-url says whom",
            fix="add --judge-url, e.g. https://api.openai.com/v1, or leave the other judge options out",
        )
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise InvalidConfig(
            f"--report {report} cannot be written",
            why="it is a folder, or its folder does not exist",
            fix="name a file in a folder that exists; nothing was measured yet",
        )
    if judge_url:
        judge = JudgeConfig(judge_url, judge_model, judge_key, prompts, judge_insecure)
    config = EvalConfig(
        data=data,
        systems=tuple(part.strip() for part in systems.split(",") if part.strip()),
        answerer=answerer,
        embedder=embedder,
        k=k,
        words=words,
        streaming=streaming,
        limit=limit,
        judge=judge,
        cache=cache or None,
    )
    made = evaluate(config, progress=None if as_json else _print_progress)
    if report is not None:
        from memkit_train.evaluate.html import page

        report.write_text(page(made), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(made.to_json() | {"summary": summarise(made)}, ensure_ascii=False, indent=1))
        return
    typer.echo(table(made))
    if left_out := made.dataset.get("left_out"):
        typer.echo(f"left out: {left_out} questions of earlier sessions, which --streaming asks")
    if report is not None:
        typer.echo(f"report: {report}")


@app.command("judge-agreement")
def judge_agreement(
    labelled: Annotated[Path, typer.Argument(help="JSON lines: question, gold, answer, label (true or false)")],
    judge_url: Annotated[str, typer.Option()],
    judge_model: Annotated[str, typer.Option()],
    judge_key: Annotated[str, typer.Option(envvar="MEMKIT_JUDGE_KEY")] = "",
    judge_insecure: Annotated[bool, typer.Option(help=_INSECURE)] = False,
    lenient: Annotated[bool, typer.Option()] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON; null where nothing could be compared")] = False,
) -> None:
    """How well a judge agrees with your own labels."""
    from memkit_train.rewards.judge import agreement, endpoint

    ask = endpoint(judge_url, judge_model, judge_key, allow_insecure=judge_insecure)
    found = agreement(labelled, ask, "lenient" if lenient else "strict")
    if as_json:
        typer.echo(json.dumps({name: None if math.isnan(value) else value for name, value in found.items()}))
        return
    for name, value in found.items():
        typer.echo(f"{name:16} {value:g}" if math.isnan(value) or value.is_integer() else f"{name:16} {value:.3f}")


def table(report: Report) -> str:
    """The main figures as plain text."""
    summary = summarise(report)
    overall = summary["overall"]
    names = [name for name in _TERMINAL if any(name in scores for scores in overall.values())]
    lines = [["system", *names, "memories", "size"]]
    for system in report.systems:
        scores, bank = overall[system], summary["banks"][system]
        cells = [_show(scores.get(name)) for name in names]
        lines.append([system, *cells, f"{bank['memories']['value']:.0f}", f"{bank['size']['value']:.2f}"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _show(one: dict[str, float] | None) -> str:
    return "-" if one is None else f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def _print_progress(step: Progress) -> None:
    eta = "" if step.eta_s is None else f", about {step.eta_s:.0f} s left"
    if step.done < step.total:
        name = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in step.conversation)
        typer.echo(f"{step.done + 1}/{step.total} {step.system} on {name}{eta}", err=True)


__all__ = ["app", "command", "evaluate", "table"]
