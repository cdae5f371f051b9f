"""`memkit backup`, `restore`, `prune`, `move` and `recover`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from memkit.cli import show
from memkit.cli.opening import open_store, there
from memkit.cli.servers import DEFAULT_STORE, Store
from memkit.errors import InvalidInput
from memkit.inputs import is_url
from memkit.runtime import copies, moving

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def backup(
    path: Annotated[Path, typer.Argument(help="A new folder.")], store: Store = DEFAULT_STORE, json: Json = False
) -> None:
    """Copy the store as it is at one moment, while others use it. Never copy its files by hand."""
    with open_store(store) as memory:
        seq = memory.backup(path)
    _tell(seq, path, json)


def restore(
    backup: Annotated[Path, typer.Argument(help="What `memkit backup` wrote.")],
    store: Annotated[str, typer.Argument(help="Where the store is to be: a new folder.")],
    json: Json = False,
) -> None:
    """Make a store of a backup."""
    if is_url(store):
        raise InvalidInput(
            "a backup is restored to a folder",
            why="a database is restored by its own tools",
            fix="memkit restore BACKUP FOLDER, then memkit move FOLDER postgresql://…",
        )
    _tell(copies.restore(backup, Path(store)), Path(store), json)


def prune(
    store: Store = DEFAULT_STORE,
    days: Annotated[int | None, typer.Option("--days", help="Drop what is older.")] = None,
    megabytes: Annotated[int | None, typer.Option("--megabytes", help="Drop the oldest beyond that size.")] = None,
    json: Json = False,
) -> None:
    """Drop the oldest of the log: prompts, replies, traces, labels. Words, memories and their history stay."""
    with open_store(store) as memory:
        receipt = memory.prune(days=days, megabytes=megabytes)
    if json:
        show.as_json(receipt)
    elif receipt.before:
        gone = Counter({name: receipt.counts[name] for name in ("decisions", "traces", "feedback")})
        show.out.print(f"of before {receipt.before:%Y-%m-%d %H:%M}: {_counted(gone)}")
        show.out.print(f"the log took {receipt.log_bytes_before:,} bytes, and takes {receipt.log_bytes_after:,}")
    if not any(receipt.counts.values()):
        raise typer.Exit(4)


def move(
    source: Annotated[str, typer.Argument(help="The store: a folder, or postgresql://…")],
    target: Annotated[str, typer.Argument(help="Where it is to be: postgresql://… or a new folder.")],
    json: Json = False,
) -> None:
    """Move a store to PostgreSQL, or back to a folder, while it is used. Killed, the same command goes on."""
    there(source)
    found = moving.move(source, target, say=lambda told: show.err.print(told, highlight=False))
    if json:
        show.as_json(found)
    else:
        late = f"{found.late} more while it refused writes, for {found.refused_s:.1f} s"
        show.out.print(f"moved: {found.rows} rows, and {late}. Open the store at its new address from now on.")


def recover(
    store: Annotated[str, typer.Argument(help="The damaged store, which nobody else has open: a folder.")],
    into: Annotated[Path, typer.Argument(help="Where the new one is to be: a new folder.")],
    json: Json = False,
) -> None:
    """Make a new store of what can still be read of a damaged one, which stays as it is."""
    from memkit.runtime.recovery import recover as make_anew

    if is_url(store):
        raise InvalidInput(
            "a database is not recovered from here",
            why="its own tools know its log, its replicas and its backups",
            fix="restore its newest backup; `memkit doctor` says whether a store in it is whole",
        )
    found = make_anew(Path(store), into)
    if json:
        show.as_json({"path": str(into), "records": dict(found.records), "left_out": dict(found.left_out)})
        return
    show.out.print(f"{_counted(found.records)} → {show.escape(str(into))}")
    if found.left_out:
        show.out.print(f"left out, because they are damaged or refer to what is lost: {_counted(found.left_out)}")


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "nothing"


def _tell(seq: int, path: Path, json: bool) -> None:
    if json:
        show.as_json({"seq": seq, "path": str(path)})
    else:
        show.out.print(f"as of operation {seq} → {show.escape(str(path))}")
