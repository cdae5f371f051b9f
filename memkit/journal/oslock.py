"""Byte ranges of a file, locked for this process. The only place that knows which operating system it runs on."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt
    import os

    OUTLIVES_OTHER_HANDLES = True
    """Whether a lock stays when this process closes another handle of the same file."""

    def try_lock(handle: int, byte: int, *, exclusive: bool, length: int = 1) -> bool:
        """Windows has no shared range lock in the standard library: readers take turns there."""
        os.lseek(handle, byte, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, length)
        except OSError:
            return False
        return True

    def unlock(handle: int, byte: int, length: int = 1) -> None:
        os.lseek(handle, byte, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, length)

else:
    import fcntl
    import os
    import struct

    _OF_A_HANDLE: int | None = getattr(fcntl, "F_OFD_SETLK", None)
    OUTLIVES_OTHER_HANDLES = _OF_A_HANDLE is not None
    """Whether a lock stays when this process closes another handle of the same file. Linux has locks that belong to
    one handle; those of the other systems belong to the process."""

    def try_lock(handle: int, byte: int, *, exclusive: bool, length: int = 1) -> bool:
        """True once this process holds the bytes; False while somebody else is in the way."""
        try:
            if _OF_A_HANDLE is not None:
                _set(_OF_A_HANDLE, handle, fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK, byte, length)
            else:
                kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
                fcntl.lockf(handle, kind | fcntl.LOCK_NB, length, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(handle: int, byte: int, length: int = 1) -> None:
        if _OF_A_HANDLE is not None:
            _set(_OF_A_HANDLE, handle, fcntl.F_UNLCK, byte, length)
        else:
            fcntl.lockf(handle, fcntl.LOCK_UN, length, byte)

    def _set(command: int, handle: int, kind: int, byte: int, length: int) -> None:
        # struct flock: type, whence, start, length, and a process id that must be 0; "0q" pads it to its size
        fcntl.fcntl(handle, command, struct.pack("@hhqqi0q", kind, os.SEEK_SET, byte, length, 0))
