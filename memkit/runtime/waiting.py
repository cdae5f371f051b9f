"""What is said where others take too long."""

from __future__ import annotations

from memkit.errors import StoreBusy


def say_undecided(count: int, patience: float) -> StoreBusy:
    return StoreBusy(
        f"{count} turns are still undecided, and none was decided within {patience:g} s",
        why="another thread or process is deciding them, with a model that does not answer; nothing is lost",
        fix="call again, or look for a process that hangs; Config.wait_s says how long to wait",
        pending=count,
    )
