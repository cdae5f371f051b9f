"""A page as HTML: with links and forms for the server, or as one file that needs none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from memkit_ui import showing
from memkit_ui.pages import PAGES, PageQuery, ShownStore

HERE = Path(__file__).parent
_UNSERVED = (
    "form, .tabs, a.button { display: none; } a { color: inherit; text-decoration: none; pointer-events: none; }"
)
"""What needs the server is not there in a saved file."""


class Renderer:
    def __init__(self) -> None:
        self._env = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._env.filters.update(showing.FILTERS)
        self._style = (HERE / "static" / "style.css").read_text(encoding="utf-8")

    def fill(self, template: str, **values: Any) -> str:
        return self._env.get_template(template).render(**values)

    def page(self, store: str | Path, path: str, asked: Mapping[str, str], data: Mapping[str, Any], seal: str) -> str:
        """seal: that of its forms; without one, the page is a file of its own."""
        query = {key: value for key, value in asked.items() if key not in ("format", "save", "told")}
        saved = not seal
        shell = {
            "title": PAGES[path].title,
            "path": path,
            "here": showing.link(path, **query),
            "as_json": showing.link(path, **query, format="json"),
            "as_file": showing.link(path, **query, save="1"),
            "seal": seal,
            "saved": saved,
            "style": self._style + _UNSERVED if saved else "",
            "link": (lambda *_, **__: "#") if saved else showing.link,
            "told": asked.get("told", ""),
            "store": store,
            "query": query,
        }
        return self.fill(PAGES[path].template, **shell, **data)

    def save(self, place: ShownStore, path: str, **query: str) -> str:
        """A page as one file, for whoever shows it elsewhere."""
        return self.page(place.store, path, query, PAGES[path].build(place, PageQuery(query)), "")
