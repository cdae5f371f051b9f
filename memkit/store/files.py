"""The files of a LanceDB table: their order, their names when they are moved aside, and when they are on the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from memkit.errors import StoreError

CORRUPT = ".corrupt"


class Synced:
    """Which files of a table this process has flushed; they never change once they are written."""

    def __init__(self) -> None:
        self._done = set[tuple[str, int, int]]()

    def sync(self, root: Path, directory: Path) -> None:
        """Every file that is new, then the folders that name them, and the one that names `root`."""
        folders = [root.parent, root]
        for folder, _, names in os.walk(directory):
            for path in (os.path.join(folder, name) for name in names):
                with suppress(FileNotFoundError):  # compaction removed it; its successor is in the next listing
                    seen = os.stat(path)
                    mark = path, seen.st_ino, seen.st_mtime_ns
                    if mark not in self._done:
                        _fsync(path)
                        self._done.add(mark)
            folders.append(Path(folder))
        for folder in folders:
            with suppress(FileNotFoundError):
                _fsync(folder)


def _fsync(path: str | Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def age(manifest: str) -> int:
    """Smaller is newer: manifests are named by 2**64 - 1 - version, so that a listing starts with the newest."""
    stem = manifest.partition(".")[0]
    return int(stem) if stem.isdigit() else 2**64


def stamp_newest(versions: Path) -> tuple[str, int, int, int] | None:
    newest: os.DirEntry[str] | None = None
    with suppress(FileNotFoundError), os.scandir(versions) as entries:
        for entry in entries:
            if entry.name.endswith(".manifest") and (newest is None or age(entry.name) < age(newest.name)):
                newest = entry
        if newest is not None:
            seen = newest.stat()
            return newest.name, seen.st_ino, seen.st_mtime_ns, seen.st_size
    return None


def inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def measure(directory: Path) -> tuple[int, int]:
    """(files, bytes) below a folder. Files come and go meanwhile."""
    files = size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += os.stat(os.path.join(folder, name)).st_size
                files += 1
    return files, size


def free_name(path: Path) -> Path:
    for number in range(10_000):
        candidate = path.with_name(path.name + (f".{number}" if number else "") + CORRUPT)
        if not candidate.exists():
            return candidate
    raise StoreError(f"too many quarantined copies beside {path.name}", fix="run `memkit doctor --repair`")


def put_back(moved: list[tuple[Path, Path]]) -> None:
    """Undo renames: the folder first, in which the others lie; then the newest version first, so that no step shows a
    version as the newest that is not."""
    for victim, target in sorted(moved, key=lambda one: not one[1].is_dir()):
        if target.exists():
            target.rename(victim)
    moved.clear()


def is_temporary(name: str) -> bool:
    return name.startswith(".tmp") or "#" in name
