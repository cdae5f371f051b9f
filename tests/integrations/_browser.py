"""Chromium over its DevTools protocol: the little that tests of pages need. Debian's package is enough."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here: apt-get install chromium")
_WAIT_S = 60.0


class Browser:
    """One page. `errors`: what its console complained of; `hosts`: whom it asked for anything."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
        self._process = subprocess.Popen(
            [PROGRAM, *arguments, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self._number = 0
        self._events: list[str] = []
        try:
            self._socket = self._open(profile)
        except BaseException:
            self._process.kill()
            raise
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def _open(self, profile: Path) -> ClientConnection:
        told = profile / "DevToolsActivePort"
        deadline = time.monotonic() + _WAIT_S
        while not (told.exists() and told.read_text().strip()):
            if time.monotonic() > deadline or self._process.poll() is not None:
                pytest.skip("Chromium does not start here")
            time.sleep(0.05)
        port = told.read_text().split()[0]
        tabs = httpx.get(f"http://127.0.0.1:{port}/json", timeout=_WAIT_S).json()
        page = next(tab for tab in tabs if tab["type"] == "page")
        return connect(page["webSocketDebuggerUrl"], max_size=None)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            told = self._read()
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]

    def _read(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._socket.recv(timeout=_WAIT_S))
        about, what = told.get("method", ""), told.get("params", {})
        self._events.append(about)
        if about == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(what["entry"]["text"])
        elif about == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(what["exceptionDetails"])[:300])
        elif about == "Network.requestWillBeSent":
            self.hosts.add(what["request"]["url"].partition("://")[2].partition("/")[0])
        return told

    def _loaded(self) -> None:
        while "Page.loadEventFired" not in self._events:
            self._read()

    def go(self, address: str) -> None:
        self._events.clear()
        self.call("Page.navigate", url=address)
        self._loaded()

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def text(self) -> str:
        return self.ask("document.querySelector('main').innerText")

    def click(self, name: str, within: str = "main") -> None:
        """A link or button by what it says, and wait for the page that it leads to."""
        places = f"[...document.querySelectorAll({json.dumps(within)})]"
        found = f"{places}.flatMap(one => [...one.querySelectorAll('a,button')])"
        script = f"(() => {{ const hit = {found}.find(one => one.innerText.trim() === {json.dumps(name)});"
        self._events.clear()
        assert self.ask(f"{script} if (!hit) return false; hit.click(); return true; }})()"), (name, self.text())
        self._loaded()

    def fill(self, field: str, value: str) -> None:
        self.ask(f"document.querySelector({json.dumps(field)}).value = {json.dumps(value)}")

    def size(self, width: int, height: int = 900, *, dark: bool) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self) -> bytes:
        """What is on the screen, as a PNG."""
        return b64decode(self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"])

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=_WAIT_S)
