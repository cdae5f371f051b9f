"""`export`: decisions for other trainers. `bundle` and `unbundle`: a log to where the GPU is, and the adapter back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from memkit.cli import show
from memkit_train.cli.common import DEFAULT_STORE, NOTHING, Json, Store, open_registry, open_source


def export(
    out: Annotated[Path, typer.Argument(help="File to write, or folder of days.")],
    form: Annotated[str, typer.Option("--format", help="sft, kto, dpo, openai (JSON lines) or parquet.")] = "sft",
    store: Store = DEFAULT_STORE,
    side: Annotated[str, typer.Option("--split", help="train, heldout or all.")] = "train",
    heldout_share: Annotated[float, typer.Option(min=0.0, max=0.9, help="As data.heldout_share of a run.")] = 0.2,
    split_seed: Annotated[int, typer.Option(help="As data.split_seed of a run.")] = 0,
    mode: Annotated[
        str | None,
        typer.Option(help="split or fused: write each line as an adapter is asked then, whatever the log was asked."),
    ] = None,
    every: Annotated[bool, typer.Option("--every", help="sft, openai: also what nobody rated.")] = False,
    by_day: Annotated[bool, typer.Option("--by-day", help="parquet: a folder with one for each day.")] = False,
    embedder: Annotated[str, typer.Option(help="That of the store.")] = "hash",
    json: Json = False,
) -> None:
    """Write credited decisions for TRL, for hosted fine-tuning, or as Parquet. Exit code 4: there is nothing."""
    from memkit.embedders import make_embedder
    from memkit_train.errors import NoRows
    from memkit_train.learn.export import export as write
    from memkit_train.log.splits import Split

    chosen: dict[str, Any] = {"form": form, "side": side, "split": Split(split_seed, heldout_share)}
    chosen |= {"mode": mode, "every": every, "by_day": by_day}
    with open_source(store) as source:
        try:
            found = write(source, out, embedder=make_embedder(embedder), **chosen)
        except NoRows as error:
            show.fail(error)
            raise typer.Exit(NOTHING) from None
    if json:
        show.as_json(found.to_json())
    else:
        parts = ", ".join(f"{count} {name}" for name, count in (*found.splits.items(), *found.roles.items()))
        show.out.print(f"wrote {found.lines} lines of {found.users} users to {show.visible(str(out))}: {parts}")


def bundle(
    out: Annotated[Path, typer.Argument(help="Folder to make.")],
    store: Store = DEFAULT_STORE,
    user: Annotated[list[str] | None, typer.Option("--user", help="Only this user; may be repeated.")] = None,
    embedder: Annotated[str, typer.Option(help="Whose vectors to take along.")] = "hash",
    json: Json = False,
) -> None:
    """A self-contained slice of a store, to train where there is a GPU and no network. Users go as opaque ids."""
    from memkit.embedders import make_embedder
    from memkit_train.log.bundle import bundle as make

    with open_source(store) as source:
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

    from memkit_train.log.bundle import take_adapter

    with open_source(store) as source, tempfile.TemporaryDirectory() as room:
        adapter = take_adapter(bundle, source, Path(room) / "adapter")
        with closing(open_registry(None, store)) as registry:  # only now: it makes its folder
            digest = registry.publish(adapter)
    if json:
        show.as_json({"digest": digest})
    else:
        show.out.print(f"published {digest[:12]}\n  serve it: memkit adapters promote {digest[:12]}")
