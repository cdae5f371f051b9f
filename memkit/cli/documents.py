"""`memkit add-document FILE`: what a user may look up beside what was said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memkit.cli import show
from memkit.cli.opening import open_store
from memkit.cli.servers import DEFAULT_STORE, Redact, Store


def add_document(
    file: Annotated[Path, typer.Argument(help="A text, Markdown, HTML or PDF file.")],
    user: Annotated[str, typer.Option("--user", "-u", help="Whose memories.")],
    store: Store = DEFAULT_STORE,
    name: Annotated[str | None, typer.Option("--name", help="Else the file's.")] = None,
    redact: Redact = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a document findable, or replace the one of its name."""
    with open_store(store, create=True, redact=redact) as memory:
        result = memory.add_document(file, user_id=user, name=name)
    if json:
        show.as_json(result)
        return
    added = sum(op.action == "add" for op in result.ops)
    ended = sum(op.action == "delete" for op in result.ops)
    show.out.print(result.reason or f"{added} passages added, {ended} ended  [dim]trace {result.trace_id}[/]")
