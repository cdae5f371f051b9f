"""`memkit users`, `memkit why`, `memkit log --asked`: looking at a store. Nothing here leaves a trace."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memkit.cli import show
from memkit.cli.opening import open_store
from memkit.cli.servers import DEFAULT_STORE, Store

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NOTHING_TO_DO = 4


def users(
    store: Store = DEFAULT_STORE,
    grep: Annotated[str, typer.Option("--grep", help="Only ids that hold this.")] = "",
    json: Json = False,
) -> None:
    """Who is remembered, those who said the most first."""
    with open_store(store) as memory:
        found = [one for one in memory.views.people() if grep.casefold() in one.user_id.casefold()]
    if json:
        show.as_json(found)
    else:
        rows = [
            [
                show.visible(one.user_id),
                str(one.memories),
                str(one.turns),
                str(one.parked or ""),
                show.visible(", ".join(agent for agent in one.agents if agent)),
                "" if one.trainable else "not learned from",
            ]
            for one in found
        ]
        show.table("", ["user", "memories", "turns", "parked", "agents", ""], rows)
    if not found:
        raise typer.Exit(NOTHING_TO_DO)


def why(
    text: Annotated[str, typer.Argument(help="What is missed, in a few words.")],
    user: Annotated[str, typer.Option("--user", "-u", help="Whose memories.")],
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Why something is not remembered: who said it when, and what became of it."""
    with open_store(store) as memory:
        found = memory.views.why(user, text)
    if json:
        show.as_json(found)
        return
    show.out.print(f"[bold]{show.visible(found.verdict)}[/]")
    for record in found.remembered:
        show.out.print(f"  [green]remembered[/] {show.visible(record.text)} [dim]{record.id}[/]")
    for one in found.turns:
        who = one.turn.speaker or one.turn.role
        show.out.print(
            f"\n  [cyan]said[/]   {show.visible(who)}: {show.visible(one.turn.text)} [dim]{show.when(one.turn.at)}[/]"
        )
        reason = f": {show.visible(one.reason)}" if one.reason else ""
        show.out.print(f"  [cyan]became[/] {one.fate}{reason}")
        for op in one.ops:
            show.out.print(f"         {show.action(op)} {show.change(op)} [dim]{op.op_id}[/]")
        kept = "its words are searchable" if one.words_kept else "its words are not searchable"
        show.out.print(f"         [dim]{kept}; memkit log --user … --trace {one.trace_id}[/]")


def entities(
    user: Annotated[str, typer.Option("--user", "-u", help="Whose memories.")],
    store: Store = DEFAULT_STORE,
    agent: Annotated[str | None, typer.Option("--agent", help="Only one of the user's agents.")] = None,
    limit: Annotated[int, typer.Option("--limit")] = 100,
    json: Json = False,
) -> None:
    """Whom and what the memories of a user name."""
    with open_store(store) as memory:
        found = memory.entities(user_id=user, agent_id=agent, limit=limit)
    if json:
        show.as_json({"entities": found})
    else:
        rows = [
            [
                show.visible(one.name),
                one.kind,
                show.visible(", ".join((*one.names[1:], *one.relations))),
                str(len(one.memories)),
            ]
            for one in found
        ]
        show.table("", ["name", "kind", "also", "memories"], rows)
    if not found:
        raise typer.Exit(NOTHING_TO_DO)


def about(
    name: Annotated[str, typer.Argument(help="A name, what it is to the user (my sister), or any word.")],
    user: Annotated[str, typer.Option("--user", "-u", help="Whose memories.")],
    store: Store = DEFAULT_STORE,
    agent: Annotated[str | None, typer.Option("--agent", help="Only one of the user's agents.")] = None,
    limit: Annotated[int, typer.Option("--limit")] = 100,
    json: Json = False,
) -> None:
    """The memories about somebody or something."""
    with open_store(store) as memory:
        found = memory.about(name, user_id=user, agent_id=agent, limit=limit)
    show.as_json({"memories": found}) if json else show.memories(found)
    if not found:
        raise typer.Exit(NOTHING_TO_DO)


def tell_asked(store: str, user: str, last: int, grep: str, json: bool) -> int:
    """The newest reads, oldest first. Returns the exit code."""
    with open_store(store) as memory:
        found: list[dict[str, Any]] = list(reversed(memory.views.reads(user, limit=last, grep=grep).items))
    if json:
        show.as_json(found)
        return 0 if found else NOTHING_TO_DO
    rows = [
        [
            show.when(one["at"]),
            one["kind"],
            show.visible(one["question"]),
            show.visible(one["answer"] or ""),
            f"{one['cited']} of {one['served']}",
            ", ".join(show.visible(describe_feedback(given)) for given in one["feedback"]),
            one["trace_id"],
        ]
        for one in found
    ]
    show.table("", ["at", "read", "asked", "answered", "cited", "rated", "trace"], rows)
    return 0 if found else NOTHING_TO_DO


def describe_feedback(given: dict[str, Any]) -> str:
    """A thumb, a number, or what was said."""
    parts = [str(given[name]) for name in ("label", "reward") if name in given]
    parts += [f"expected {given['expected']!r}"] if "expected" in given else []
    parts += [repr(given["comment"])] if "comment" in given else []
    return " ".join(parts) or str(given.get("source", ""))
