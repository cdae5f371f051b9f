"""The commands. Each opens the store, calls one verb, prints."""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from memkit.cli import adapters, copies, documents, held, look, schema, servers, show, tidy
from memkit.cli.opening import is_there, open_store, there
from memkit.cli.panels import PANELS, arrange
from memkit.cli.servers import DEFAULT_STORE, Store
from memkit.errors import InvalidInput
from memkit.models import Kind, to_json
from memkit.runtime import portability
from memkit.runtime.reembed import adopt_embedder, to_adopt

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Memory that learns from its own use. Start with: memkit demo",
)
app.add_typer(adapters.app, name="adapters")
_COPIES = copies.backup, copies.restore, copies.prune, copies.move, copies.recover
_SERVE = servers.serve, servers.proxy, servers.ui
_LOOKS = look.users, look.why, look.entities, look.about
_OTHERS = *_COPIES, *_SERVE, *_LOOKS, held.release, tidy.tidy, documents.add_document
for command in _OTHERS:
    app.command()(command)
app.command("held")(held.list_held)
app.command("schema")(schema.print_schema)

User = Annotated[str, typer.Option("--user", "-u", help="Whose memories.")]
Agent = Annotated[str | None, typer.Option("--agent", help="Narrow to one agent of the user.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[
    str | None, typer.Option("--model", "-m", help='"small", "openai:NAME", "ollama:NAME", …; else the rules.')
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Endpoint of an openai: model.")]
Embedder = Annotated[
    str | None,
    typer.Option("--embedder", help="hash, minilm, multilingual, fastembed:NAME, openai:NAME; else the store's own."),
]


def read_piped() -> str:
    """Standard input. Bytes that are no text there become halves of characters, which the verbs refuse in words."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    return sys.stdin.read()


def moment(given: str | None) -> int | str | None:
    """A sequence number, or what is left to be read as a time."""
    # isdigit takes "²" for a number, and int() refuses more than some thousand digits
    return int(given) if given is not None and given.isascii() and given.isdecimal() and len(given) < 100 else given


@app.command()
def add(
    text: Annotated[str, typer.Argument(help='What was said; "-" reads standard input.')],
    user: User,
    store: Store = DEFAULT_STORE,
    agent: Agent = None,
    session: Annotated[str | None, typer.Option("--session")] = None,
    speaker: Annotated[str | None, typer.Option("--speaker", help="Name of who said it.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="When it was said, ISO-8601 with offset.")] = None,
    infer: Annotated[bool, typer.Option(help="Let the manager decide; --no-infer stores the turn as it is.")] = True,
    model: Model = None,
    base_url: BaseUrl = None,
    embedder: Embedder = None,
    redact: servers.Redact = None,
    json: Json = False,
) -> None:
    """Remember something that was said."""
    said: dict[str, Any] = {"role": "user", "content": read_piped() if text == "-" else text}
    if speaker:
        said["name"] = speaker
    with open_store(store, model, base_url, embedder, create=True, embeds=infer, redact=redact) as memory:
        result = memory.add(said, user_id=user, agent_id=agent, session_id=session, at=at, infer=infer)
    if json:
        show.as_json(result)
    elif result.status == "parked":
        show.out.print(f"[red]parked[/] {show.escape(result.reason or '')}  (kept; `memkit retry` tries again)")
    elif result.reason is not None:
        show.out.print(f"nothing written: {show.escape(result.reason)}  [dim]trace {result.trace_id}[/]")
    else:
        show.history(result.ops, f"{result.status}  trace {result.trace_id}")
    if result.status == "parked":
        raise typer.Exit(1)


@app.command()
def search(
    query: str,
    user: User,
    store: Store = DEFAULT_STORE,
    agent: Agent = None,
    k: Annotated[int, typer.Option("-k", help="How many.")] = 10,
    as_of: Annotated[str | None, typer.Option("--as-of", help="A sequence number, or an ISO-8601 time.")] = None,
    embedder: Embedder = None,
    json: Json = False,
) -> None:
    """Find memories."""
    with open_store(store, embedder=embedder, embeds=True) as memory:
        hits = memory.search(query, user_id=user, agent_id=agent, k=k, as_of=moment(as_of))
    if json:
        show.as_json({"trace_id": hits.trace_id, "hits": list(hits)})
        return
    rows = [
        [f"{h.score:.3f}", show.visible(h.text), show.when(h.memory.at), show.visible(h.why), h.memory.id] for h in hits
    ]
    show.table(f"trace {hits.trace_id}", ["score", "memory", "said", "why", "id"], rows)


@app.command()
def answer(
    question: str,
    user: User,
    store: Store = DEFAULT_STORE,
    agent: Agent = None,
    model: Model = None,
    base_url: BaseUrl = None,
    embedder: Embedder = None,
    json: Json = False,
) -> None:
    """Answer a question from memory (needs --model)."""
    with open_store(store, model, base_url, embedder, embeds=True) as memory:
        reply = memory.answer(question, user_id=user, agent_id=agent)
    if json:
        show.as_json(reply)
        return
    show.out.print(show.visible(reply.text))
    for record in reply.cited:
        show.out.print(f"  [dim]from[/] {show.visible(record.text)} [dim]({record.id})[/]")
    show.out.print(f"[dim]rate it: memkit feedback {reply.trace_id} --user … --label up|down[/]")


@app.command()
def feedback(
    trace_id: str,
    user: User,
    store: Store = DEFAULT_STORE,
    reward: Annotated[float | None, typer.Option("--reward", help="0 to 1.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="up or down.")] = None,
    expected: Annotated[str | None, typer.Option("--expected", help="What the answer should have been.")] = None,
    comment: Annotated[str | None, typer.Option("--comment")] = None,
    json: Json = False,
) -> None:
    """Rate what a search, context or answer led to."""
    with open_store(store) as memory:
        one = memory.feedback(trace_id, user_id=user, reward=reward, label=label, expected=expected, comment=comment)
    show.as_json({"feedback_id": one}) if json else show.out.print(f"noted as {one}")


@app.command(name="list")
def list_(
    user: User,
    store: Store = DEFAULT_STORE,
    agent: Agent = None,
    limit: Annotated[int, typer.Option("--limit")] = 100,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="fact, episode, lesson, turn or chunk; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """What is remembered of a user: facts, episodes and lessons."""
    with open_store(store) as memory:
        page = memory.list(user_id=user, agent_id=agent, limit=limit, kinds=cast(list[Kind] | None, kind))
    show.as_json({"memories": list(page), "cursor": page.cursor}) if json else show.memories(page)


@app.command()
def profile(user: User, store: Store = DEFAULT_STORE, agent: Agent = None, json: Json = False) -> None:
    """What always matters of a user: every context carries it."""
    with open_store(store) as memory:
        found = memory.profile(user_id=user, agent_id=agent)
    show.as_json({"memories": found}) if json else show.memories(found)


@app.command()
def pin(
    user: User,
    memory_id: Annotated[str, typer.Argument()],
    store: Store = DEFAULT_STORE,
    let_go: Annotated[bool, typer.Option("--let-go", help="Let it be found like any other again.")] = False,
    json: Json = False,
) -> None:
    """Have every context carry a memory."""
    with open_store(store) as memory:
        record = memory.pin(memory_id, user_id=user, pinned=not let_go)
    show.as_json(record) if json else show.memories([record])


@app.command()
def history(
    user: User,
    store: Store = DEFAULT_STORE,
    memory_id: Annotated[str | None, typer.Option("--memory", help="Only this memory.")] = None,
    json: Json = False,
) -> None:
    """Every operation, oldest first."""
    with open_store(store) as memory:
        ops = memory.history(user_id=user, memory_id=memory_id)
    show.as_json(ops) if json else show.history(ops)


@app.command()
def undo(
    user: User,
    store: Store = DEFAULT_STORE,
    op: Annotated[str | None, typer.Option("--op", help="An op id.")] = None,
    turn: Annotated[str | None, typer.Option("--turn", help="A turn id, or the trace id of an add.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="A sequence number, or an ISO-8601 time.")] = None,
    json: Json = False,
) -> None:
    """Take operations back; history keeps both."""
    back_to: Any = moment(since)  # the verb reads a time as text too, and says what is wrong with it
    with open_store(store) as memory:
        ops = memory.undo(user_id=user, op_id=op, turn_id=turn, since=back_to)
    show.as_json(ops) if json else show.history(ops, "undone")
    if not ops:
        raise typer.Exit(4)


@app.command()
def parked(
    store: Store = DEFAULT_STORE, user: Annotated[str | None, typer.Option("--user", "-u")] = None, json: Json = False
) -> None:
    """Turns that are kept but could not be decided."""
    with open_store(store) as memory:
        turns = memory.parked(user_id=user)
    if json:
        show.as_json(turns)
        return
    rows = [
        [p.trace_id, show.visible(p.user_id), show.visible(p.reason), show.visible(p.detail), str(p.attempts)]
        for p in turns
    ]
    show.table("", ["trace", "user", "reason", "detail", "tries"], rows)


@app.command()
def retry(
    store: Store = DEFAULT_STORE,
    user: Annotated[str | None, typer.Option("--user", "-u")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    embedder: Embedder = None,
    json: Json = False,
) -> None:
    """Decide parked turns again."""
    with open_store(store, model, base_url, embedder, embeds=True) as memory:
        count = memory.retry(user_id=user)
    show.as_json({"retried": count}) if json else show.out.print(f"{count} turns decided again")
    if not count:
        raise typer.Exit(4)


@app.command()
def erase(
    user: User,
    store: Store = DEFAULT_STORE,
    turn: Annotated[str | None, typer.Option("--turn", help="Only this turn, or `add` by its trace id.")] = None,
    memory_id: Annotated[str | None, typer.Option("--memory", help="Only this memory and its turns.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only this session.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Destroy everything of a user, or of a turn, memory or session, with all that was drawn from it, beyond undo."""
    named = next((f"{one!r} of {user!r}" for one in (turn, memory_id, session) if one is not None), repr(user))
    if not yes and not typer.confirm(f"Destroy every trace of {named}? This cannot be undone."):
        raise typer.Exit(4)
    with open_store(store) as memory:
        receipt = memory.erase(user_id=user, turn_id=turn, memory_id=memory_id, session_id=session)
    if json:
        show.as_json(receipt)
    else:
        show.table("erased", ["what", "count"], [[name, str(value)] for name, value in receipt.counts.items()])
    if not any(receipt.counts.values()):
        show.err.print(f"nothing of {user!r} was in the store: is that the id?", markup=False)
        raise typer.Exit(4)


@app.command()
def export(
    path: Path,
    store: Store = DEFAULT_STORE,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user.")] = None,
    json: Json = False,
) -> None:
    """Write the store (or one user) as JSON lines."""
    with open_store(store) as memory:
        count = memory.export(path, user_id=user)
    show.as_json({"records": count, "path": str(path)}) if json else show.out.print(f"{count} records → {path}")


@app.command(name="import")
def import_(
    path: Path,
    store: Store = DEFAULT_STORE,
    source: Annotated[str | None, typer.Option("--from", help="mem0, langgraph or jsonl; else our own export.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Whose memories are those that name nobody.")] = None,
    user_label: Annotated[
        int | None, typer.Option("--user-label", help="Which label of a LangGraph namespace; by default, the last.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check only.")] = False,
    drop_dangling: Annotated[
        bool, typer.Option("--drop-dangling", help="Leave out what refers to what the file does not hold.")
    ] = False,
    embedder: Annotated[
        str | None, typer.Option("--embedder", help="Of a new store, or to embed at once; else the app does, later.")
    ] = None,
    json: Json = False,
) -> None:
    """Read a file that `memkit export` wrote, or move in from another system with --from."""
    if source is not None and drop_dangling:
        raise InvalidInput(
            "--drop-dangling is for our own exports",
            why="the records of other systems do not refer to each other",
            fix="leave it out, or leave --from out",
        )
    if source is not None:
        moved: Any = importlib.import_module("memkit_migrate").run(
            source,
            str(path),
            str(store),
            user_id=user,
            user_label=-1 if user_label is None else user_label,
            dry_run=dry_run,
            embedder=embedder,
        )
        show.as_json(moved.to_dict()) if json else show.out.print("\n".join(map(show.visible, str(moved).splitlines())))
        raise typer.Exit(moved.code)
    if user is not None or user_label is not None:
        raise InvalidInput(
            "--user and --user-label need --from",
            why="our own export names the user of each record",
            fix="leave them out, or say with --from whose format it is: mem0, langgraph or jsonl",
        )
    if dry_run:
        found = portability.check(path, drop_dangling=drop_dangling)
    else:
        if not is_there(store):
            portability.check(path)  # a bad file begins no store
        with open_store(store, embedder=embedder, create=True) as memory:
            found = memory.import_(path, drop_dangling=drop_dangling)
    if json:
        dropped = {"dropped": found.dropped} if drop_dangling else {}
        show.as_json({"records": found} | dropped | ({"dry_run": True} if dry_run else {}))
    else:
        show.out.print(f"{found} records {'would be ' if dry_run else ''}read from {path}")
        for kind, count in found.dropped.items():
            show.out.print(f"left out: {count} of kind {kind}, which refer to what the file does not hold")
    if not found:
        raise typer.Exit(4)


@app.command()
def stats(store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Counts, sizes, what happens a day, and who decides."""
    with open_store(store) as memory:
        found = memory.stats()
    show.as_json(found) if json else show.table(
        "", ["what", "value"], [[k, show.visible(_value(v))] for k, v in found.items()]
    )


def _value(value: Any) -> str:
    return ", ".join(f"{k} {v:g}" for k, v in value.items()) if isinstance(value, dict) else str(value)


@app.command()
def doctor(
    store: Annotated[str, typer.Argument(help="Folder of the store, or postgresql://…")] = DEFAULT_STORE,
    repair: Annotated[bool, typer.Option("--repair", help="Rebuild LanceDB where it differs.")] = False,
    reembed: Annotated[bool, typer.Option("--reembed", help="Embed everything anew with --embedder.")] = False,
    keep_turns: Annotated[bool, typer.Option("--keep-turns", help="Make words of before 0.2 searchable.")] = False,
    embedder: Embedder = None,
    at: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Check journal and projection against each other."""
    store = at if store == DEFAULT_STORE else store
    there(store)
    if reembed:
        found = adopt_embedder(store, to_adopt(store, embedder))
    else:
        with open_store(store, embedder=embedder, embeds=repair or keep_turns) as memory:
            found = memory.doctor(repair=repair, keep_turns=keep_turns)
    open_ones = [problem for problem in found if not problem.repaired]
    if json:
        show.as_json(found)
    elif not found:
        show.out.print("[green]healthy[/]: journal and projection agree")
    else:
        rows = [[p.code, show.visible(p.what), "repaired" if p.repaired else show.visible(p.fix)] for p in found]
        show.table("", ["finding", "what", "next"], rows)
    raise typer.Exit(1 if open_ones else 0)


@app.command()
def log(
    user: User,
    store: Store = DEFAULT_STORE,
    trace: Annotated[str | None, typer.Option("--trace", help="Only what this add led to.")] = None,
    last: Annotated[int, typer.Option("--last", help="How many decisions.")] = 5,
    grep: Annotated[str, typer.Option("--grep", help="Only what says this.")] = "",
    asked: Annotated[bool, typer.Option("--asked", help="Searches, contexts and answers, with their thumbs.")] = False,
    json: Json = False,
) -> None:
    """The story of decisions: what was said, what was shown, what was decided, what came of it."""
    from memkit.cli import log as story

    if asked:
        raise typer.Exit(look.tell_asked(store, user, last, grep, json))
    with open_store(store) as memory:
        decisions = story.read(memory, user, trace, last, grep)
    if json:
        for decision in decisions:
            sys.stdout.write(to_json(decision) + "\n")
    else:
        story.tell(decisions)
    if not decisions:
        raise typer.Exit(4)


@app.command()
def demo(
    json: Json = False,
    keep: Annotated[Path | None, typer.Option("--keep", help="Keep the store in this folder.")] = None,
    tour: Annotated[bool, typer.Option("--tour", help="Only the part that needs no trainer.")] = False,
) -> None:
    """With the trainer installed, the whole circle: chat, log, retrain, swap in, measure (some minutes). Else, or with
    --tour: a conversation becomes memories; an update, an undo, a look back in time; one decision told."""
    from memkit.cli.demo import circle, run

    told = None if tour else circle()
    raise typer.Exit(run(keep, json) if told is None else told(keep, json=json))


arrange(app, PANELS)
