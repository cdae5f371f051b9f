"""kill -9 at each step of a swap, on the real engine: `python -m tests.bench._adapters_kill`. Prints one JSON object,
step → what went wrong ("" for nothing). One process imports torch, and forks a child per step before it has threads."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from memkit.adapters.swap import STEPS


def main() -> None:
    import torch

    from memkit.backbones.hf import HFBackbone
    from tests.bench._adapters import made, opened
    from tests.tiny_models import tiny_checkpoint

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = tiny_checkpoint(folder / "base")

        def prepare() -> None:
            with HFBackbone(base, threads=1) as engine:
                for seed in (1, 2):
                    made(engine, folder, seed, base=base)

        def promote(store: Path, fatal: str) -> None:
            def on_step(step: str) -> None:
                if step == fatal and armed:
                    os.kill(os.getpid(), signal.SIGKILL)

            armed: list[bool] = []
            with HFBackbone(base, threads=1) as engine:
                adapters = opened(engine, store, keep=1, poll_s=60, on_step=on_step)
                a, b = (adapters.publish(made(engine, folder, seed, base=base)) for seed in (1, 2))
                adapters.promote("production", a)
                armed.append(True)
                adapters.promote("production", b)
                os.kill(os.getpid(), signal.SIGKILL)

        def restart(store: Path) -> None:
            with HFBackbone(base, threads=1) as engine, opened(engine, store) as adapters:
                state = adapters.registry.alias("production")
                stable = state.route("manager").stable
                with adapters.resolve("manager", "ana") as lease:
                    served = lease.name
                if not state.proved or stable is None or served != stable or adapters.events:
                    sys.exit(f"proved={state.proved} alias={stable} served={served} events={list(adapters.events)}")

        wrong = {"prepare": _forked(prepare, expect=0)}
        for step in (*STEPS, "end"):
            store = folder / f"store-{step}"
            killed = _forked(lambda store=store, step=step: promote(store, step), expect=-signal.SIGKILL)
            wrong[step] = killed or _forked(lambda store=store: restart(store), expect=0)
        print(json.dumps(wrong))


def _forked(work: Callable[[], None], expect: int) -> str:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except SystemExit as error:
            sys.stderr.write(f"{error.code}\n")
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    found = os.waitstatus_to_exitcode(status)
    return "" if found == expect else f"exit {found}, expected {expect}"


if __name__ == "__main__":
    main()
