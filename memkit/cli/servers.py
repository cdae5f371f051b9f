"""`memkit serve` and `memkit proxy`: the memory for other programs. Each is a plug, imported when it is asked for."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memkit.errors import EmbedderMismatch, InvalidConfig
from memkit.inputs import is_url, scope_id, store_of
from memkit.net.tenants import Tenant, Tenants

if TYPE_CHECKING:
    from memkit.memory import Memory

Store = Annotated[
    str, typer.Option("--store", "-s", envvar="MEMKIT_STORE", help="Folder of the store, or postgresql://…")
]
Agent = Annotated[str | None, typer.Option("--agent", help="Narrow to one agent of the user.")]
Model = Annotated[
    str | None, typer.Option("--model", "-m", help='"openai:NAME", "anthropic:NAME", …; without it, the rules.')
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Endpoint of an openai: model.")]
Embedder = Annotated[
    str | None,
    typer.Option("--embedder", help="hash, minilm, multilingual, fastembed:NAME, openai:NAME; else the store's own."),
]
Redact = Annotated[
    str | None, typer.Option("--redact", help='What is not to be written: "keys,passwords,cards,mail,phone", or "all".')
]
Host = Annotated[str, typer.Option("--host", help="Beyond 127.0.0.1, put TLS in front.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 takes any free one (--rest, ui).")]
Tokens = Annotated[Path | None, typer.Option("--tokens", envvar="MEMKIT_TOKENS", help='JSON file: {"TOKEN": "USER"}.')]
DEFAULT_STORE = "./memory"
TOKEN_VARIABLE = "MEMKIT_TOKEN"
"""One token, for one user: with --user, instead of a file."""


def serve(
    store: Store = DEFAULT_STORE,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Whose memories (stdio).")] = None,
    agent: Agent = None,
    space: Annotated[str | None, typer.Option("--space", help="A space's memories, as that user (stdio).")] = None,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of stdio; needs tokens.")] = False,
    rest: Annotated[bool, typer.Option("--rest", help="REST for any language, instead of MCP; needs tokens.")] = False,
    rate: Annotated[float, typer.Option("--rate", min=0, help="Calls a second for each token (--rest).")] = 0.0,
    host: Host = "127.0.0.1",
    port: Port = 8787,
    tokens: Tokens = None,
    model: Model = None,
    base_url: BaseUrl = None,
    embedder: Embedder = None,
    redact: Redact = None,
) -> None:
    """Serve a user's memory over MCP (stdio, or HTTP behind tokens), or everybody's over REST."""
    if space is not None and (http or rest or agent is not None):
        raise InvalidConfig(
            "--space is of a server over stdio, for a user without an agent",
            fix="send the header x-memkit-space to --http, or `space` with a call of --rest",
        )
    if rest:
        service: Any = importlib.import_module("memkit_rest")
        tenants = tenants_of(tokens, user, agent, apps=True)
        if tenants is None:
            raise _no_tokens(f"pass --tokens FILE, or {TOKEN_VARIABLE} in the environment")
        start = service.serve_rest  # what it needs is missed before a store is made
        with open_served(store, model, base_url, embedder, redact) as memory:
            start(memory, tenants, host=host, port=port, rate=rate)
        return
    plug: Any = importlib.import_module("memkit_mcp")

    def open_memory() -> Memory:
        return open_served(store, model, base_url, embedder, redact)

    if http:
        tenants = tenants_of(tokens, user, agent)
        if tenants is None:
            raise _no_tokens(f"pass --tokens FILE, or --user NAME with {TOKEN_VARIABLE} in the environment")
        plug.serve_http(open_memory, tenants, host=host, port=port)
    elif user is None:
        raise InvalidConfig(
            "no user is named",
            why="a server over stdio serves one",
            fix="pass --user NAME, or --http with --tokens FILE",
        )
    else:
        own_agent = None if agent is None else scope_id(agent, "--agent")
        there = None if space is None else scope_id(space, "--space")
        plug.serve_stdio(open_memory, Tenant(scope_id(user, "--user"), own_agent), space=there)


def proxy(
    upstream: Annotated[str, typer.Option("--upstream", help="The API behind it, e.g. http://127.0.0.1:8000/v1")],
    store: Store = DEFAULT_STORE,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Who speaks where no header says so.")] = None,
    host: Host = "127.0.0.1",
    port: Port = 8788,
    tokens: Tokens = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Size of the block of memories.")] = 800,
    model: Model = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Endpoint of an openai: model; without it, the upstream.")
    ] = None,
    embedder: Embedder = None,
    redact: Redact = None,
) -> None:
    """Give memory to any app that speaks the OpenAI or Anthropic API: point its base URL here."""
    plug: Any = importlib.import_module("memkit_openai")
    if model is not None and model.startswith("openai:"):
        base_url = base_url or upstream
    with open_served(store, model, base_url, embedder, redact) as memory:
        plug.serve_proxy(
            memory,
            upstream,
            user_id=user,
            tenants=tenants_of(tokens, None, None),
            max_tokens=max_tokens,
            host=host,
            port=port,
        )


def ui(
    store: Store = DEFAULT_STORE,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 takes any free one.")] = 8789,
    runs: Annotated[Path | None, typer.Option("--runs", help="Where memkit-train writes its runs.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Asked what an adapter would have decided.")
    ] = None,
    embedder: Embedder = None,
) -> None:
    """See a store in the browser: who is remembered, why, what is learned. Only for whoever has the printed token."""
    from memkit.cli.opening import open_store, there  # here, for an MCP client waits for `memkit serve`

    plug: Any = importlib.import_module("memkit_ui")
    there(store)

    def open_memory() -> Memory:
        try:
            return open_store(store, embedder=embedder, embeds=True)
        except EmbedderMismatch:  # made by the app that has it; all but the search works without
            return open_store(store)

    beside = () if is_url(store) else (Path(store) / "runs", Path(store).parent / "runs")
    found = runs or next((folder for folder in beside if folder.is_dir()), None)
    plug.serve_ui(open_memory, store_of(store), host=host, port=port, runs=found, model=model, say=_say_where)


def _say_where(address: str) -> None:
    typer.echo(f"memkit ui shows the store at {address}")


def open_served(
    store: str, model: str | None, base_url: str | None, embedder: str | None, redact: str | None
) -> Memory:
    from memkit.memory import Memory
    from memkit.runtime.store_embedder import embedder_for
    from memkit.store.lance import bound_heap

    bound_heap()
    options: dict[str, Any] = {"base_url": base_url} if base_url else {}
    chosen = embedder_for(store, embedder, embeds=True)
    return Memory(store, model=model, embedder=chosen, redact=redact, **options)


def tenants_of(tokens: Path | None, user: str | None, agent: str | None, *, apps: bool = False) -> Tenants | None:
    """apps: whether a token may speak for any user, as the one of the environment does where no user is named."""
    if tokens is not None:
        return Tenants.read(tokens, apps=apps)
    token = os.environ.get(TOKEN_VARIABLE)
    if token and user:
        return Tenants({token: Tenant(user, agent)})
    return Tenants({token: Tenant("", is_app=True)}) if token and apps else None


def _no_tokens(fix: str) -> InvalidConfig:
    return InvalidConfig("HTTP needs tokens", why="whoever reaches the port could read and change memories", fix=fix)


alone = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
alone.command()(serve)


@alone.callback()
def _named() -> None:
    """`memkit serve` without the other commands. A callback makes typer ask for the command's name."""
