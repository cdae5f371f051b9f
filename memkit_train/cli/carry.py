"""`bundle` and `unbundle`: a log to where the GPU is, and the adapter back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memkit.cli import show
from memkit_train.cli.common import DEFAULT_STORE, Json, Store, opened


def bundle(
    out: Annotated[Path, typer.Argument(help="Folder to make.")],
    store: Store = DEFAULT_STORE,
    user: Annotated[list[str] | None, typer.Option("--user", help="Only this user; may be repeated.")] = None,
    embedder: Annotated[str, typer.Option(help="Whose vectors to take along.")] = "hash",
    json: Json = False,
) -> None:
    """A self-contained slice of a store, to train where there is a GPU and no network. Users go as opaque ids."""
    from memkit.embedders import make_embedder
    from memkit_train.trajectories.bundle import bundle as make

    with opened(store) as source:
        manifest = make(source, out, users=user, embedder=make_embedder(embedder))
    if json:
        show.as_json(manifest)
    else:
        show.out.print(f"made {show.visible(str(out))}: {manifest['counts']}")


def unbundle(
    bundle: Annotated[Path, typer.Argument(help="The folder that came back.")],
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Take the trained adapter out of a bundle and publish it in this store's registry. Nothing is promoted."""
    import tempfile

    from memkit.adapters import Registry
    from memkit_train.trajectories.bundle import take_adapter

    with opened(store) as source, tempfile.TemporaryDirectory() as room:
        adapter = take_adapter(bundle, source, Path(room) / "adapter")
        registry = Registry(store / "adapters")  # only now: it makes its folder
        try:
            digest = registry.publish(adapter)
        finally:
            registry.close()
    if json:
        show.as_json({"digest": digest})
    else:
        show.out.print(f"published {digest[:12]}\n  serve it: memkit adapters promote {digest[:12]}")
