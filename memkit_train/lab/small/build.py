"""Make the small manager: read the corpus, leave out what is held out, fit, write the weights, measure on the rest.

    python -m memkit_train.lab.small --out FOLDER                                    # half an hour
    python -m memkit_train.lab.small --out OTHER --begin FOLDER --epochs 2 --seed 3  # goes on

What goes on learns from all changes, and goes over a part of the rest again. What is shipped was made by the first and
then one epoch of the second, of the corpus as it was before the files that its card names as later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from memkit.embedders.minilm import MiniLM
from memkit_train.chooser.fit import fit, predict
from memkit_train.chooser.model import Chooser
from memkit_train.lab.small.changes import change_rows
from memkit_train.lab.small.frames import frame_rows
from memkit_train.lab.small.measure import table
from memkit_train.lab.small.scenes import LabelledScene, clause_rows, read_scenes, relation_rows
from memkit_train.lab.small.statements import statement_rows
from memkit_train.rows import ChoiceRow

STATEMENTS, FRAMES = 6_000, 6_000
EPOCHS = 3
RATE = 5e-4
AGAIN = 0.33
"""Share of what changes nothing, and of what is made up, that is gone over again by weights that go on."""


def is_of_other_hand(scene: LabelledScene) -> bool:
    """Written after all that the weights were made of, to be learned from by nobody."""
    return scene.name.startswith("n-")


def is_held_out(scene: LabelledScene) -> bool:
    """One scene of six, of every writer and language; and a writer's all."""
    if is_of_other_hand(scene):
        return True
    return scene.name.rpartition("-")[2].isdigit() and int(scene.name.rpartition("-")[2]) % 6 == 0


def rows_of(scenes: Sequence[LabelledScene]) -> list[ChoiceRow]:
    embedder = MiniLM()
    found: list[ChoiceRow] = []
    for scene in scenes:
        found += clause_rows(scene)
        found += relation_rows(scene, embedder)
    return found


def build(
    out: Path, *, begin: Path | None = None, epochs: int = EPOCHS, seed: int = 1, told: Callable[[str], None] = print
) -> None:
    torch.set_num_threads(1)  # threads that wait for each other are slower than one on a busy machine
    scenes = read_scenes()
    share = 1.0 if begin is None else AGAIN
    open_rows = _some(rows_of([one for one in scenes if not is_held_out(one)]), share, seed) + change_rows(seed=seed)
    open_rows += statement_rows(round(share * STATEMENTS), seed=seed) + frame_rows(round(share * FRAMES), seed=seed)
    held = rows_of([one for one in scenes if is_held_out(one)])
    told(f"{len(scenes)} scenes; {len(open_rows)} choices to learn from, {len(held)} held out")
    model = Chooser()
    if begin is not None:
        model.load(begin)

    def epoch(number: int, loss: float) -> None:
        model.save(out)
        told(f"epoch {number} of {epochs}: loss {loss:.4f}, written to {out}")

    fit(model, open_rows, epochs=epochs, rate=RATE if begin is None else RATE / 2, seed=seed, told=epoch)
    for line in table(held, predict(model, held)):
        told(line)
    for name, unseen in (
        ("statements", statement_rows(500, held_out=True)),
        ("frames", frame_rows(500, held_out=True)),
        ("changes", change_rows(held_out=True)),
    ):
        told(f"{name} that were held out:")
        for line in table(unseen, predict(model, unseen)):
            told(line)


def _some(rows: Sequence[ChoiceRow], share: float, seed: int) -> list[ChoiceRow]:
    """All that relates two facts, and a share of the rest."""
    order = random.Random(seed)
    return [row for row in rows if (row.task == "relation" and row.label) or order.random() < share]
