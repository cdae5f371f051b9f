"""The SDK's own stdio server, without our early answer: what that answer is compared with."""

from __future__ import annotations

from memkit.net.tenants import Tenant
from memkit_mcp.server import build_server


def _never() -> None:
    raise AssertionError("no tool is called")


if __name__ == "__main__":
    build_server(_never, Tenant("ana"))[0].run("stdio")  # type: ignore[arg-type]
