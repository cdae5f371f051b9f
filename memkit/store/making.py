"""A table as a whole: written from a stream of rows, copied row by row, indexed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from memkit.store.lance import Batch, Handle, Schema, detach, modules


def write_stream(connection: Any, name: str, schema: Schema, batches: Iterable[Batch], mode: str) -> None:
    """In one commit, in constant memory. The batches are drawn in the caller's thread: they may come from a database
    that is bound to it."""
    _, pa = modules()
    feed: queue.Queue[Any] = queue.Queue(maxsize=2)
    stopped = threading.Event()
    failure: list[BaseException] = []

    def drawn() -> Iterator[Any]:
        while (item := feed.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def commit() -> None:
        try:
            reader = pa.RecordBatchReader.from_batches(schema, drawn())
            connection.create_table(name, data=reader, mode=mode, on_bad_vectors="null")
        except BaseException as error:
            failure.append(error)
        finally:
            stopped.set()

    def put(item: Any) -> None:
        placed = False
        while not placed and not stopped.is_set():
            with suppress(queue.Full):
                feed.put(item, timeout=0.05)
                placed = True

    writer = threading.Thread(target=commit, name="memkit-overwrite", daemon=True)
    writer.start()
    try:
        for batch in batches:
            put(batch)
        put(None)
    except BaseException:
        put(RuntimeError("the source of the rows failed"))
        writer.join()
        raise
    writer.join()
    if failure:
        raise failure[0]


def copy_rows(handle: Handle, keep: Any, batch_rows: int) -> Generator[Batch]:
    """The rows that satisfy `keep`."""
    _, pa = modules()
    schema = handle.schema
    for batch in handle.search().where(keep).to_batches(batch_rows):
        yield detach(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def ensure_indexes(handle: Handle | None, columns: Sequence[str], bitmap: bool, *, replace: bool = False) -> None:
    """Scalar ones: bitmaps for few distinct values, else B-trees."""
    if handle is None:
        return
    from lancedb.index import Bitmap, BTree

    present = {column for index in handle.list_indices() for column in index.columns}
    for column in columns:
        if replace or column not in present:
            handle.create_index(column, config=Bitmap() if bitmap else BTree(), replace=True)


def count_rows(handle: Handle, where: Any) -> int:
    return handle.search().where(where).select(["seq"]).to_arrow().num_rows
