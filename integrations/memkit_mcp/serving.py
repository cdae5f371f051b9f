"""Running the server: stdio for the programs that start it, HTTP for those that find it running."""

from __future__ import annotations

import gc
import importlib
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from memkit.errors import MissingExtra
from memkit_mcp.greeting import greet_first

if TYPE_CHECKING:
    from memkit import Memory
    from memkit.net.tenants import Tenant, Tenants


def serve_stdio(open_memory: Callable[[], Memory], tenant: Tenant, *, space: str | None = None) -> None:
    """Until the client closes the pipe. Nothing but the protocol is written to standard output. space: then
    its memories, as the tenant's user."""
    _require("mcp")

    def serve() -> None:
        quick_imports()
        from memkit_mcp.server import build_server

        server, scope = build_server(open_memory, tenant, space=space)
        try:
            server.run("stdio")
        finally:
            scope.close()

    greet_first(serve)


def serve_http(
    open_memory: Callable[[], Memory], tenants: Tenants, *, host: str = "127.0.0.1", port: int = 8787
) -> None:
    _require("mcp", "uvicorn")
    quick_imports()
    from memkit_http import announce, bind, listen
    from memkit_mcp.http import PATH, http_app

    with bind(host, port) as at:
        app, scope = http_app(open_memory, tenants, host=host)
        try:
            announce("memkit (MCP)", host, at, PATH, scope.memory)
            listen(app, at, lifespan="on")
        finally:
            scope.close()


def _require(*packages: str) -> None:
    """Before a client is told that all is well."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"memkit serve needs the package {package}", fix='pip install "memkit[mcp]"')


def quick_imports() -> None:
    """The SDK builds thousands of model classes while it is imported; collecting garbage meanwhile finds none and
    costs about a fifth of the start."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module("memkit_mcp.http")
    finally:
        if enabled:
            gc.freeze()
            gc.enable()
