"""Which checkpoint is kept: the latest that is not worse beyond noise, and never one below the parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit_train.rl.judge import Judge, Marks
from memkit_train.rl.settings import StopSettings


def marks(*people: float) -> Marks:
    return Marks(sum(people) / len(people), 0.0, {}, {str(n): value for n, value in enumerate(people)})


@pytest.mark.parametrize(
    ("looks", "kept"),
    [
        ([marks(0.5, 0.5, 0.5), marks(0.8, 0.8, 0.9), marks(0.6, 0.6, 0.7)], 1),  # everybody lost
        ([marks(0.5, 0.5, 0.5), marks(0.8, 0.8, 0.9), marks(0.9, 0.9, 0.65)], 2),  # one did, two gained
        ([marks(0.5, 0.5, 0.5), marks(0.45, 0.55, 0.48)], 0),  # not better than the parent
        ([marks(0.5, 0.5, 0.5), marks(0.5, 0.5, 0.5)], 0),
    ],
)
def test_luck_does_not_choose(looks: list[Marks], kept: int, tmp_path: Path) -> None:
    saved: list[Path] = []
    ahead = iter(looks)
    judge = Judge(lambda: next(ahead), saved.append, tmp_path / "best", StopSettings())
    for step in range(len(looks)):
        judge.look(step)
    assert judge.best == (kept, looks[kept])
    again = Judge(lambda: marks(0.0), saved.append, tmp_path / "best", StopSettings())
    again.restore(judge.state())
    assert again.best == judge.best
    assert saved, "the parent is kept until something is better"


def test_what_is_gone_back_to_is_what_its_checkpoint_called_the_best(tmp_path: Path) -> None:
    """A look after the checkpoint saved a better one; repeated on another machine, it is no better."""

    weights = ""

    def keep(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "weights").write_text(weights)

    def judge(*scores: float) -> Judge:
        ahead = iter(scores)
        return Judge(lambda: marks(next(ahead)), keep, tmp_path / "best", StopSettings())

    died = judge(0.5, 0.6, 0.9)
    for step in (0, 10):
        weights = f"after {step}"
        died.look(step)
    checkpoint = died.state()
    weights = "after 20"
    died.look(20)
    again = judge(0.4)
    again.restore(checkpoint)
    again.look(20)
    again.settle()
    assert (again.best[0], (tmp_path / "best" / "weights").read_text()) == (10, "after 10")
    for _ in range(3):
        again.state()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["best", "best-10"], "nothing else is kept"
