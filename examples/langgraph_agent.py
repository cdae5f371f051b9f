"""A LangGraph agent that remembers across threads. `pip install "memkit[langgraph]"`

    python examples/langgraph_agent.py ana                          # no model: shows the prompt that it would send
    python examples/langgraph_agent.py ana --model gpt-4.1-mini     # needs OPENAI_API_KEY, or --base-url

A thread's messages live in LangGraph's checkpointer and end with it. What outlives the thread has two homes here: what
the user says goes to the memory manager, and settings that the app itself writes go into the graph's store, verbatim.
Every run is a new thread. An empty line ends it.
"""

from __future__ import annotations

import argparse
import os
import uuid
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import httpx
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore

from memkit import Memory
from memkit_langgraph import MemkitStore

Model = Callable[[list[dict[str, str]]], str]


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    user: str


def build(memory: Memory, model: Model) -> Any:
    """Reply with what is recalled, then learn. The recalled block goes into the model call and never into the state:
    what is in the state is said again to the next extraction, and would come back as a memory of a memory."""

    def reply(state: State, *, store: BaseStore) -> dict[str, Any]:
        user, said = state["user"], state["messages"][-1].content
        block = memory.context(said, user_id=user, max_tokens=400)
        style = store.get(("settings", "style"), user)
        system = f"Answer {style.value['words'] if style else 'briefly'}.\n{block}".strip()
        history = [{"role": _ROLES[one.type], "content": one.content} for one in state["messages"]]
        answer = model([{"role": "system", "content": system}, *history])
        memory.observe(block.trace_id, answer, user_id=user)
        return {"messages": [("assistant", answer)]}

    def learn(state: State) -> None:
        said = state["messages"][-2]
        memory.add(said.content, user_id=state["user"], idempotency_key=said.id, wait=False)

    graph = StateGraph(State).add_node(reply).add_node(learn)
    graph.add_edge(START, "reply").add_edge("reply", "learn").add_edge("learn", END)
    return graph.compile(checkpointer=InMemorySaver(), store=MemkitStore(memory))


_ROLES = {"human": "user", "ai": "assistant"}


def hosted(name: str, base_url: str, key: str) -> Model:
    client = httpx.Client(base_url=base_url, headers={"authorization": f"Bearer {key}"}, timeout=60)

    def ask(messages: list[dict[str, str]]) -> str:
        answer = client.post("chat/completions", json={"model": name, "messages": messages}).raise_for_status().json()
        return answer["choices"][0]["message"]["content"]

    return ask


def no_model(messages: list[dict[str, str]]) -> str:
    return f"(no model) my prompt would begin with:\n{messages[0]['content']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("user")
    parser.add_argument("--store", default="./memory")
    parser.add_argument("--style", help="how to answer; kept in the graph's store")
    parser.add_argument("--model")
    parser.add_argument("--base-url", default="https://api.openai.com/v1")
    args = parser.parse_args()
    key = os.environ.get("OPENAI_API_KEY", "unused")
    model = hosted(args.model, args.base_url.rstrip("/") + "/", key) if args.model else no_model
    with Memory(args.store) as memory:
        agent = build(memory, model)
        if args.style:
            agent.store.put(("settings", "style"), args.user, {"words": args.style})
        thread = {"configurable": {"thread_id": uuid.uuid4().hex}}
        while said := _said():
            state = agent.invoke({"messages": [("user", said)], "user": args.user}, thread)
            print(f"bot> {state['messages'][-1].content}")


def _said() -> str:
    try:
        return input("you> ").strip()
    except EOFError:
        return ""


if __name__ == "__main__":
    main()
