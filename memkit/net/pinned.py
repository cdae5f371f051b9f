"""The transport that connects only to addresses it has judged.

Resolving a name, checking it and then letting the HTTP library resolve it again would leave a gap in which the answer
can change (DNS rebinding). So the request is sent to the very address that was checked; TLS still verifies the name.
"""

from __future__ import annotations

import asyncio
import socket

import httpx

from memkit.net.urls import BaseURL, check_resolved, literal


class PinnedTransport(httpx.AsyncBaseTransport):
    def __init__(self, url: BaseURL, *, max_connections: int) -> None:
        self._url = url
        limits = httpx.Limits(max_connections=max_connections, max_keepalive_connections=max_connections)
        self._inner = httpx.AsyncHTTPTransport(limits=limits, trust_env=False, retries=0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name, failure = request.url.host, httpx.ConnectError("the name has no address")
        for address in await self._addresses(name, request.url.port):
            # the Host header was set from the name when the request was built
            request.url = request.url.copy_with(host=address)
            request.extensions = {**request.extensions, "sni_hostname": name}
            try:
                return await self._inner.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _addresses(self, name: str, port: int | None) -> list[str]:
        """All of them are judged before any is used. IPv4 first: a host whose IPv6 leads nowhere would cost a
        connection timeout on every call."""
        if literal(name) is not None:
            return [name]
        try:
            found = await _resolved(name, port or self._url.port)
        except OSError as error:
            raise httpx.ConnectError(f"the name cannot be resolved ({type(error).__name__})") from None
        found.sort(key=lambda info: info[0] != socket.AF_INET)
        addresses = list(dict.fromkeys(address for _, address in found))
        for address in addresses:
            check_resolved(self._url, address)
        return addresses


async def _resolved(name: str, port: int) -> list[tuple[int, str]]:
    """(family, address) pairs."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except RuntimeError:
        # at exit, while the last turns are decided, the interpreter starts no more helper threads
        infos = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [(int(info[0]), str(info[4][0])) for info in infos]
