"""Running it: loopback unless told otherwise, one token, and where to find it in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memkit_http import BrowserSession, Door, bind, listen, need

if TYPE_CHECKING:
    from memkit import Memory


def serve_ui(
    open_memory: Callable[[], Memory],
    store: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8789,
    token: str | None = None,
    runs: Path | None = None,
    model: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Until it is told to stop. `say` is told where it listens, with the token."""
    need("memkit ui", "ui", "starlette", "uvicorn", "jinja2")
    from memkit_ui.app import ui_app
    from memkit_ui.pages import ShownStore

    with bind(host, port) as at, open_memory() as memory:
        own = at.getsockname()[1]
        session = BrowserSession(token)
        app = ui_app(ShownStore(memory, store, runs, model), session, Door.at(host, own))
        name = f"[{host}]" if ":" in host else host
        say(f"http://{name}:{own}/enter#{session.token}")
        listen(app, at)
