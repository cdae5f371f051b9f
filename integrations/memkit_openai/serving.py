"""Running the proxy."""

from __future__ import annotations

import importlib.util

from memkit import Memory
from memkit.errors import InvalidConfig, MissingExtra
from memkit.net.tenants import Tenants
from memkit.net.urls import literal
from memkit_http import announce, bind, listen
from memkit_openai.proxy import proxy_app


def serve_proxy(
    memory: Memory,
    upstream: str,
    *,
    user_id: str | None = None,
    tenants: Tenants | None = None,
    max_tokens: int = 800,
    host: str = "127.0.0.1",
    port: int = 8788,
) -> None:
    if importlib.util.find_spec("uvicorn") is None:
        raise MissingExtra("the proxy needs the package uvicorn", fix='pip install "memkit[proxy]"')
    ip = literal(host)
    local = host == "localhost" or (ip is not None and ip.is_loopback)
    if not local and tenants is None:
        raise InvalidConfig(
            f"{host} can be reached from other machines",
            why="whoever reaches the proxy could speak as any user",
            fix='pass --tokens FILE ({"TOKEN": "USER"}), or stay on 127.0.0.1',
        )
    app = proxy_app(memory, upstream, user_id=user_id, tenants=tenants, max_tokens=max_tokens, local=local)
    # a reply that the API cut short is cut short here too, which uvicorn would log as an error of ours
    with bind(host, port) as at:
        announce(f"memkit's proxy of {upstream}", host, at, "", memory)
        listen(app, at, lifespan="auto", log_level="critical")
