"""memkit as an MCP server: `memkit serve`, or `python -m memkit_mcp`. Needs `pip install "memkit[mcp]"`.

The user whose memories are served comes from the server's configuration (stdio) or from the caller's token (HTTP),
never from what a model writes into a tool call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_mcp.http import http_app
    from memkit_mcp.server import build_server
    from memkit_mcp.serving import serve_http, serve_stdio

__all__ = ["build_server", "http_app", "serve_http", "serve_stdio"]

_HOMES = {
    "build_server": "memkit_mcp.server",
    "http_app": "memkit_mcp.http",
    "serve_http": "memkit_mcp.serving",
    "serve_stdio": "memkit_mcp.serving",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'memkit_mcp' has no attribute {name!r}")
