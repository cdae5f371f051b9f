"""One byte of a file, locked for this process. The only place that knows which operating system it runs on."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt
    import os

    def try_lock(handle: int, byte: int, *, exclusive: bool) -> bool:
        """Windows has no shared range lock in the standard library: readers take turns there."""
        os.lseek(handle, byte, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(handle: int, byte: int) -> None:
        os.lseek(handle, byte, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(handle: int, byte: int, *, exclusive: bool) -> bool:
        """True once this process holds the byte; False while another process is in the way."""
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.lockf(handle, kind | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(handle: int, byte: int) -> None:
        fcntl.lockf(handle, fcntl.LOCK_UN, 1, byte)
