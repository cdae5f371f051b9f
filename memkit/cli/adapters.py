"""`memkit adapters …`: what serves, and changing it. No model is loaded here: the processes that serve pick a change up
within a second, load and probe the adapter, and take the promotion back if it fails."""

from __future__ import annotations

import getpass
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from memkit.adapters.opening import FOLDER, open_registry
from memkit.adapters.plan import AliasState
from memkit.adapters.registry import ANY, STATE, Expected, RegisteredAdapter, Registry
from memkit.cli import show
from memkit.cli.servers import DEFAULT_STORE, Store
from memkit.errors import AdapterError, InvalidInput, NotAStore
from memkit.inputs import is_url
from memkit.models import JSON

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="Adapters in service.")

NOTHING_TO_DO = 4
Digest = Annotated[str, typer.Argument(help="Digest of an adapter, or its first 6 characters or more.")]
MaybeDigest = Annotated[str | None, typer.Argument(help="Digest of an adapter, or its first 6 characters or more.")]
Alias = Annotated[str, typer.Option("--alias", "-a", help="The name that serves.")]
Roles = Annotated[list[str] | None, typer.Option("--role", help="Only this role of the adapter; may be repeated.")]
Note = Annotated[str, typer.Option("--note", help="Why; kept in the history.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Expect = Annotated[
    str | None, typer.Option("--expected", help='What the alias must have now: a version, a digest, or "base".')
]
Ungated = Annotated[bool, typer.Option("--ungated", help="Promote without passed gates. Recorded.")]
Tainted = Annotated[bool, typer.Option("--allow-tainted", help="Promote what learned from erased users.")]


@app.command("list")
def list_(store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Adapters, and what the aliases name."""
    with _registry(store) as registry:
        known, aliases = registry.list_known(), registry.aliases()
    if json:
        show.as_json({"adapters": [_known(one) for one in known], "aliases": [_alias(s) for s in aliases.values()]})
        return
    rows = [
        [
            one.digest[:12],
            one.kind,
            ", ".join(one.roles),
            ", ".join(one.aliases),
            _state(one),
            one.created_at[:16],
            (one.parent or "")[:12],
            f"{one.bytes / 1024:.0f} kB",
        ]
        for one in known
    ]
    show.table("", ["adapter", "kind", "roles", "aliases", "state", "created", "parent", "size"], rows)
    show.table(
        "", ["alias", "version", "role", "serves", "by", "at"], [row for s in aliases.values() for row in _rows(s)]
    )


@app.command("show")
def show_(digest: Digest, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Everything that is recorded of an adapter: its manifest, its gates, who promoted it and when."""
    with _registry(store) as registry:
        found = registry.find(digest)
        manifest = registry.manifest(found).model_dump(mode="json")
        history = [
            _alias(state) for name in registry.aliases() for state in registry.history(name) if found in state.digests
        ]
        taints = registry.taints(found)
    if json:
        show.as_json({"manifest": manifest, "history": history, "tainted": taints})
        return
    show.out.print(f"[bold]{found}[/]")
    for key in ("kind", "roles", "created_at", "base", "text", "retrieval", "data", "training", "evaluation", "notes"):
        if manifest[key]:
            show.out.print(f"  [cyan]{key:<11}[/]{show.visible(str(manifest[key]))}")
    for gate in manifest["gates"]:
        verdict = "[green]passed[/]" if gate["passed"] else "[red]failed[/]"
        show.out.print(f"  [cyan]gate[/]       {verdict} {show.visible(gate['name'])} {gate['value']} ({gate['bar']})")
    for state in history:
        how = f"{state['action']}{' UNGATED' if state['ungated'] else ''}"
        show.out.print(f"  [cyan]{state['alias']}[/] v{state['version']} {how} {state['at'][:16]} {state['actor']}")
    for subject in taints:
        show.out.print(f"  [red]learned from an erased user[/] {subject}")


@app.command()
def publish(
    folder: Annotated[Path, typer.Argument(help="Folder of an adapter, e.g. one of another registry.")],
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Take an adapter into the registry. It serves nobody until it is promoted."""
    with _registry(store) as registry:
        digest = registry.publish(folder)
    if json:
        show.as_json({"digest": digest})
    else:
        show.out.print(f"published {digest[:12]}")


@app.command()
def promote(
    digest: Digest,
    store: Store = DEFAULT_STORE,
    alias: Alias = "production",
    expected: Expect = None,
    role: Roles = None,
    ungated: Ungated = False,
    allow_tainted: Tainted = False,
    note: Note = "",
    json: Json = False,
) -> None:
    """Serve an adapter to everybody. Exit code 3: its gates are missing or failed."""
    _promote(digest, store, alias, expected, role, ungated, allow_tainted, note, json, share=None)


@app.command()
def canary(
    digest: MaybeDigest = None,
    store: Store = DEFAULT_STORE,
    alias: Alias = "production",
    share: Annotated[float, typer.Option(help="Share of users, 0 to 1.")] = 0.05,
    end: Annotated[bool, typer.Option("--end", help="Everybody gets the stable adapter again.")] = False,
    expected: Expect = None,
    role: Roles = None,
    ungated: Ungated = False,
    allow_tainted: Tainted = False,
    note: Note = "",
    json: Json = False,
) -> None:
    """Serve an adapter to a share of users, the same users every time."""
    from memkit.adapters.promotion import end_canary

    if not end:
        if digest is None:
            raise InvalidInput("which adapter?", fix="memkit adapters canary DIGEST --share 0.05, or --end")
        _promote(digest, store, alias, expected, role, ungated, allow_tainted, note, json, share=share)
        return
    with _registry(store) as registry:
        if not any(route.challengers for route in registry.alias(alias).routes.values()):
            _nothing(f"{alias} has no canary")
        _moved(end_canary(registry, alias, actor=_actor()).state, json)


@app.command()
def shadow(
    digest: MaybeDigest = None,
    store: Store = DEFAULT_STORE,
    alias: Alias = "production",
    share: Annotated[float, typer.Option(help="Share of turns, 0 to 1.")] = 0.1,
    end: Annotated[bool, typer.Option("--end", help="Stop shadowing.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Compare what both decided.")] = False,
    examples: Annotated[int, typer.Option(help="Disagreements to show.")] = 10,
    role: Roles = None,
    json: Json = False,
) -> None:
    """Let an adapter decide a share of turns for comparison. Nothing of it is applied."""
    from memkit.adapters import promotion

    with _registry(store) as registry:
        if report:
            _report(registry, alias, digest, examples, json)
            return
        if end and not any(route.shadow for route in registry.alias(alias).routes.values()):
            _nothing(f"{alias} has no shadow")
        if digest is None and not end:
            raise InvalidInput("which adapter?", fix="memkit adapters shadow DIGEST --share 0.1, --end or --report")
        chosen = None if end else digest
        _moved(promotion.shadow(registry, alias, chosen, share, roles=role, actor=_actor()).state, json)


@app.command()
def rollback(
    store: Store = DEFAULT_STORE,
    alias: Alias = "production",
    to: Annotated[int | None, typer.Option(help="Back to this version; by default, undo the last change.")] = None,
    expected: Expect = None,
    note: Note = "",
    json: Json = False,
) -> None:
    """Undo the last change of an alias. Exit code 4: there is none."""
    from memkit.adapters import promotion

    with _registry(store) as registry:
        try:
            state = promotion.rollback(
                registry, alias, to=to, expected=_expected(registry, expected), actor=_actor(), note=note
            )
        except AdapterError as error:
            if error.details.get("reason") == "no_previous":
                _nothing(error.what)
            raise
        _moved(state, json)


@app.command()
def gc(
    store: Store = DEFAULT_STORE,
    keep: Annotated[int, typer.Option(min=0, help="Generations per alias that rollback can return to.")] = 2,
    min_age_hours: Annotated[float, typer.Option(min=0, help="Younger adapters stay.")] = 24.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    json: Json = False,
) -> None:
    """Remove adapters that nothing names and no process has loaded. Exit code 4: there are none."""
    with _registry(store) as registry:
        report = registry.gc(keep=keep, min_age_s=min_age_hours * 3600, dry_run=dry_run)
    if json:
        show.as_json({"removed": report.removed, "kept": report.kept, "freed_bytes": report.freed_bytes})
    else:
        word = "would remove" if dry_run else "removed"
        show.out.print(f"{word} {len(report.removed)} adapters, {report.freed_bytes / 1024:.0f} kB")
        for digest, why in report.kept.items():
            show.out.print(f"  [dim]kept {digest[:12]}: {why}[/]")
    if not report.removed:
        raise typer.Exit(NOTHING_TO_DO)


@app.command()
def verify(digest: MaybeDigest = None, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Check files, hashes and tensors of one adapter, or of all. Exit code 1: one is damaged."""
    from memkit.adapters.verify import inspect

    results: list[JSON] = []
    with _registry(store) as registry:
        for name in registry.digests() if digest is None else [registry.find(digest)]:
            try:
                inspect(registry.path(name), expected=name)
                results.append({"digest": name, "ok": True})
            except AdapterError as error:
                results.append({"digest": name, "ok": False, "reason": error.details.get("reason"), "why": str(error)})
    if json:
        show.as_json(results)
    else:
        for one in results:
            verdict = "[green]ok[/]" if one["ok"] else f"[red]{one['reason']}[/] {show.visible(one['why'])}"
            show.out.print(f"{one['digest'][:12]}  {verdict}")
    if not results:
        raise typer.Exit(NOTHING_TO_DO)
    if not all(one["ok"] for one in results):
        raise typer.Exit(1)


def _promote(
    digest: str,
    store: str,
    alias: str,
    expected: str | None,
    roles: Sequence[str] | None,
    ungated: bool,
    allow_tainted: bool,
    note: str,
    json: bool,
    *,
    share: float | None,
) -> None:
    from memkit.adapters import promotion

    with _registry(store) as registry:
        report = promotion.promote(
            registry,
            alias,
            digest,
            expected=_expected(registry, expected),
            roles=roles,
            share=share,
            ungated=ungated,
            actor=_actor(),
            note=note,
            taints="warn" if allow_tainted else "refuse",
        )
        _moved(report.state, json)


def _report(registry: Registry, alias: str, digest: str | None, examples: int, json: bool) -> None:
    from memkit.adapters.shadow import SHADOW, ShadowLog, report

    wanted = None if digest is None else registry.find(digest)
    compared = ShadowLog(registry.root / SHADOW).read(alias=alias)
    reports = [one for one in report(compared, examples=examples) if wanted in (None, one.candidate)]
    if json:
        show.as_json([one.to_json() for one in reports])
    for one in [] if json else reports:
        show.out.print(
            f"[bold]{one.candidate[:12]}[/] {one.decisions} decisions: {one.agreement:.1%} agree, "
            f"{one.same_actions:.1%} same actions, {one.invalid:.1%} unusable"
        )
        rows = [
            [
                d.role,
                d.decision_id,
                show.visible("\n".join(d.live_ops)),
                show.visible(d.error or "\n".join(d.candidate_ops)),
            ]
            for d in one.disagreements
        ]
        show.table("", ["role", "decision", "served", "candidate"], rows)
    if not reports:
        _nothing("no shadow decision was recorded")


@contextmanager
def _registry(named: str) -> Generator[Registry]:
    """The store's registry; `--store` may name the registry's folder itself. Nothing is made where there is neither."""
    with closing(Registry(named) if (Path(named) / STATE).is_file() else _of_store(named)) as registry:
        yield registry


def _of_store(named: str) -> Registry:
    store = Path(named)
    if not is_url(named) and not (store / "memkit.json").is_file() and not (store / FOLDER / STATE).is_file():
        why = "it holds neither memkit.json nor adapters" if store.is_dir() else "the folder does not exist"
        raise NotAStore(f"there is no store at {store}", why=why, fix="name it with --store PATH")
    return open_registry(named)


def _expected(registry: Registry, text: str | None) -> Expected:
    if text is None:
        return ANY
    if text == "base":
        return None
    # isdigit takes "²" for a number, and int() does not
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else registry.find(text)


def _moved(state: AliasState, json: bool) -> None:
    if json:
        show.as_json(_alias(state))
    else:
        show.table("", ["alias", "version", "role", "serves", "by", "at"], _rows(state))


def _nothing(what: str) -> None:
    show.err.print(f"nothing to do: {show.visible(what)}")
    raise typer.Exit(NOTHING_TO_DO)


def _rows(state: AliasState) -> list[list[str]]:
    """One line per role."""
    rows: list[list[str]] = []
    for role, route in sorted(state.routes.items()):
        serves = [(route.stable or "base")[:12]]
        serves += [f"{(arm.digest or 'base')[:12]} to {arm.share:.1%} of users" for arm in route.challengers]
        if route.shadow:
            serves.append(f"shadow {route.shadow[:12]} on {route.shadow_share:.1%} of turns")
        by = show.visible(state.actor) + (" [red]ungated[/]" if state.ungated else "")
        rows.append([state.alias, str(state.version), role, "\n".join(serves), by, state.at[:16]])
    return rows


def _alias(state: AliasState) -> JSON:
    return {
        "alias": state.alias,
        "version": state.version,
        "action": state.action,
        "actor": state.actor,
        "at": state.at,
        "note": state.note,
        "ungated": state.ungated,
        "proved": state.proved,
        "back": state.back,
        "routes": {role: route.to_json() for role, route in state.routes.items()},
    }


def _known(one: RegisteredAdapter) -> JSON:
    return {
        "digest": one.digest,
        "kind": one.kind,
        "roles": one.roles,
        "created_at": one.created_at,
        "gated": one.gated,
        "parent": one.parent,
        "bytes": one.bytes,
        "aliases": one.aliases,
        "tainted": one.tainted,
        "damaged": one.damaged,
        "path": str(one.path),
    }


def _state(one: RegisteredAdapter) -> str:
    words = [f"[red]{one.damaged}[/]"] if one.damaged else ["gated" if one.gated else "[yellow]no gates[/]"]
    return ", ".join([*words, "[red]tainted[/]"] if one.tainted else words)


def _actor() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
