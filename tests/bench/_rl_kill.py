"""A short run that kills itself: `python -m tests.bench._rl_kill FOLDER SEED STEP HEARS BASE`. Prints its digest."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from memkit_train.rl import source
from memkit_train.rl.run import Machine, polish
from tests.bench import _rl_lab as lab


def main() -> None:
    folder, seed, step, hears, base = sys.argv[1:]
    lab.HEARS = hears
    real = source.OnlineSource.rows

    def rows(self: source.OnlineSource, at: int) -> Any:
        if at == int(step):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, at)

    source.OnlineSource.rows = rows  # type: ignore[method-assign]
    train, choose = lab.World.of(8, lab.TRAIN), lab.World.of(2, lab.CHOOSE, split="heldout")
    chosen = lab.settings(stages=[{"steps": 8}], talks=2, refresh=2, states=6, stop={"every": 4, "users": 2})
    done = polish(
        base,
        train.talks,
        choose.talks,
        Path(folder),
        settings=chosen,
        seed=int(seed),
        episodes=[*train.episodes, *choose.episodes],
        machine=Machine(save_steps=2),
    )
    print(done.digest)


if __name__ == "__main__":
    main()
