"""`memkit ui` over a store, and a browser that has entered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from memkit import Memory
from memkit_http import BrowserSession, Door, bind
from memkit_ui import ui_app
from memkit_ui.pages import ShownStore
from memkit_ui.showing import link
from tests.integrations._browser import Browser

_TOKEN = "a-token-of-this-test"


@dataclass(frozen=True)
class Shown:
    memory: Memory
    browser: Browser
    base: str

    def go(self, path: str, **query: object) -> None:
        self.browser.go(self.base + link(path, **query))


@contextmanager
def showing(folder: Path, store: Path, runs: Path | None = None) -> Iterator[Shown]:
    with Memory(store, config={"workers": 0}) as memory, bind("127.0.0.1", 0) as at:
        port = at.getsockname()[1]
        shown = ShownStore(memory, store, model="small", runs=runs)
        app = ui_app(shown, BrowserSession(_TOKEN), Door.at("127.0.0.1", port))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
        thread.start()
        browser = Browser(folder / "profile")
        base = f"http://127.0.0.1:{port}"
        try:
            browser.go(f"{base}/enter#{_TOKEN}")
            while "Users" not in browser.text():
                browser.go(f"{base}/")
            yield Shown(memory, browser, base)
        finally:
            browser.close()
            server.should_exit = True
            thread.join()
