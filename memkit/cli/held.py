"""`memkit held` and `memkit release`: what a model wanted to change on somebody else's words."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit.cli import show
from memkit.cli.opening import open_store
from memkit.cli.servers import DEFAULT_STORE, Store

User = Annotated[str, typer.Option("--user", "-u", help="Whose memory.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def list_held(user: User, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Changes of what the user said that tools, documents or an assistant asked for; they were not made."""
    with open_store(store) as memory:
        found = memory.held.list(user_id=user)
    if json:
        show.as_json(found)
        return
    rows = [
        [one.id, one.action, show.visible(one.memory.text), show.visible(one.text or ""), show.visible(one.why)]
        for one in found
    ]
    show.table("", ["id", "asked for", "of", "text", "why not"], rows)


def release(
    id: Annotated[str, typer.Argument(help="As `memkit held` names it.")],
    user: User,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Make a held change after all."""
    with open_store(store) as memory:
        op = memory.held.release(id, user_id=user)
    show.as_json(op) if json else show.history([op], "released")
