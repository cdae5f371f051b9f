"""`python -m memkit_train.lab.tiny build` makes the checkpoints; `measure` prints what they can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from memkit_train.lab.tiny import CHECKPOINTS, checkpoint

app = typer.Typer(help=__doc__)


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="folder that gets skilled/ and biased/")] = CHECKPOINTS,
    seed: int = 11,
    scale: Annotated[float, typer.Option(help="share of the training; below 1 only to try things out")] = 1.0,
) -> None:
    """Make both checkpoints from generated data alone; their manifests say what CPU time it took."""
    from memkit_train.lab.tiny.build import build as make

    def log(step: dict[str, Any]) -> None:
        typer.echo(json.dumps(step))

    make(out, seed=seed, scale=scale, log=log)
    typer.echo(f"made {out / 'skilled'} and {out / 'biased'}")


@app.command()
def bias(
    out: Annotated[Path, typer.Option(help="folder that gets biased/")] = CHECKPOINTS,
    skilled: Annotated[Path, typer.Option(help="a skilled checkpoint")] = CHECKPOINTS / "skilled",
) -> None:
    """The last stage of `build` alone: bad habits for a skilled checkpoint (a minute)."""
    from memkit_train.lab.tiny.build import bias as make

    make(skilled, out / "biased", log=lambda step: typer.echo(json.dumps(step)))
    typer.echo(f"made {out / 'biased'}")


@app.command("build-open")
def build_open(
    out: Annotated[Path, typer.Argument(help="folder that gets the checkpoint")],
    seed: int = 11,
    scale: Annotated[float, typer.Option(help="share of the training")] = 1.0,
) -> None:
    """Make a model for the open level (generated names, one shown memory): an attempt, which is not shipped."""
    from memkit_train.lab.tiny.build import build_open as make

    make(out, seed=seed, scale=scale, log=lambda step: typer.echo(json.dumps(step)))
    typer.echo(f"made {out}")


@app.command()
def measure(
    model: Annotated[str, typer.Argument(help="skilled, biased, or a folder")] = "skilled",
    episodes: int = 60,
    seed: int = 1000,
    level: str = "closed",
    shown: Annotated[int, typer.Option(help="memories shown to the manager; 1 for the open model")] = 5,
) -> None:
    """Operations and answers on held-out users and dialogues, through the runtime's own pipeline."""
    from memkit.backbones.hf import HFBackbone
    from memkit.embedders import make_embedder
    from memkit_train.lab.tiny.measure import measure as run
    from memkit_train.lab.worlds import Knobs, generate

    folder = checkpoint(model) if model in ("skilled", "biased") else Path(model)
    backbone = HFBackbone(folder, threads=1)
    try:
        held = generate(episodes, seed=seed, knobs=Knobs(level=level), split="heldout")  # type: ignore[arg-type]
        typer.echo(json.dumps(run(held, backbone, make_embedder("hash"), candidates=shown).rows(), indent=1))
    finally:
        backbone.close()


if __name__ == "__main__":
    app()
