"""The folder of a store: what may be opened, what is refused untouched, and the marker that says whose it is."""

from __future__ import annotations

import errno
import json
import os
import secrets
import sys
from pathlib import Path

from memkit.errors import NewerFormat, NotAStore, StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnsafe
from memkit.journal.schema import FORMAT
from memkit.models import JSON

MARKER, JOURNAL, LOCKS, BEHIND = "memkit.json", "journal.sqlite", "locks", "behind.json"
_NETWORK = frozenset(
    (
        "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "9p", "afs", "ceph", "lustre", "beegfs", "gfs", "gfs2",
        "ocfs2", "gpfs", "davfs", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone",
        "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.davfs2", "fuse.mount-s3", "fuse.ceph", "fuse.juicefs",
        "fuse.cifs", "fuse.smbnetfs", "fuse.blobfuse2", "fuse.geesefs",
    )
)  # fmt: skip


def survey(path: Path) -> JSON | None:
    """The marker of the store at `path`; None where a store may be created. Everything else is refused, untouched."""
    kind = network_filesystem(path)
    if kind:
        raise StoreUnsafe(
            f"{path} lies on a network disk ({kind})",
            why="file locks and fsync cannot be trusted there, and the journal needs both",
            fix="keep the store on a local disk of the machine that runs the app",
        )
    try:
        if not path.exists():
            return None
        if not path.is_dir():
            raise NotAStore(f"{path} is a file", why="a store is a folder", fix="name another path")
        marker = path / MARKER
        if marker.exists():
            return _read_marker(marker)
        strangers = _strangers(path)
    except OSError as error:
        raise from_os_error(error, path) from error
    if strangers:
        raise NotAStore(
            f"{path} holds files, but no memkit store",
            why=f"there is no {MARKER} beside {len(strangers)} other entries; they were not touched",
            fix="name an empty or a new folder",
        )
    return None


def _strangers(path: Path) -> list[str]:
    """Entries that a killed creation cannot have left: it makes `locks` first, the journal next, the marker last."""
    if not (path / LOCKS).is_dir():
        return os.listdir(path)
    own = {LOCKS, JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm", f"{JOURNAL}-journal"}
    found = [name for name in os.listdir(path) if name not in own and not name.startswith(f"{MARKER}.")]
    return found + [name for name in os.listdir(path / LOCKS) if not name.endswith((".lock", ".worker"))]


def _read_marker(marker: Path) -> JSON:
    try:
        raw = json.loads(marker.read_text("utf-8"))
        found, store_id = int(raw["format"]), raw["store_id"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(
            f"{marker} cannot be read as a marker",
            why="it was changed outside of memkit",
            fix='restore it: {"format": 1, "store_id": "..."}, the id being `store_id` in table meta of journal.sqlite',
        ) from error
    refuse_newer(found, marker)
    return {"format": found, "store_id": store_id}


def refuse_newer(found: int, where: Path) -> None:
    if found > FORMAT:
        raise NewerFormat(
            f"{where} has format {found}; this memkit reads up to {FORMAT}",
            why="it was written by a newer memkit",
            fix="upgrade memkit; nothing was changed",
            found=found,
        )


def write_marker(path: Path, store_id: str) -> None:
    """Atomic and durable: written aside, synced, renamed, the folder synced."""
    aside = path / f"{MARKER}.{secrets.token_hex(4)}"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(json.dumps({"format": FORMAT, "store_id": store_id}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path / MARKER)
    sync_folder(path)


def note_behind(path: Path, lost: tuple[int, int]) -> None:
    note = path / BEHIND
    if not note.exists():
        note.write_text(json.dumps({"op": lost[0], "intake": lost[1]}) + "\n", "utf-8")
        sync_folder(path)


def sync_folder(path: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def from_os_error(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreReadOnly(
            f"{path} cannot be written",
            why=error.strerror or "no permission",
            fix="give this user write access, or name a folder that it may write",
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return full(path)
    return StoreError(f"{path} cannot be used", why=error.strerror or str(error), fix="check the disk and the path")


def full(path: Path) -> StoreFull:
    return StoreFull(
        f"no room left to write {path}",
        why="the disk is full, or a quota or file size limit is reached",
        fix="free some space and call again; what was acknowledged before is safe",
    )


def network_filesystem(path: Path, mounts: str | None = None) -> str | None:
    """The type of the network file system that `path` lies on, if it does. Linux reads its mount table; Windows knows
    UNC paths; elsewhere nothing is detected."""
    if sys.platform == "win32":
        return "UNC path" if str(path.absolute()).startswith("\\\\") else None
    if mounts is None:
        try:
            with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
                mounts = file.read()
        except OSError:
            return None
    real, best, kind = os.path.realpath(path), "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind if kind in _NETWORK else None
