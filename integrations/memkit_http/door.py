"""Who may come in at all: requests for our own name, from our own pages.

A page of another site can have a browser send requests to 127.0.0.1. It cannot choose the Host header (DNS rebinding
makes it the attacker's own name), and cannot hide where it comes from (Origin, Sec-Fetch-Site). So both are looked at
before anything else, whatever a request carries besides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memkit.net.urls import literal
from memkit_http.problems import Declined

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Door:
    hosts: frozenset[str]
    """The Host headers that are ours."""

    @classmethod
    def at(cls, host: str, port: int, names: Iterable[str] = ()) -> Door:
        """`names`: under which others know the server, port and all, where a proxy stands in front."""
        ours = _LOCAL if is_local(host) else (f"[{host}]" if ":" in host else host,)
        return cls(frozenset({f"{one}:{port}".lower() for one in ours} | {one.lower() for one in names}))

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "").lower()
        if host not in self.hosts:
            raise Declined(
                421,
                "this server does not go by that name",
                why="a page of another site may be speaking through the browser (DNS rebinding)",
                fix=f"open it as http://{min(self.hosts)}/",
            )
        origin = headers.get("origin")
        if origin is not None and not (method in _SAFE and origin == "null") and not self._is_ours(origin):
            raise Declined(403, "the request comes from a page of another site", fix="use the pages of this server")
        if method not in _SAFE and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Declined(403, "the request comes from a page of another site", fix="use the pages of this server")

    def _is_ours(self, origin: str) -> bool:
        scheme, _, rest = origin.lower().partition("://")
        return scheme in ("http", "https") and rest in self.hosts


def is_local(host: str) -> bool:
    ip = literal(host)
    return host == "localhost" or (ip is not None and ip.is_loopback)
