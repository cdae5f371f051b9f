"""The histories of spaces through the plugs: MCP, the OpenAI wrapper and proxy, LangGraph, LangChain, LlamaIndex,
Agents, Anthropic's tool, Pydantic AI. Each is made once as somebody, and lives on while grants come and go; the hosts'
own classes call it, without a network. What a chat plug may not read it does without, and what it may not write it does
not learn; the others refuse in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import openai
from agents.run_config import CallModelData, ModelInputData
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse as PydanticResponse
from pydantic_ai.messages import TextPart
from pydantic_ai.models.function import FunctionModel

from memkit import Memory
from memkit.errors import MemkitError
from memkit.models import SPACE, Bank
from memkit.net.tenants import Tenant, Tenants
from memkit.results import Right
from memkit_agents import MemkitSession
from memkit_anthropic import MemkitMemoryTool
from memkit_langchain import MemkitMiddleware, MemkitRetriever
from memkit_langgraph import MemkitStore
from memkit_llamaindex import MemkitMemoryBlock
from memkit_mcp import build_server
from memkit_mcp.scope import asked_space, caller
from memkit_openai import proxy_app, wrap
from memkit_pydantic_ai import MemkitCapability, MemkitMemoryStore
from tests.bench._rights_world import PEOPLE, SPACES, Kept, World, words_of

ITEMS = ("langgraph", "anthropic", "harness")
CHATS = ("openai", "proxy", "langchain", "llamaindex", "agents", "pydantic_ai")
TOOLS = ("search_memory", "list_memories", "answer", "add_memory", "update_memory", "delete_memory", "undo", "feedback")
PLUG_STEPS = (
    *(f"mcp:{tool}" for tool in (*TOOLS, "profile")),
    *(f"{plug}:{what}" for plug in ITEMS for what in ("put", "read", "end")),
    *(f"{plug}:chat" for plug in CHATS),
    "langchain:retrieve",
    "llamaindex:everything",
    "agents:pop",
    "proxy:feedback",
)
"""PLUG:WHAT."""
BY_TOKEN = ("mcp", "proxy")
"""They know their caller by a token, which names no roles."""
Call = Callable[[], Any]


class Hosts:
    """What of the hosts serves all histories of one store."""

    def __init__(self, memory: Memory) -> None:
        self.loop = asyncio.new_event_loop()
        self.mcp, _ = build_server(lambda: memory)
        self.sent: list[str] = []
        """Bodies that reached the model's API."""
        self.transport = httpx.MockTransport(self._stream)
        http = httpx.Client(transport=httpx.MockTransport(self._answer))
        self.client = openai.OpenAI(api_key="none", base_url="http://api.test/v1", http_client=http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request.content.decode())
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Fine."}}
        told = {"id": "1", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
        return httpx.Response(200, json=told)

    async def _stream(self, request: httpx.Request) -> httpx.Response:
        told = self._answer(request)

        async def pieces() -> AsyncIterator[bytes]:
            yield told.content

        return httpx.Response(200, content=pieces(), headers={"content-type": "application/json"})

    def wait(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    def close(self) -> None:
        self.client.close()
        self.wait(self.loop.shutdown_default_executor())
        self.loop.close()


@dataclass(kw_only=True)
class PluggedWorld(World):
    hosts: Hosts
    made: dict[tuple[str, int, int], Any] = field(default_factory=dict[tuple[str, int, int], Any])
    """Plugs, by kind, by whom, and in which space."""
    items: dict[tuple[str, int], list[Kept]] = field(default_factory=dict[tuple[str, int], list[Kept]])
    """By plug and space; the key of an item is the word that it held first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        tokens = {self._token(who): Tenant(self._user(who)) for who in range(PEOPLE)}
        app = proxy_app(self.memory, "http://127.0.0.1:9/v1", tenants=Tenants(tokens), transport=self.hosts.transport)
        self.proxy = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")

    def close(self) -> None:
        self.hosts.wait(self.proxy.aclose())

    def _step(self, what: str, who: int, space: int, a: int, b: int) -> None:
        plug, _, doing = what.partition(":")
        before = self.counts["allowed"] + self.counts["refused"]
        if not doing:
            super()._step(what, who, space, a, b)
            return
        if plug in ITEMS:
            {"put": self._put, "read": self._read, "end": self._end}[doing](plug, who, space, a)
        elif doing == "chat":
            self._chat(plug, who, space, a)
        else:
            getattr(self, f"_{plug}_{doing}", partial(self._tool, doing))(who, space, a)
        self.counts["by plug"] += self.counts["allowed"] + self.counts["refused"] - before

    # ---- as whom ---------------------------------------------------------------------------------------------------

    def _token(self, who: int) -> str:
        return f"a-token-of-{self._user(who)}"

    def _plug(self, kind: str, who: int, space: int, make: Callable[[Any], Any]) -> Any:
        if (kind, who, space) not in self.made:
            self.made[kind, who, space] = make(self._at(who, space))
        return self.made[kind, who, space]

    def _may(self, plug: str, who: int, space: int, *needed: Right) -> bool:
        if plug not in BY_TOKEN:
            return all(self._held(who, right, space) for right in needed)
        ends = [self.grants.get((space, right, self._user(who), False), self.clock.at) for right in needed]
        return all(end is None or self.clock.at < end for end in ends)

    def _try(self, label: str, allowed: bool, call: Call) -> Any:
        return super()._try(label, allowed, partial(_unwrapped, call))

    # ---- what keeps items and files in a bank ----------------------------------------------------------------------

    def _put(self, plug: str, who: int, space: int, a: int) -> None:
        word = self._new()
        allowed = self._may(plug, who, space, "read", "write")
        self._try(f"{plug}:put", allowed, lambda: self._item(plug, who, space).put(word))
        if not allowed:
            self.gone.add(word)
            return
        bank = Bank(SPACE + self._space(space))
        found = [one.id for _, one in self.journal.live(bank=bank, kinds=["episode"]) if word in words_of([one.text])]
        self._expect(len(found) == 1, f"{plug}:put: {len(found)} items")
        one = Kept(found[0], word, self._user(who))
        self.items.setdefault((plug, space), []).append(one)
        self.kept[space].append(one)

    def _read(self, plug: str, who: int, space: int, a: int) -> None:
        there = self._there(plug, space)
        key = there[a % len(there)].token if there else "none"
        allowed = self._may(plug, who, space, "read")
        told = self._try(f"{plug}:read", allowed, lambda: self._item(plug, who, space).get(key))
        if told is not None:
            self._compare(f"{plug}:read", told, [space])
            self._expect(not there or key in words_of([told]), f"{plug}:read: lacks {key}")

    def _end(self, plug: str, who: int, space: int, a: int) -> None:
        there = self._there(plug, space)
        if not there:
            return
        one, allowed = there[a % len(there)], self._may(plug, who, space, "read", "write")
        self._try(f"{plug}:end", allowed, lambda: self._item(plug, who, space).end(one.token))
        if allowed:
            one.live = False

    def _there(self, plug: str, space: int) -> list[Kept]:
        """Those that nobody changed by another way since."""
        kept = self._live(space)
        return [one for one in self.items.get((plug, space), ()) if one in kept and not one.earlier]

    def _item(self, plug: str, who: int, space: int) -> Any:
        make = {"langgraph": LangGraphItems, "anthropic": AnthropicFiles, "harness": HarnessFiles}[plug]
        return self._plug(plug, who, space, lambda memory: make(memory, self.hosts))

    # ---- chats -----------------------------------------------------------------------------------------------------

    def _chat(self, plug: str, who: int, space: int, a: int) -> None:
        """Recall and learning, which go by two rights: what is not allowed is left out, and the chat goes on."""
        word = self._new()
        reads, writes = self._may(plug, who, space, "read"), self._may(plug, who, space, "write")
        text = f"{word} it is. Which is the word?"
        shown = getattr(self, f"_chat_{plug}")(who, space, text).replace(text, "")
        self._runtime.drain()
        self._compare(f"{plug}:chat", shown, [space] if reads else [])
        self._expect(not reads or not self._live(space) or bool(words_of([shown])), f"{plug}:chat: shows nothing")
        turns = self.journal.turns(bank=Bank(SPACE + self._space(space)))
        said = sum(word in words_of([one.text]) for one in turns)
        self._expect(said == writes, f"{plug}:chat: learned {said}, allowed {writes}")
        self.counts[f"{plug}:chat"] += reads or writes
        self.counts["allowed"] += reads + writes
        self.counts["refused"] += 2 - reads - writes
        if writes:
            self.heard[space].append(Kept("", word, self._user(who)))
        else:
            self.gone.add(word)

    def _chat_openai(self, who: int, space: int, text: str) -> str:
        client = self._plug("openai", who, space, lambda memory: wrap(self.hosts.client, memory))
        client.chat.completions.create(model="stub", messages=[{"role": "user", "content": text}])
        return self.hosts.sent.pop()

    def _chat_proxy(self, who: int, space: int, text: str) -> str:
        body = {"model": "stub", "messages": [{"role": "user", "content": text}]}
        self.hosts.wait(self._post(who, space, "/v1/chat/completions", body))
        return self.hosts.sent.pop()

    async def _post(self, who: int, space: int, path: str, body: Any) -> httpx.Response:
        headers = {"x-memkit-token": self._token(who), "x-memkit-space": self._space(space)}
        return await self.proxy.post(path, json=body, headers=headers)

    def _chat_langchain(self, who: int, space: int, text: str) -> str:
        plug = self._plug("langchain", who, space, MemkitMiddleware)
        state: Any = {"messages": [HumanMessage(text, id=f"m{self.said}")]}
        state |= plug.before_agent(state, None)
        seen: list[Any] = []

        def model(request: ModelRequest[Any]) -> ModelResponse[Any]:
            seen.append(request.system_message)
            return ModelResponse(result=[AIMessage("Fine.")])

        runtime: Any = SimpleNamespace()
        nothing: Any = None
        asked = ModelRequest(model=nothing, messages=state["messages"], state=state, runtime=runtime)
        plug.wrap_model_call(asked, model)
        plug.after_agent({**state, "messages": [*state["messages"], AIMessage("Fine.")]}, runtime)
        return str(seen[0] and seen[0].content)

    def _chat_llamaindex(self, who: int, space: int, text: str) -> str:
        block = self._plug("llamaindex", who, space, lambda memory: MemkitMemoryBlock(memory=memory))
        said = [ChatMessage(role="user", content=text)]
        shown = self.hosts.wait(block.aget(said))
        self.hosts.wait(block.aput(said))
        return shown

    def _chat_agents(self, who: int, space: int, text: str) -> str:
        session, said = self._session(who, space), [{"role": "user", "content": text}]
        nothing: Any = None
        given: Any = ModelInputData(input=list[Any](said), instructions=None)
        shown = self.hosts.wait(session.recall(CallModelData(model_data=given, agent=nothing, context=None)))
        self.hosts.wait(session.add_items(said))
        return str(shown.instructions)

    def _session(self, who: int, space: int) -> MemkitSession:
        name = f"{self._user(who)}-{space}"
        return self._plug("agents", who, space, lambda memory: MemkitSession(Unkept(name), memory))

    def _agents_pop(self, who: int, space: int, a: int) -> None:
        """What is popped is un-learned, by whoever may read and write."""
        item = self.hosts.wait(self._session(who, space).pop_item())
        allowed = self._may("agents", who, space, "read", "write")
        word = "" if item is None else item["content"].partition(" ")[0]
        for one in self.heard[space]:
            if one.token == word and allowed:
                self.counts["agents:pop"] += 1
                one.live = False

    def _chat_pydantic_ai(self, who: int, space: int, text: str) -> str:
        seen: list[Any] = []

        def model(messages: Any, _: Any) -> PydanticResponse:
            seen.append(" ".join(str(part.content) for part in messages[-1].parts))
            return PydanticResponse(parts=[TextPart("Fine.")])

        capability = self._plug("pydantic_ai", who, space, MemkitCapability)
        self.hosts.wait(Agent(FunctionModel(model), capabilities=[capability]).run(text))
        return seen[0]

    # ---- the rest --------------------------------------------------------------------------------------------------

    def _langchain_retrieve(self, who: int, space: int, a: int) -> None:
        retriever = self._plug("retriever", who, space, lambda memory: MemkitRetriever(memory=memory, k=50))
        allowed = self._may("langchain", who, space, "read")
        found = self._try("langchain:retrieve", allowed, lambda: retriever.invoke("the word"))
        self._compare("langchain:retrieve", " ".join(one.page_content for one in found or ()), [space])

    def _llamaindex_everything(self, who: int, space: int, a: int) -> None:
        """As a principal: one's own memories with those of every space that one may read."""
        block = MemkitMemoryBlock(memory=self._principal(who), max_tokens=4_000)
        shown = self.hosts.wait(block.aget([ChatMessage(role="user", content="the word")]))
        readable = [one for one in range(SPACES) if self._held(who, "read", one)]
        self.counts["llamaindex:everything"] += 1
        self._compare("llamaindex:everything", shown, readable, self.own.get(who, []))

    def _proxy_feedback(self, who: int, space: int, a: int) -> None:
        given = {"trace_id": "c_none", "label": "up"}
        status = self.hosts.wait(self._post(who, space, "/memkit/feedback", given)).status_code
        allowed = self._may("proxy", who, space, "write")
        self.counts["allowed" if allowed else "refused"] += 1
        self.counts["proxy:feedback"] += allowed
        self._expect(status == (404 if allowed else 403), f"proxy:feedback: {status}, allowed {allowed}")

    def _tool(self, tool: str, who: int, space: int, a: int) -> None:
        """One of MCP's, or its profile, as the caller of a request."""
        kept, word = self._live(space), self._new()
        one = kept[a % len(kept)] if kept else Kept("m_none", "none", "")
        given: dict[str, Any] = {
            "search_memory": {"query": one.token, "k": 50},
            "list_memories": {"limit": 200},
            "answer": {"question": one.token},
            "add_memory": {"text": f"{word} it is."},
            "update_memory": {"id": one.memory_id, "text": f"The word is {word}."},
            "delete_memory": {"id": one.memory_id},
            "undo": {"op_id": "o_none"},
            "feedback": {"trace_id": "c_none", "label": "up"},
            "profile": {},
        }[tool]
        reads = tool in ("search_memory", "list_memories", "answer", "profile")
        allowed = self._may("mcp", who, space, "read" if reads else "write")
        told = self._try(f"mcp:{tool}", allowed, lambda: self._ask_mcp(tool, given, who, space))
        self._runtime.drain()
        if not allowed:
            self.gone |= {word}
        elif reads:
            self._compare(f"mcp:{tool}", told, [space], whole=tool == "list_memories")
        elif tool == "add_memory":
            self.heard[space].append(Kept("", word, self._user(who)))
        elif tool == "update_memory" and told is not None:
            one.earlier.add(one.token)
            one.token = word
        elif tool == "delete_memory" and told is not None:
            one.live = False

    def _ask_mcp(self, tool: str, given: Any, who: int, space: int) -> str:
        known, at = caller.set(Tenant(self._user(who))), asked_space.set(self._space(space))
        try:
            if tool == "profile":
                return str(self.hosts.wait(self.hosts.mcp.read_resource("memkit://profile")))
            return str(self.hosts.wait(self.hosts.mcp.call_tool(tool, given)))
        finally:
            caller.reset(known)
            asked_space.reset(at)

    @property
    def _runtime(self) -> Any:
        return self.memory._runtime  # pyright: ignore[reportPrivateUsage]

    @property
    def journal(self) -> Any:
        return self._runtime.journal


# ---- three ways to keep a word under its name ----------------------------------------------------------------------


class LangGraphItems:
    def __init__(self, memory: Any, hosts: Hosts) -> None:
        self._store = MemkitStore(memory)

    def put(self, word: str) -> None:
        self._store.put(("words",), word, {"says": word})

    def get(self, word: str) -> str:
        found, beside = self._store.get(("words",), word), self._store.search((), query="word", limit=100)
        return f"{found and found.value} {[one.value for one in beside]}"

    def end(self, word: str) -> None:
        self._store.delete(("words",), word)


class AnthropicFiles:
    def __init__(self, memory: Any, hosts: Hosts) -> None:
        self._tool = MemkitMemoryTool(memory)

    def put(self, word: str) -> None:
        self._tool.call({"command": "create", "path": f"/memories/{word}", "file_text": word})

    def get(self, word: str) -> str:
        paths = ["/memories"] if word == "none" else ["/memories", f"/memories/{word}"]
        return " ".join(str(self._tool.call({"command": "view", "path": path})) for path in paths)

    def end(self, word: str) -> None:
        self._tool.call({"command": "delete", "path": f"/memories/{word}"})


class HarnessFiles:
    def __init__(self, memory: Any, hosts: Hosts) -> None:
        self._store, self._wait = MemkitMemoryStore(memory), hosts.wait

    def put(self, word: str) -> None:
        self._wait(self._store.write(word, word, expected_version=None))

    def get(self, word: str) -> str:
        found = self._wait(self._store.read(word, max_chars=100))
        return f"{found and found.content} {self._wait(self._store.list_paths(limit=100))}"

    def end(self, word: str) -> None:
        found = self._wait(self._store.read(word, max_chars=100))
        self._wait(self._store.delete(word, expected_version=found and found.version))


class Unkept:
    """A session of the Agents SDK that lives as long as its history does."""

    session_settings: Any = None

    def __init__(self, session_id: str) -> None:
        self.session_id, self._items = session_id, list[Any]()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return self._items[-limit:] if limit else list(self._items)

    async def add_items(self, items: list[Any]) -> None:
        self._items += items

    async def pop_item(self) -> Any:
        return self._items.pop() if self._items else None

    async def clear_session(self) -> None:
        self._items.clear()


def _unwrapped(call: Call) -> Any:
    """Hosts put an error of ours into one of theirs; its words are for the model."""
    try:
        return call()
    except Exception as error:
        found: BaseException | None = error
        while found is not None and not isinstance(found, MemkitError):
            found = found.__cause__ or found.__context__
        if found is None:
            raise
        raise found from None
