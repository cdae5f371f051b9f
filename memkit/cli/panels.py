"""In which order --help tells the commands, and under which headings."""

from __future__ import annotations

from collections.abc import Mapping

import typer

PANELS = {
    "Remember and find": "demo add add-document search answer feedback list entities about profile pin users",
    "See why": "log history why stats ui",
    "Put right": "undo parked retry held release tidy erase prune",
    "Keep safe": "doctor backup restore recover export import move schema",
    "Serve": "serve proxy adapters",
}
"""Of `memkit`."""


def arrange(app: typer.Typer, panels: Mapping[str, str]) -> None:
    """`panels`: heading → the names of its commands. Each command is in one of them."""
    places = {name: (place, panel) for panel, names in panels.items() for place, name in enumerate(names.split())}
    order = list(panels)
    for info in [*app.registered_commands, *app.registered_groups]:
        info.rich_help_panel = places[_name(info)][1]
    app.registered_commands.sort(key=lambda info: (order.index(places[_name(info)][1]), places[_name(info)][0]))


def _name(info: typer.models.CommandInfo | typer.models.TyperInfo) -> str:
    return str(info.name or getattr(info.callback, "__name__", "")).replace("_", "-")
