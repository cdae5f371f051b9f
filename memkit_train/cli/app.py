"""The commands. Each opens, calls one function, and prints; whatever decides is elsewhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from memkit.cli import show
from memkit.cli.panels import arrange
from memkit.errors import InvalidInput
from memkit_train.cli.common import DEFAULT_STORE, NOTHING, REFUSED, Json, Store, open_registry, open_source

app = typer.Typer(
    name="memkit-train",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="From production traces to a better adapter.",
)

ConfigFile = Annotated[Path | None, typer.Argument(help="YAML, TOML or JSON; may be left out where --set says all.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="section.key=value, over the file; may be repeated.")]
Resume = Annotated[bool, typer.Option("--resume/--no-resume", help="Go on from the last checkpoint, if there is one.")]
Smoke = Annotated[bool, typer.Option("--smoke", help="Try everything on a few rows; publishes nothing.")]


# -- look ----------------------------------------------------------------------------------------------------------


@app.command()
def inspect(
    store: Annotated[str, typer.Argument(help="Folder of a store, postgresql://…, or a bundle.")] = DEFAULT_STORE,
    model: Annotated[str | None, typer.Option(help="Decode samples with this checkpoint's tokenizer.")] = None,
    json: Json = False,
    at: Store = DEFAULT_STORE,
) -> None:
    """What a log is good for: counts, labels, credit, probes, what each role can learn, three samples in colour."""
    from memkit.embedders import make_embedder
    from memkit_train.credit.inspect import inspect as look
    from memkit_train.credit.inspect import show as display
    from memkit_train.retrain.rendered import count_taught

    with open_source(at if store == DEFAULT_STORE else store) as source:
        found = look(source)
        taught = count_taught(source, make_embedder("hash"))
    if json:
        show.as_json(found.to_json() | {"teaches": taught})
        return
    display(found, show.out, _decoder(model))
    left_out = taught.pop("left_out")
    show.out.print("teaches " + ", ".join(f"{role} {count}" for role, count in taught.items()), markup=False)
    if left_out:
        show.out.print("left out " + ", ".join(f"{why} ({count})" for why, count in left_out.items()), markup=False)


@app.command()
def plan(config: ConfigFile = None, sets: Sets = None, json: Json = False) -> None:
    """A run before it runs: steps, tokens, memory, time, and whether model, template and log fit. Needs no GPU."""
    from memkit_train.retrain.config import dump
    from memkit_train.retrain.plan import plan as make

    chosen = _config(config, sets)
    found = make(chosen)
    if json:
        show.as_json(found.to_json())
    else:
        show.out.print(dump(chosen).rstrip(), markup=False)
        show.table(
            "",
            ["", ""],
            [
                ["data", ", ".join(f"{value} {name}" for name, value in found.data.items())],
                ["steps", f"{found.steps}, {found.tokens} tokens, the loss on {found.trained_tokens} of them"],
                ["longest row", f"{found.longest} tokens"],
                ["model", f"{found.parameters:,} parameters, {found.adapter_parameters:,} in the adapter"],
                ["memory", f"about {found.memory_gb:g} GB"],
                ["time", f"about {found.minutes:g} min on {found.device}"],
            ],
        )
        for one in found.findings:
            colour = "red" if one.level == "error" else "yellow"
            next_step = f" Next: {show.visible(one.fix)}." if one.fix else ""
            show.out.print(f"[{colour}]{one.level}[/] {show.visible(one.what)}.{next_step}")
    if not found.ok:
        raise typer.Exit(2)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="Digest of an adapter (or its beginning), base, or production.")],
    b: Annotated[str, typer.Argument(help="The other one.")],
    model: Annotated[str, typer.Option(help="Base checkpoint: folder or hub id.")],
    store: Store = DEFAULT_STORE,
    registry: Annotated[Path | None, typer.Option(help="Where the adapters are; the store's own by default.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="States to look at.")] = 100,
    examples: Annotated[int, typer.Option(min=0, help="Differences to show.")] = 20,
    mode: Annotated[str | None, typer.Option(help="split or fused; as the log was decided by default.")] = None,
    embedder: Annotated[str, typer.Option()] = "hash",
    seed: int = 0,
    json: Json = False,
) -> None:
    """What would adapter B have decided where A decided? A readable diff over logged states."""
    from memkit.backbones.hf import HFBackbone
    from memkit.embedders import make_embedder
    from memkit_train.cli.progress import progress
    from memkit_train.gate.compare import compare as weigh
    from memkit_train.gate.compare import diff, states_of
    from memkit_train.replay import Env, Policy

    if mode not in (None, "split", "fused"):
        raise InvalidInput(f"no mode {mode!r}", why="a turn is decided in one of two", fix="use split or fused")
    with open_source(store) as source:
        served = source.served_with
        env = Env(make_embedder(embedder), replace(served, mode=mode or served.mode))
        states = states_of(source, env, limit=limit, seed=seed)
    if not states:
        _nothing("the log holds no decided turn")
    known = open_registry(registry, store)
    try:
        with HFBackbone(model, threads=1) as backbone, progress(json) as tick:
            policies = [Policy(backbone, _loaded(backbone, known, name), name=name) for name in (a, b)]
            each = None if tick is None else lambda done, total: tick("compare", done, total, {})
            found = weigh(states, policies[0], policies[1], env, progress=each)
    finally:
        known.close()
    if json:
        show.as_json(found.to_json())
        return
    for line in diff(found, limit=examples):
        colour = {"-": "red", "+": "green", "@": "cyan"}.get(line.lstrip()[:1], "")
        text = show.visible(line)
        show.out.print(f"[{colour}]{text}[/]" if colour else text)


# -- train ---------------------------------------------------------------------------------------------------------


@app.command()
def sft(
    config: ConfigFile = None, sets: Sets = None, resume: Resume = True, smoke: Smoke = False, json: Json = False
) -> None:
    """Imitate the logged decisions that turned out well, without a verdict. `retrain` does the whole of it."""
    from memkit_train.cli.progress import progress
    from memkit_train.retrain.run import imitate

    chosen = _config(config, [*(sets or ()), "method.name=sft"])
    with progress(json) as tick:
        run, made = imitate(chosen, resume=resume, smoke=smoke, tick=tick)
    if json:
        show.as_json({"run": str(run.path), **made})
    else:
        show.out.print(f"trained {show.visible(str(run.path / made['adapter']))} in {made['steps']} steps")


@app.command()
def retrain(
    config: ConfigFile = None,
    sets: Sets = None,
    resume: Resume = True,
    smoke: Smoke = False,
    force: Annotated[bool, typer.Option("--force", help="Even with too few new labels.")] = False,
    json: Json = False,
) -> None:
    """Collect, train, evaluate, gate, publish. Exit codes: 0 published, 3 gate refused, 4 nothing to do."""
    from memkit_train.cli.progress import progress
    from memkit_train.retrain.run import retrain as run

    chosen = _config(config, sets)
    with progress(json) as tick:
        done = run(chosen, resume=resume, force=force, smoke=smoke, tick=tick)
    _tell(done, json=json)


@app.command()
def gate(
    adapter: Annotated[str, typer.Argument(help="Digest, its beginning, or a folder with an adapter.")],
    config: ConfigFile = None,
    sets: Sets = None,
    json: Json = False,
) -> None:
    """Judge an adapter against the parent on held-out users, without training. Exit code 3: refused."""
    from memkit_train.cli.progress import progress
    from memkit_train.retrain.run import judge

    chosen = _config(config, sets)
    with progress(json) as tick:
        verdict = judge(chosen, adapter, tick=tick)
    if json:
        show.as_json(verdict.to_json())
    else:
        _verdict(verdict)
    raise typer.Exit(0 if verdict.passed else REFUSED)


@app.command()
def adopt(
    adapter: Annotated[Path, typer.Argument(help="Folder of a LoRA, as PEFT saves it.")],
    config: ConfigFile = None,
    sets: Sets = None,
    json: Json = False,
) -> None:
    """Gate an adapter that was trained elsewhere, and publish it. Exit codes: 0 published, 3 gate refused."""
    from memkit_train.cli.progress import progress
    from memkit_train.retrain.run import adopt as run

    chosen = _config(config, sets)
    with progress(json) as tick:
        done = run(chosen, adapter, tick=tick)
    _tell(done, json=json)


@app.command()
def ranker(
    store: Store = DEFAULT_STORE,
    registry: Annotated[Path | None, typer.Option(help="Where it is published; the store's own by default.")] = None,
    heldout_share: Annotated[float, typer.Option(min=0.0, max=0.9)] = 0.3,
    seed: int = 0,
    embedder: Annotated[str, typer.Option()] = "hash",
    json: Json = False,
) -> None:
    """Learn the retrieval weights from what answers cited. Exit code 3: not shown to be better on other users."""
    from memkit_train.log.splits import Split
    from memkit_train.ranker.learn import learn

    with open_source(store) as source:
        home = open_registry(registry, store)  # only now: it makes its folder
        try:
            found = learn(
                source, home, split=Split(seed, heldout_share), now=datetime.now(UTC), seed=seed, embedder=embedder
            )
        finally:
            home.close()
    if json:
        show.as_json(found.to_json())
    else:
        show.out.print(show.visible(found.judged.reason))
        if found.digest:
            show.out.print(f"  serve it: memkit adapters promote {found.digest[:12]}")
    raise typer.Exit(0 if found.digest else REFUSED)


# -- afterwards ----------------------------------------------------------------------------------------------------


@app.command()
def report(run: Annotated[Path, typer.Argument(help="Folder of a run.")], json: Json = False) -> None:
    """Write a run's report.html and model card again, from its own record."""
    from memkit_train.report import RunFolder, write_report

    if not (run / "run.json").is_file():
        raise InvalidInput(f"{run} is no run", why="it has no run.json", fix="name a folder below runs/ of an output")
    folder = RunFolder(run)
    write_report(folder)
    if json:
        show.as_json(folder.record)
    else:
        show.out.print(show.visible(str(run / "report.html")))


@app.command()
def doctor(
    store: Annotated[str | None, typer.Option("--store", "-s", help="Also look at this store, or bundle.")] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Also train, judge and serve a tiny model, a step at a time.")
    ] = False,
    device: Annotated[str, typer.Option(help="With --gpu: cuda, or cpu for the same steps without one.")] = "cuda",
    json: Json = False,
) -> None:
    """Is this machine fit to train? Packages, GPU, memory, disk; and whether a store can be read. Exit code 1: no."""
    import tempfile

    from memkit_train.retrain.doctor import examine

    found = examine(store, open_source)
    if gpu and all(one.ok is not False for one in found):
        from memkit_train.lab.demo.rehearsal import rehearse

        with tempfile.TemporaryDirectory() as room:
            found += rehearse(device, Path(room))
    if json:
        show.as_json([{"name": one.name, "ok": one.ok, "what": one.what, "fix": one.fix} for one in found])
    else:
        marks = {True: "[green]ok[/]", False: "[red]no[/]", None: "[yellow]--[/]"}
        show.table("", ["", "", "", ""], [[marks[o.ok], o.name, show.visible(o.what), o.fix] for o in found])
    raise typer.Exit(1 if any(one.ok is False for one in found) else 0)


# -- shared --------------------------------------------------------------------------------------------------------


def _config(path: Path | None, sets: list[str] | None) -> Any:
    from memkit_train.retrain.config import load

    return load(path, sets or ())


def _decoder(model: str | None) -> Any:
    if model is None:
        return None
    from memkit_train.learn.tokenizing import tokenizer_of

    return tokenizer_of(model).decode


def _loaded(backbone: Any, registry: Any, name: str) -> str | None:
    """The name that the backbone serves it under; None is the base."""
    if name == "base":
        return None
    digest = registry.alias(name).route("manager").stable if name == "production" else registry.find(name)
    if digest is not None:
        backbone.load_adapter(digest, registry.path(digest))
    return digest


def _tell(done: Any, *, json: bool) -> None:
    """What a run came to; exits with its code."""
    if json:
        show.as_json(done.to_json())
    else:
        if done.verdict is not None:
            _verdict(done.verdict)
        show.out.print(f"[bold]{done.status}[/]: {show.visible(done.why)}")
        if done.digest:
            show.out.print(f"  serve it: memkit adapters promote {done.digest[:12]}")
        if done.run is not None:
            show.out.print(f"  report: {show.visible(str(done.run / 'report.html'))}")
    raise typer.Exit(done.exit_code)


def _verdict(verdict: Any) -> None:
    marks = {True: "[green]passed[/]", False: "[red]refused[/]", None: "[dim]not judged[/]"}
    rows = [[one.name, marks[one.passed], show.visible(one.why), one.bar] for one in verdict.checks]
    show.table("", ["gate", "", "measured", "bar"], rows)


def _nothing(what: str) -> None:
    show.err.print(f"nothing to do: {show.visible(what)}")
    raise typer.Exit(NOTHING)


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option("--keep", help="Keep store, run and report.html in this folder.")] = None,
    seed: Annotated[int, typer.Option(help="Of the simulated users and of training.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Tell the story so often, with seeds from 0.")] = 1,
    json: Json = False,
) -> None:
    """Chat, log, retrain, swap in, measure: the whole circle on a support desk. Exit code 3: the gate refused."""
    from memkit_train.lab.demo import command

    if seeds > 1:
        if keep is None:
            raise InvalidInput("--seeds needs --keep", why="every story gets a folder", fix="name one with --keep")
        raise typer.Exit(command.seeds(keep, seeds, json=json))
    raise typer.Exit(command.run(keep, json=json, seed=seed))


def _mount() -> None:
    """Commands of other files: `eval` and `judge-agreement` over data sets, exports, bundles."""
    from memkit_train.cli import carry, online
    from memkit_train.evaluate.command import command, judge_agreement

    app.command("eval")(command)
    app.command("judge-agreement")(judge_agreement)
    app.command()(carry.export)
    app.command()(carry.bundle)
    app.command()(carry.unbundle)
    for command_ in (online.grpo, online.ppo, online.logo):
        app.command()(command_)


_mount()
arrange(
    app,
    {
        "Look": "demo inspect plan doctor",
        "Retrain": "retrain sft gate adopt compare ranker report",
        "Reinforcement learning": "grpo ppo logo",
        "Evaluate": "eval judge-agreement",
        "Out and back in": "export bundle unbundle",
    },
)
