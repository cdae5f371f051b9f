"""`memkit tidy`: what is remembered, consolidated at rest."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit.cli import show
from memkit.cli.look import NOTHING_TO_DO
from memkit.cli.opening import open_store
from memkit.cli.servers import DEFAULT_STORE, BaseUrl, Embedder, Model, Store


def tidy(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user; else everybody.")] = None,
    store: Store = DEFAULT_STORE,
    budget: Annotated[int | None, typer.Option("--budget", help="Decisions of the manager, at most.")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    embedder: Embedder = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Merge what says the same, settle what is over, let words go that were said again later. Each pass can be undone:
    memkit undo --user U --turn TRACE."""
    results = {}
    with open_store(store, model, base_url, embedder, embeds=True) as memory:
        left = budget
        for name in [user] if user is not None else memory.users():
            if left == 0:
                break
            results[name] = memory.tidy(user_id=name, budget=left)
            left = None if left is None else left - results[name].asked
    if json:
        show.as_json(results)
    else:
        rows = [
            [show.visible(name), str(one.live_before), str(one.live_after), str(one.asked), str(one.left), one.trace_id]
            for name, one in results.items()
        ]
        show.table("", ["user", "before", "after", "asked", "left", "trace"], rows)
    if failed := next((one.reason for one in results.values() if one.reason), None):
        show.err.print(f"ended early: {failed}", markup=False)
        raise typer.Exit(1)
    if not any(one.ops for one in results.values()):
        raise typer.Exit(NOTHING_TO_DO)
