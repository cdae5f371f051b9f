"""`memkit schema`: what makes a PostgreSQL store, for databases whose role may not make tables."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit.cli import show


def print_schema(
    schema: Annotated[str, typer.Option("--schema", help="The schema that the URL names: ?schema=NAME.")] = "memkit",
) -> None:
    """Print the statements that make a store in PostgreSQL, to be run by hand."""
    from memkit.journal.postgres.opening import script

    show.out.print(script(schema), markup=False, highlight=False, soft_wrap=True, end="")
