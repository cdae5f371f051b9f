"""Spaces under every plug: each sees and says what a grant allows, and a right that ends, ends in a living plug."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server", reason="needs the extras of all plugs")
pytest.importorskip("openai", reason="needs the extras of all plugs")
pytest.importorskip("langgraph", reason="needs the extras of all plugs")
pytest.importorskip("langchain.agents.middleware", reason="needs the extras of all plugs")
pytest.importorskip("llama_index.core.memory", reason="needs the extras of all plugs")
pytest.importorskip("agents.memory", reason="needs the extras of all plugs")
pytest.importorskip("anthropic.lib.tools", reason="needs the extras of all plugs")
pytest.importorskip("pydantic_ai_harness.memory", reason="needs the extras of all plugs")

import httpx
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from memkit import AsyncMemory, Memory
from memkit.errors import InvalidInput, InvalidScope, NotAllowed
from memkit.net.tenants import Tenant, Tenants
from memkit.principal import SpaceMemory
from memkit_agents import MemkitSession
from memkit_anthropic import MemkitMemoryTool
from memkit_langchain import MemkitMiddleware, MemkitRetriever
from memkit_langgraph import MemkitStore, MemkitUserStore
from memkit_llamaindex import MemkitMemoryBlock
from memkit_mcp import build_server, http_app
from memkit_openai import proxy_app, wrap
from memkit_plug.bound import bind
from memkit_plug.talk import HostTalk
from memkit_pydantic_ai import MemkitCapability, MemkitMemoryStore
from tests.bench._rights_plugs import PLUG_STEPS, Hosts, PluggedWorld, Unkept
from tests.bench._rights_world import STEPS, StandingClock, draw_history
from tests.integrations._serving import running
from tests.integrations.test_mcp import called
from tests.stub_server import StubServer

HERON = "The staging server is called heron."


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        yield memory


@pytest.fixture
def team(memory: Memory) -> SpaceMemory:
    team = memory.principal("ana").create_space("team-a")
    team.add(HERON)
    return team


def test_whatever_is_granted_plugs_read_and_write_nothing_that_the_rules_do_not_allow(tmp_path: Path) -> None:
    counts, wrong, clock = Counter[str](), list[str](), StandingClock()
    with Memory(tmp_path / "m", clock=clock, config={"trace_sample": 0.0}) as memory:
        hosts = Hosts(memory)
        for number in range(20):
            world = PluggedWorld(memory, clock, f"h{number}", counts, hosts=hosts)
            world.play(draw_history(random.Random(number), 40, (*STEPS, *PLUG_STEPS * 2)))
            world.close()
            wrong += world.wrong
        hosts.close()
    assert wrong == []
    assert counts["by plug"] > 300
    assert min(counts["allowed"], counts["refused"]) > 100


def test_a_plug_says_whose_it_is_once(memory: Memory, team: SpaceMemory) -> None:
    """Else a principal's plug could speak for another user."""
    ana: Any = memory.principal("ana")
    plugs: list[Callable[[Any], Any]] = [
        lambda given: bind(given, "ben"),
        lambda given: HostTalk.of(given, agent_id="coder"),
        lambda given: MemkitSession(Unkept("s"), given, user_id="ben"),
        lambda given: MemkitMiddleware(given, user_id=lambda _: "ben"),
        lambda given: MemkitCapability(given, user_id="ben"),
        lambda given: MemkitRetriever(memory=given, user_id="ben").invoke("heron"),
        lambda given: MemkitMemoryBlock(memory=given, user_id="ben"),
        lambda given: MemkitMemoryTool(given, user_id="ben"),
        lambda given: MemkitMemoryStore(given, user_id="ben"),
        lambda given: MemkitStore(given, user_id="ben"),
        lambda given: MemkitUserStore(given, user_at=0),
    ]
    for given in (team, ana):
        for make in plugs:
            with pytest.raises(ValueError, match=r"leave user_id and agent_id out|speaks for one"):
                make(given)
    for make in (lambda: bind(memory), lambda: MemkitMiddleware(memory), lambda: MemkitMemoryTool(memory)):
        with pytest.raises(InvalidScope, match="whose memories"):
            make()
    for make in (lambda: MemkitStore(ana), lambda: MemkitMemoryTool(ana), lambda: MemkitMemoryStore(ana)):
        with pytest.raises(InvalidScope, match="in one"):
            make()


def test_one_middleware_serves_many_in_a_space_and_each_as_whom_the_app_says(memory: Memory, team: SpaceMemory) -> None:
    team.grant("read", to="ben")
    seen: list[Any] = []

    class Model(GenericFakeChatModel):
        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(str(messages))
            if len(seen) % 2:
                team.revoke(to="ben")  # while a run goes on
            return super()._generate(messages, *args, **kwargs)

        def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
            return self

    @tool
    def clock() -> str:
        """Tell the time."""
        return "noon"

    calls = AIMessage("", tool_calls=[{"name": "clock", "args": {}, "id": "1"}])
    middleware = MemkitMiddleware(
        lambda runtime: memory.principal(runtime.context["user"]).space("team-a"), learn=False
    )
    agent: Any = create_agent(
        Model(messages=iter([calls, "Heron."] * 2)), [clock], middleware=[middleware], context_schema=dict
    )
    for user in ("ben", "eve"):
        agent.invoke({"messages": [("user", "Which staging server?")]}, context={"user": user})
    assert ["heron" in one for one in seen] == [True, False, False, False]


def test_a_chat_of_a_principal_knows_the_spaces_and_learns_for_itself(memory: Memory, team: SpaceMemory) -> None:
    team.grant("read", to="ben")
    talk = HostTalk.of(memory.principal("ben"))
    assert "heron" in talk.recall("Which staging server?").block
    talk.learn([{"role": "user", "content": "I live in Oslo."}])
    memory.flush()
    assert [one.text for one in memory.list(user_id="ben")] == ["User lives in Oslo."]
    assert len(team.list()) == 0


def test_where_several_speak_it_is_said_who_did(memory: Memory, team: SpaceMemory) -> None:
    team.grant("write", to="ben")
    HostTalk.of(memory.principal("ben").space("team-a")).learn([{"role": "user", "content": "My dog is called Rex."}])
    memory.flush()
    assert [(one.text, one.metadata["by"]) for one in team.list()] == [("Ben's dog is called Rex.", "ben")]


def test_an_awaitable_memory_is_taken_as_somebody_too(tmp_path: Path) -> None:
    import openai

    async def run() -> str:
        async with AsyncMemory(tmp_path / "m") as memory:
            team = await memory.principal("ana").create_space("team-a")
            await team.add(HERON)
            with pytest.raises(InvalidInput, match="synchronous"):
                wrap(openai.OpenAI(api_key="none"), team)
            assert wrap(openai.AsyncOpenAI(api_key="none"), team)
            return (await HostTalk.of(team).arecall("Which staging server?")).block

    assert "heron" in asyncio.run(run())


def test_what_a_plug_put_into_a_space_goes_with_whoever_put_it(memory: Memory, team: SpaceMemory) -> None:
    team.grant("read", "write", to="ben")
    MemkitStore(team).put(("codes",), "gate", {"code": "1290"})
    ben = MemkitStore(memory.principal("ben").space("team-a"))
    for key, code in (("printer", "4711"), ("locker", "5566")):
        ben.put(("codes",), key, {"code": code, "by": "ana"})
    bens = [one for one in team.list() if one.metadata["by"] == "ben"]
    assert len(bens) == 2
    team.revoke(to="ben")
    with pytest.raises(NotAllowed):
        ben.search(("codes",))
    memory.principal("ben").space("team-a").forget(words="4711")
    with pytest.raises(NotAllowed):
        memory.principal("ben").space("team-a").forget(words="1290")
    memory.erase(user_id="ben")
    assert [item.key for item in MemkitStore(team).search(("codes",))] == ["gate"]
    assert [op for op in team.history() if op.after and "5566" in op.after.text] == []


# ---- servers: the caller is who the token says, and the space is named beside it, never by a model -------------------

TOKENS = {"token-of-ana-1234": "ana", "token-of-ben-1234": "ben", "token-of-coder-12": "ana"}


def tenants() -> Tenants:
    return Tenants({token: Tenant(user, "coder" if "coder" in token else None) for token, user in TOKENS.items()})


def over_mcp(base: str, token: str, check: Any, **headers: str) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def main() -> None:
        sent = {"authorization": f"Bearer {token}", "x-memkit-space": "team-a", **headers}
        http = httpx2.AsyncClient(headers=sent, trust_env=False)
        async with http, Client(streamable_http_client(f"{base}/mcp", http_client=http)) as client:
            await check(client)

    asyncio.run(main())


def test_mcp_serves_a_space_as_the_caller(memory: Memory, team: SpaceMemory) -> None:
    async def readers(client: Any) -> None:
        assert "heron" in str(await called(client, "search_memory", query="Which staging server?"))
        for name, arguments in (("add_memory", {"text": "I like tea."}), ("undo", {"op_id": "o"})):
            refused = await client.call_tool(name, {**arguments, "space": "team-b", "user_id": "ana"})
            assert refused.is_error
            assert "'ben' may not write" in refused.content[0].text

    async def strangers(client: Any) -> None:
        for name, arguments in (
            ("search_memory", {"query": "heron"}),
            ("list_memories", {}),
            ("answer", {"question": "?"}),
        ):
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert "heron" not in refused.content[0].text

    async def writers(client: Any) -> None:
        await called(client, "add_memory", text="The user prefers tabs over spaces.")
        memory.flush()
        assert "Ana prefers tabs over spaces." in [one.text for one in team.list()]
        assert "serves a space" in str(await refused_page(client))

    async def refused_page(client: Any) -> str:
        with pytest.raises(Exception, match="space") as refused:
            await client.read_resource("ui://memkit/memories")
        return str(refused.value)

    app, _ = http_app(lambda: memory, tenants())
    with running(app) as base:
        over_mcp(base, "token-of-ben-1234", strangers)
        team.grant("read", to="ben")
        over_mcp(base, "token-of-ben-1234", readers)
        over_mcp(base, "token-of-coder-12", strangers)
        over_mcp(base, "token-of-ana-1234", writers)
        sent = [("authorization", "Bearer token-of-ana-1234"), ("x-memkit-space", "a"), ("x-memkit-space", "b")]
        assert httpx.post(f"{base}/mcp", headers=sent, json={}).status_code == 400
    assert memory.users() == []


def test_mcp_over_stdio_serves_the_space_of_its_configuration(memory: Memory, team: SpaceMemory) -> None:
    server, _ = build_server(lambda: memory, Tenant("ana"), space="team-a")
    assert "heron" in str(asyncio.run(server.call_tool("search_memory", {"query": "Which staging server?"})))


def test_the_proxy_serves_a_space_as_the_caller(memory: Memory, team: SpaceMemory) -> None:
    body = {"model": "stub", "messages": [{"role": "user", "content": "Which staging server do I use?"}]}

    def ask(token: str, **more: str) -> httpx.Response:
        headers = {"x-memkit-token": token, "x-memkit-space": "team-a", **more}
        return httpx.post(f"{base}/v1/chat/completions", json=body, headers=headers, timeout=20, trust_env=False)

    with StubServer(reply="Heron.") as api, running(proxy_app(memory, api.url, tenants=tenants())) as base:
        trace = ask("token-of-ana-1234").headers["x-memkit-trace"]
        assert ask("token-of-ben-1234").status_code == 200
        assert ["heron" in str(one["messages"]) for one in api.bodies] == [True, False]
        assert "x-memkit-space" not in str([seen.headers for seen in api.seen])
        refused = ask("token-of-coder-12")
        assert (refused.status_code, "no agents" in refused.text) == (403, True)
        told = {"trace_id": trace, "label": "up"}
        for token, status in (("token-of-ben-1234", 403), ("token-of-ana-1234", 200)):
            headers = {"x-memkit-token": token, "x-memkit-space": "team-a"}
            answer = httpx.post(f"{base}/memkit/feedback", json=told, headers=headers, timeout=20, trust_env=False)
            assert answer.status_code == status, answer.text
    memory.flush()
    assert {turn.metadata["by"] for turn in team.bank().turns()} == {"ana"}


def test_a_refused_recall_is_told_by_its_name_alone(memory: Memory, team: SpaceMemory, caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "memkit")
    assert HostTalk.of(memory.principal("eve").space("team-a")).recall("Which staging server?").block == ""
    assert "NotAllowed" in caplog.text
    assert "team-a" not in caplog.text
