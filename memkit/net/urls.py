"""Which URLs may be called. Pure: parsing and judging only.

A base URL comes from code or configuration, never from a message or a model. It is still checked hard, because one
wrong value sends prompts, a key, or both, to somebody else: cloud metadata services answer any process on the
machine, numbers such as `2130706433` or `0177.0.0.1` mean different hosts to different parsers, and a name says
nothing about where it leads until it is resolved. So the URL is judged as written here, and every address that its
name resolves to is judged again just before connecting (`pinned.py`).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from memkit.errors import InvalidConfig, ModelRefused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*/?")
_ZERO_NET = ipaddress.ip_network("0.0.0.0/8")
_SITE_LOCAL = ipaddress.ip_network("fec0::/10")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "instance-data",
        "instance-data.ec2.internal",
    }
)
_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)


@dataclass(frozen=True, slots=True)
class BaseURL:
    """A checked base URL, put together again from its parts, so that no other parser can read it differently."""

    scheme: str
    host: str
    port: int
    path: str
    """Without a closing slash; "" for the root."""
    allow_insecure: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def local(self) -> bool:
        """Written as this machine: `localhost`, 127.0.0.0/8, ::1."""
        return _is_localhost(self.host) or ((ip := literal(self.host)) is not None and ip.is_loopback)


_PORTS = {"http": 80, "https": 443}


def check_base_url(raw: str, *, allow_insecure: bool = False) -> BaseURL:
    """The URL as written. `allow_insecure` admits plain http, and names that lead to this machine; nothing else."""
    if not isinstance(raw, str) or not raw or len(raw) > 2048:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _refused("it is empty, too long or no text")
    if not raw.isascii() or not raw.isprintable() or " " in raw or "\\" in raw:
        raise _refused("it holds blanks, control characters, backslashes or non-ASCII characters")
    try:
        parts = urlsplit(raw)
        port = parts.port
    except ValueError:
        raise _refused("its host or port cannot be read") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not raw.lower().startswith(f"{scheme}://"):
        raise _refused("only https:// and, on this machine, http:// are spoken")
    if "@" in parts.netloc:
        raise _refused("it carries a user name or password", fix="pass the key as api_key=")
    if "?" in raw or "#" in raw:
        raise _refused("a base URL has no query and no fragment")
    if not _PATH.fullmatch(parts.path) or any(segment in (".", "..") for segment in parts.path.split("/")):
        raise _refused("its path holds escapes, empty or dot segments")
    if parts.netloc.endswith(":") or port == 0:
        raise _refused("its port is empty or zero")
    host = _host(parts.hostname or "", bracketed="[" in parts.netloc)
    url = BaseURL(scheme, host, port or _PORTS[scheme], parts.path.rstrip("/"), allow_insecure)
    ip = literal(host)
    if ip is not None and (why := forbidden(ip)):
        raise _refused(why)
    if scheme == "http" and not url.local and not allow_insecure:
        raise _refused(
            "plain http beyond this machine shows prompts and key to the network",
            fix="use https, or pass allow_insecure=True for a network that you trust",
        )
    return url


def literal(host: str) -> Address | None:
    """The address that a host is written as, None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def forbidden(ip: Address) -> str:
    """Why an address is never called, whatever the configuration; "" where it may be."""
    ip = ipv4_inside(ip) or ip
    if ip in _METADATA_ADDRESSES:
        return "it is the metadata service of a cloud"
    if ip.is_link_local:
        return "it is a link-local address, where metadata services live"
    if ip.is_unspecified or ip.is_multicast:
        return "it is no address of one host"
    if isinstance(ip, ipaddress.IPv4Address) and (ip in _ZERO_NET or ip.is_reserved):
        return "it is a reserved address"
    if isinstance(ip, ipaddress.IPv6Address) and ip in _SITE_LOCAL:
        return "it is a reserved address"
    return ""


def check_resolved(url: BaseURL, address: str) -> None:
    """Judge an address that the URL's name resolved to, before anything is sent there."""
    ip = literal(address.split("%", 1)[0])
    why = "it is no IP address" if ip is None else forbidden(ip)
    if ip is not None and not why:
        loops = (ipv4_inside(ip) or ip).is_loopback
        if loops and not url.local and not url.allow_insecure:
            why = "a public name that leads to this machine is how name servers are turned against it"
        elif url.local and not loops:
            why = "localhost must be this machine"
    if why:
        raise ModelRefused(
            f"the name {url.host} resolves to an address that is not called",
            why=why,
            fix="check base_url and the name server; for a server on this machine write http://127.0.0.1:PORT/v1",
            reason="address",
        )


def ipv4_inside(ip: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address inside a transitional IPv6 form."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in _NAT64 or (ip in _COMPATIBLE and int(ip) > 1):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return None


def _host(host: str, *, bracketed: bool) -> str:
    """Lower case, one meaning only."""
    if bracketed:
        ip = literal(host) if "%" not in host else None
        if not isinstance(ip, ipaddress.IPv6Address):
            raise _refused("its host is no plain IPv6 address")
        if ipv4_inside(ip) is not None:
            raise _refused("it hides an IPv4 address in an IPv6 one", fix="write the IPv4 address itself")
        return ip.compressed
    labels = host.split(".")
    if not host or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused("its host is no plain name or address", fix="write names as ASCII (punycode), without escapes")
    if _NUMBER.fullmatch(labels[-1]) and literal(host) is None:
        raise _refused(
            "its host is a number that programs read differently",
            fix="write the address as four decimal numbers, e.g. 192.0.2.7",
        )
    if host in _METADATA_NAMES:
        raise _refused("it is the metadata service of a cloud")
    return host


def _is_localhost(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _refused(why: str, *, fix: str = "pass base_url='https://HOST/v1'") -> InvalidConfig:
    """Never quotes the URL: a refused one may hold a password."""
    return InvalidConfig("base_url is refused", why=why, fix=fix)
