"""Where prompts and keys may go (server-side request forgery, T8)."""

import socket

import pytest

from memkit.backbones.openai import OpenAIBackbone
from memkit.errors import InvalidConfig, ModelRefused
from memkit.net.urls import check_base_url, check_resolved
from tests.backbones._requests import failure, request
from tests.stub_server import StubServer, redirect

REFUSED = [
    # numbers that parsers read differently
    "http://2130706433/v1", "https://2852039166/v1", "http://0177.0.0.1/v1", "http://0x7f.0.0.1/v1",
    "http://0x7f000001/v1", "http://017700000001/v1", "http://127.1/v1", "http://127.0.1/v1", "http://0/v1",
    "http://127.0.0.01/v1", "https://169.254.43518/v1", "https://0xa9fea9fe/v1", "https://256.1.1.1/v1",
    "https://1.2.3.4.5/v1", "https://example.com.0x7f/v1",
    # metadata services, link-local and other addresses of nobody
    "http://169.254.169.254/latest/meta-data", "https://169.254.169.254/v1", "https://169.254.170.2/v1",
    "https://169.254.0.1/v1", "https://100.100.100.200/v1", "https://192.0.0.192/v1", "https://168.63.129.16/v1",
    "https://metadata.google.internal/v1", "https://METADATA.goog/v1", "https://metadata/v1",
    "https://instance-data/v1", "https://[fd00:ec2::254]/v1", "https://[fe80::1]/v1", "https://[fe80::1%25eth0]/v1",
    "https://[fec0::1]/v1", "https://[ff02::1]/v1", "https://224.0.0.1/v1", "https://255.255.255.255/v1",
    "https://240.0.0.1/v1", "http://0.0.0.0/v1", "http://[::]/v1",
    # IPv4 inside IPv6
    "http://[::ffff:127.0.0.1]/v1", "http://[::ffff:7f00:1]/v1", "https://[::ffff:169.254.169.254]/v1",
    "https://[64:ff9b::a9fe:a9fe]/v1", "https://[2002:a9fe:a9fe::]/v1", "http://[::127.0.0.1]/v1",
    # user names, passwords, and hosts that only look like the one meant
    "https://user@example.com/v1", "https://user:secret@example.com/v1", "https://api.openai.com@evil.example/v1",
    "http://127.0.0.1@evil.example/v1", "https://example.com\\@evil.example/v1", "http://localhost.evil.example/v1",
    # other schemes, and plain http beyond this machine
    "file:///etc/passwd", "ftp://example.com/v1", "gopher://127.0.0.1:70/_x", "data:text/plain,x", "//example.com/v1",
    "example.com/v1", "unix:///var/run/docker.sock", "http://example.com/v1", "http://10.0.0.5:8000/v1",
    # characters, ports and paths that two programs would understand differently
    "https://①②⑦.0.0.1/v1", "https://exаmple.com/v1", "https://example.com\t/v1", " https://example.com/v1",
    "https://example.com/v1\r\nX-Header: 1", "https://example.com:0/v1", "https://example.com:99999/v1",
    "https://example.com:/v1", "https://example%2ecom/v1", "https://example.com/../v1", "https://example.com/%2e%2e/v1",
    "https://example.com/v1?key=1", "https://example.com/v1#x", "https://example..com/v1", "https://example.com./v1",
    "https:///v1", "https://[::1/v1", "https://-evil.example/v1", "",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_hostile_urls_are_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        OpenAIBackbone("m", base_url=url, api_key="k") if url else check_base_url(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", [url for url in REFUSED if "169.254" in url or "metadata" in url])
def test_no_configuration_admits_a_metadata_service(url: str) -> None:
    with pytest.raises(InvalidConfig):
        check_base_url(url, allow_insecure=True)


@pytest.mark.parametrize(
    ("url", "means"),
    [
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("HTTPS://API.Example.com:443/v1", "https://api.example.com/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("https://10.1.2.3/openai/v1", "https://10.1.2.3/openai/v1"),
    ],
)
def test_ordinary_urls_are_accepted(url: str, means: str) -> None:
    assert str(check_base_url(url)) == means


def test_plain_http_needs_consent() -> None:
    assert str(check_base_url("http://10.0.0.5:8000/v1", allow_insecure=True)) == "http://10.0.0.5:8000/v1"


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "127.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1%eth0", "0.0.0.0", "64:ff9b::a9fe:a9fe", "x"],
)
def test_a_public_name_may_not_lead_inside(address: str) -> None:
    with pytest.raises(ModelRefused):
        check_resolved(check_base_url("https://example.com/v1"), address)


def test_localhost_may_not_lead_outside() -> None:
    check_resolved(check_base_url("http://localhost/v1"), "127.0.0.1")
    with pytest.raises(ModelRefused):
        check_resolved(check_base_url("http://localhost/v1"), "93.184.216.34")


def test_the_address_that_was_judged_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that changes its answer between check and use (rebinding) reaches nothing."""
    with StubServer() as server:
        asked: list[str] = []

        def resolver(host: str, port: int, *args: object, **kwargs: object) -> list[tuple[object, ...]]:
            asked.append(host)
            address = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        url = f"https://rebound.example:{server.port}/v1"
        with OpenAIBackbone("m", base_url=url, api_key="k") as backbone:
            connected: list[str] = []
            inner = _watch_connections(backbone, connected)
            assert inner
            failure(lambda: backbone.generate([request(max_calls=1)]))
            error, _ = failure(lambda: backbone.generate([request()]))
        assert connected == ["93.184.216.34"]
        assert error.details["reason"] == "address"
        assert error.details["calls"] == 1
        assert server.calls == 0


def test_a_name_that_resolves_to_a_metadata_service_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: answer)
    with OpenAIBackbone("m", base_url="https://innocent.example/v1", api_key="k", allow_insecure=True) as backbone:
        error, took = failure(lambda: backbone.generate([request()]))
    assert isinstance(error, ModelRefused)
    assert took < 1


def test_redirects_are_not_followed() -> None:
    with (
        StubServer() as target,
        StubServer() as server,
        OpenAIBackbone("m", base_url=server.url, api_key="k") as backbone,
    ):
        server.always(redirect(target.url + "/chat/completions"))
        error, _ = failure(lambda: backbone.generate([request()]))
        assert isinstance(error, ModelRefused)
        assert "redirect" in str(error).lower()
        assert (server.calls, target.calls) == (1, 0)


def test_the_name_localhost_works_where_the_server_listens_on_ipv4_only() -> None:
    with StubServer(reply="hello") as server:
        url = f"http://localhost:{server.port}/v1"
        with OpenAIBackbone("m", base_url=url) as backbone:
            assert backbone.generate([request()])[0].text == "hello"
        assert server.seen[0].headers["host"] == f"localhost:{server.port}"


def _watch_connections(backbone: OpenAIBackbone, connected: list[str]) -> bool:
    """Record the hosts that the transport hands to the network, and let none through."""
    import httpx

    from memkit.net import pinned

    class Recorder(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            connected.append(request.url.host)
            raise httpx.ConnectError("closed")

    client = backbone._client._opened
    opened, _ = client()
    transport = opened._transport
    assert isinstance(transport, pinned.PinnedTransport)
    transport._inner = Recorder()
    return True
