"""The pages of `memkit ui` about a user, read by the official MCP client as a host of MCP Apps reads them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")
pytest.importorskip("jinja2", reason="needs the extra ui")
pytest.importorskip("starlette", reason="needs the extra ui")

from mcp import Client

from memkit import Memory
from memkit.net.tenants import Tenant
from memkit_mcp.server import build_server

PAGE = "text/html;profile=mcp-app"
UI = "io.modelcontextprotocol/ui"
HOSTILE = "<script>document.title='owned'</script></main>"


def asked(store: Path, tenant: Tenant, check: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        server, scope = build_server(lambda: Memory(store), tenant)
        try:
            async with Client(server) as client:
                await check(client)
        finally:
            scope.close()

    asyncio.run(main())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("apps") / "memory"
    with Memory(store) as memory:
        memory.add("I adopted a dog named Buddy.", user_id="ana")
        memory.add(HOSTILE, user_id="ana", infer=False)
        memory.add("I live in Lisbon.", user_id="ben")
    return store


def test_a_host_finds_the_page_of_a_tool_and_shows_it_alone(store: Path) -> None:
    async def check(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        uri = tools["list_memories"].meta["ui"]["resourceUri"]
        listed = {str(one.uri): one for one in (await client.list_resources()).resources}
        assert listed[uri].mime_type == PAGE
        assert len([one for one in listed if one.startswith("ui://")]) == 5
        (page,) = (await client.read_resource(uri)).contents
        assert page.mime_type == PAGE
        assert "Buddy" in page.text
        assert "Lisbon" not in page.text

    asked(store, Tenant("ana"), check)


def test_every_page_stands_alone_greets_its_host_and_runs_nothing_that_was_said(store: Path) -> None:
    async def check(client: Any) -> None:
        for one in (await client.list_resources()).resources:
            if not str(one.uri).startswith("ui://"):
                continue
            (page,) = (await client.read_resource(str(one.uri))).contents
            assert len(re.findall("<script", page.text)) == 1
            assert '"ui/initialize"' in page.text
            assert HOSTILE not in page.text
            assert not re.search(r"\bsrc=|<link|url\(|@import", page.text), one.uri
            assert set(re.findall(r'href="([^"]*)"', page.text)) <= {"#"}, one.uri
            assert str(store.parent) not in page.text, "where the server keeps it is not the client's business"

    asked(store, Tenant("ana"), check)


def test_reading_a_page_leaves_no_trace(store: Path) -> None:
    async def check(client: Any) -> None:
        await client.read_resource("ui://memkit/memories")

    with Memory(store) as memory:
        before = memory.views.reads("ana").items
    asked(store, Tenant("ana"), check)
    with Memory(store) as memory:
        assert memory.views.reads("ana").items == before


def test_a_token_of_one_agent_is_not_shown_what_others_keep(store: Path) -> None:
    async def check(client: Any) -> None:
        with pytest.raises(Exception, match="one agent"):
            await client.read_resource("ui://memkit/memories")

    asked(store, Tenant("ana", "coder"), check)
