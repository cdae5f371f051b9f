"""The one place that touches lancedb and pyarrow as modules: lazy, quiet, bounded, and with typed errors.

lancedb raises RuntimeError and ValueError with text for nearly everything, so errors are told apart by message, here
and nowhere else. Its handles are `Any` on purpose: it ships no complete types.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from memkit.errors import (
    MemkitError,
    StorageRefused,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Handle = Any
"""A lancedb table."""
Schema = Any
Batch = Any
"""pyarrow's RecordBatch or Table."""

_CACHE_BYTES = 64 * 1024 * 1024
"""Per connection and cache. Unbounded, lancedb's manifest cache grows with every commit."""

_PATIENCE = {"client_max_retries": "2", "client_retry_timeout": "10", "timeout": "30s", "connect_timeout": "3s"}

_MALLOC = frozenset({"MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"})
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _HEAP_BYTES = -1, -3, 256 * 1024
"""Options of glibc's mallopt, and what they are set to."""

_loaded: list[tuple[Any, Any]] = []
_loaded_by: list[int] = []
"""The process that loaded LanceDB first."""

_BY_MESSAGE: tuple[tuple[type[StoreError], str, str, tuple[str, ...]], ...] = (
    (
        StoreFull,
        "the disk is full",
        "free some space and try again; nothing in the journal is lost",
        ("os error 28", "os error 27", "os error 122", "no space left", "file too large", "quota exceeded"),
    ),
    (
        StoreReadOnly,
        "the store may not be written",
        "check the mount and the permissions of the store's folder",
        ("os error 30", "os error 13", "os error 1)", "read-only file system", "permission denied"),
    ),
    (
        StoreBusy,
        "another process wrote to the projection at the same time",
        "try again",
        ("too many concurrent writers", "commit conflict", "preempted", "os error 24", "too many open files"),
    ),
    (
        StoreUnreachable,
        "the disk did not answer",
        "try again, and look into the system's log; nothing was changed",
        tuple(
            needle
            for number in (errno.EIO, errno.EINTR, errno.EAGAIN, errno.ENOMEM, errno.ETIMEDOUT, errno.ESTALE)
            for needle in (f"os error {number})", f"[errno {number}]")
        ),
    ),
)


_REMOTE: tuple[tuple[type[StoreError], str, str, tuple[str, ...]], ...] = (
    (
        StorageRefused,
        "object storage refuses the request",
        "check bucket, region and credentials: AWS_REGION, AWS_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or"
        " the role of this machine; it needs to list, get, put and delete objects below the prefix",
        (
            "nosuchbucket",
            "status: 400",
            "status: 401",
            "status: 403",
            "accessdenied",
            "bareredirect",
            "expiredtoken",
            "invalidaccesskeyid",
            "signaturedoesnotmatch",
            "permanentredirect",
            "failed to get aws credentials",
        ),
    ),
    (
        StoreDamaged,
        "objects of LanceDB are not there, or not what was written",
        "run `memkit doctor --repair`: LanceDB is built anew from the journal",
        ("not found", "nosuchkey", "was not found"),
    ),
    (
        StoreUnreachable,
        "object storage does not answer",
        "nothing: it is tried again, and the journal has everything; look at the bucket's service if it stays",
        ("retryerror", "httperror", "generic {", "generic s3 error", "error sending request", "timed out", "timeout"),
    ),
)
"""What else is told by object storage."""


def modules() -> tuple[Any, Any]:
    """(lancedb, pyarrow), loaded on first use. The environment is only filled in where the user left it open: the
    Rust core otherwise warns on stderr at every query and starts a thread pool per core and kind; and pyarrow's own
    allocator keeps what many threads have freed."""
    if not _loaded:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        os.environ.setdefault("LANCEDB_LOG", "error")
        os.environ.setdefault("LANCE_CPU_THREADS", str(max(2, min(4, os.cpu_count() or 2))))
        os.environ.setdefault("LANCE_IO_THREADS", "4")
        import lancedb
        import pyarrow

        _loaded_by.append(os.getpid())
        del _loaded_by[1:]
        _loaded.append((lancedb, pyarrow))
        _let_forked_children_end()
    return _loaded[0]


def _let_forked_children_end() -> None:
    """LanceDB stops its threads when Python ends. A forked child has none of them and would wait for them for ever, so
    the hook does not go with it. lancedb keeps no name of it; only the garbage collector knows where it is."""
    hooks = [
        found
        for found in gc.get_objects()
        if type(found) is BuiltinFunctionType
        and found.__name__ == "shutdown_runtime"
        and "lancedb" in (found.__module__ or "")
    ]
    if hooks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: [atexit.unregister(hook) for hook in hooks])


def bound_heap() -> None:
    """For processes of our own: what LanceDB frees goes back to the system at once. glibc adapts to large blocks that
    come and go, and keeps up to 64 MB of free memory in each of its arenas, of which there are eight for every core. An
    app says so itself, in its environment."""
    if (libc := _glibc()) and not _MALLOC & os.environ.keys():
        libc.mallopt(_MMAP_THRESHOLD, _HEAP_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _HEAP_BYTES)


def trim_heap() -> None:
    """What lies free between blocks in use goes back, too; for now and then."""
    if libc := _glibc():
        libc.malloc_trim(0)


@lru_cache(1)
def _glibc() -> Any | None:
    if sys.platform != "linux":
        return None
    import ctypes

    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") else None


def forked_after_loading() -> bool:
    """Whether this process was forked from one that had LanceDB loaded."""
    return bool(_loaded_by) and _loaded_by[0] != os.getpid()


def connect(path: Path) -> Any:
    """A connection whose handles always see the newest version, other processes' included."""
    lancedb, _ = modules()
    session = lancedb.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES)
    return lancedb.connect(str(path), read_consistency_interval=timedelta(0), session=session)


def connect_bucket(url: str) -> Any:
    """A connection to object storage, as the environment says; its handles stay at the version they opened. What it
    says nothing of: storage that does not answer is told within seconds, because the journal can."""
    lancedb, _ = modules()
    given = {name.casefold().removeprefix("aws_").removeprefix("object_store_") for name in os.environ}
    patience = {name: value for name, value in _PATIENCE.items() if name not in given}
    session = lancedb.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES)
    return lancedb.connect(url, storage_options=patience, session=session)


def connect_pinned(path: Path) -> Any:
    """A connection whose handles stay at the version they opened: for reads that take several queries."""
    lancedb, _ = modules()
    return lancedb.connect(str(path))


def scan(handle: Handle, where: Any) -> Batch:
    """All columns of the rows that `where` admits. lancedb's synchronous query crosses to its event loop six times,
    mostly to ask for the schema again; this crosses once. The event loop is not public, hence the other way out."""
    try:
        from lancedb.background_loop import LOOP

        rows = handle._table.query().where(where)
    except (ImportError, AttributeError):
        return handle.search().where(where).to_arrow()

    async def read() -> Batch:
        return await rows.to_arrow()

    return LOOP.run(read())


def detach(batch: Batch) -> Batch:
    """A copy with buffers of its own. A filtered batch may be a window on the buffers it was cut from, and LanceDB
    writes those whole: bytes of a row that was filtered out were found in the new file."""
    _, pa = modules()
    return batch.take(pa.array(range(batch.num_rows), pa.int64()))


@contextmanager
def silence_cleanup() -> Generator[None]:
    """lancedb warns that cleanup may break other readers; the exclusive lock is there so that there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_missing_table(error: BaseException) -> bool:
    return isinstance(error, ValueError) and str(error).startswith("Table '") and str(error).endswith("was not found")


def classify(error: BaseException, *, remote: bool = False) -> MemkitError | None:
    """The typed error for what lancedb raised; None for what is not its doing (interrupts, our own errors).

    What is not recognised counts as damage: on a healthy table our few fixed queries do not fail, while a damaged one
    fails with any of dozens of messages, Rust panics included. Healing checks before it moves anything."""
    if isinstance(error, MemkitError):
        return error
    panic = type(error).__name__ in ("PanicException", "RustPanic")
    if not panic and not isinstance(error, RuntimeError | ValueError | OSError | KeyError | IndexError):
        return None
    text = f"{type(error).__name__}: {error}"
    for kind, what, fix, needles in _REMOTE + _BY_MESSAGE if remote else _BY_MESSAGE:
        if any(needle in text.lower() for needle in needles):
            return kind(what, why=_short(text), fix=fix)
    return StoreDamaged(
        "files of LanceDB cannot be read",
        why=_short(text),
        fix="run `memkit doctor --repair`: memories are written anew from the journal, and of sealed decisions, which"
        " nothing else holds, what can be read is kept; or restore the folder `sealed` from a backup",
    )


def _short(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= 300 else first[:297] + "..."


@contextmanager
def typed_errors(*, remote: bool = False) -> Generator[None]:
    try:
        yield
    except BaseException as error:
        typed = classify(error, remote=remote)
        if typed is None or typed is error:
            raise
        raise typed from error


def vectors_of(column: Any, dim: int) -> NDArray[np.float32]:
    """A fixed-size-list column as one contiguous (n, dim) matrix; rows that are null become zeros."""
    import numpy as np
    import pyarrow as pa

    array: Any = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if array.null_count == 0:
        return np.asarray(array.flatten()).astype(np.float32, copy=False).reshape(-1, dim)
    out = np.zeros((len(array), dim), np.float32)
    present = np.asarray(array.is_valid())
    out[present] = np.asarray(array.flatten()).reshape(-1, dim)
    return out


def list_array(vectors: NDArray[np.float32], present: NDArray[np.bool_]) -> Any:
    """The reverse of `vectors_of`: rows that are not `present` become null."""
    import numpy as np
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    mask = None if bool(present.all()) else pa.array(~present)
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1], mask=mask)


def schema_notes(schema: Schema) -> Mapping[str, str]:
    raw: Mapping[bytes, bytes] = schema.metadata or {}
    return {key.decode(): value.decode() for key, value in raw.items()}
