"""`memkit-train grpo | ppo | logo`: reinforcement learning on played conversations, without a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memkit.cli import show
from memkit_train.cli.common import Json

ConfigFile = Annotated[Path | None, typer.Argument(help="YAML, TOML or JSON with an `online:` section.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="section.key=value, over the file; may be repeated.")]
Resume = Annotated[bool, typer.Option("--resume/--no-resume", help="Go on from the last checkpoint, if there is one.")]
Smoke = Annotated[bool, typer.Option("--smoke", help="Two steps on next to nothing: does everything run?")]
EXITS = {"trained": 0, "stopped early": 0, "not ready": 3, "collapsed": 1}


def grpo(
    config: ConfigFile = None, sets: Sets = None, resume: Resume = True, smoke: Smoke = False, json: Json = False
) -> None:
    """Group-relative policy gradient: decisions from shared states, answers, or whole conversations."""
    _learn("grpo", config, sets, resume, smoke, json)


def ppo(
    config: ConfigFile = None, sets: Sets = None, resume: Resume = True, smoke: Smoke = False, json: Json = False
) -> None:
    """Clipped surrogate with a learned value baseline, on single decisions."""
    _learn("ppo", config, sets, resume, smoke, json)


def logo(
    config: ConfigFile = None, sets: Sets = None, resume: Resume = True, smoke: Smoke = False, json: Json = False
) -> None:
    """LoGo-GRPO: whole conversations with credit per session, and sessions rerolled from one bank."""
    _learn("logo", config, sets, resume, smoke, json)


def _learn(name: str, path: Path | None, sets: list[str] | None, resume: bool, smoke: bool, json: bool) -> None:
    from memkit_train.cli.progress import progress
    from memkit_train.retrain.config import load
    from memkit_train.retrain.run import reinforce

    chosen = load(path, [*(sets or ()), f"online.algorithm={name}"])
    with progress(json) as tick:
        run, done = reinforce(chosen, resume=resume, smoke=smoke, tick=tick)
    if json:
        show.as_json({"run": str(run.path), **done.to_json()})
    else:
        show.out.print(f"[bold]{done.status}[/]: {show.visible(done.why)}")
        show.out.print(f"  held out: {done.start.score:.3f} → {done.marks.score:.3f}")
        show.out.print(f"  adapter: {show.visible(str(done.adapter))}")
    if EXITS[done.status]:
        raise typer.Exit(EXITS[done.status])
