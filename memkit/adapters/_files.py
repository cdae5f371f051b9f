"""Files that survive a crash and cannot be swapped under us: no links followed, write aside, fsync, rename."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 20
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_plain(path: Path) -> Generator[BinaryIO]:
    """Open a regular file for reading. A link, pipe or device raises OSError instead of being followed."""
    handle = os.open(path, os.O_RDONLY | _NOFOLLOW)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path.name} is not a regular file")
        yield file


def file_entry(path: Path) -> dict[str, Any]:
    """sha256 and size of a plain file."""
    hasher, size = hashlib.sha256(), 0
    with open_plain(path) as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return {"sha256": hasher.hexdigest(), "bytes": size}


def copy_durable(source: Path, target: Path) -> dict[str, Any]:
    """Copy and hash in one pass, so that what was hashed is what lies in `target`, then fsync."""
    hasher, size = hashlib.sha256(), 0
    with open_plain(source) as reader, open(target, "xb") as writer:
        while chunk := reader.read(_CHUNK):
            hasher.update(chunk)
            size += len(chunk)
            writer.write(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    return {"sha256": hasher.hexdigest(), "bytes": size}


def durable_write(path: Path, content: bytes) -> None:
    """Replace `path` as a whole: a crash leaves the old file or the new one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.aside")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable. Windows does it by itself and cannot open folders."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
