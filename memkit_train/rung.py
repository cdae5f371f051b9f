"""One rung of the ladder, from a configuration: rows in, an adapter out, with secrets planted for the gate to find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.adapters import Registry
from memkit.errors import NotFound
from memkit.models import JSON
from memkit_train import canaries, rowfile
from memkit_train.config import TrainConfig
from memkit_train.lora import LoraSpec
from memkit_train.report.folder import RunFolder, Tick
from memkit_train.rows import LabelledRow, PreferencePair, TextRow, TokenRow
from memkit_train.shapes import shaped
from memkit_train.tokenizing import tokenizer_of

if TYPE_CHECKING:
    from memkit_train.methods.run import AdapterResult

ROWS, REPLAY, ALTERNATIVES, AMENDS = "rows.jsonl", "replay.jsonl", "alternatives.jsonl", "amends.jsonl"


def train(
    config: TrainConfig, output: Path, rows: Sequence[TokenRow | TextRow], replay: Sequence[TokenRow | TextRow],
    parent: Path | None, *, replayed: Sequence[TokenRow] = (), run: RunFolder | None = None, tick: Tick | None = None,
    resume: bool = True, **more: Any,
) -> AdapterResult:  # fmt: skip
    """One rung from credited decisions, and from `replayed` ones in their place. `more` goes to the method's own
    configuration."""
    from memkit_train.methods import dpo, kto, offline, sft
    from memkit_train.report.progress import MetricsWriter

    method, name = config.method, config.method.name
    module, made = {
        "sft": (sft, sft.SftConfig), "kto": (kto, kto.KtoConfig), "dpo": (dpo, dpo.DpoConfig),
        "offline": (offline, offline.OfflineConfig),
    }[name]  # fmt: skip
    settings = made(
        output=output, resume=resume, seed=method.seed, save_steps=method.save_steps, report_to=method.report_to,
        lora=LoraSpec(r=method.lora_r, alpha=method.lora_alpha), dtype=config.model.dtype, device=config.model.device,
        gradient_checkpointing=method.gradient_checkpointing, **{**method.options(), **more},
    )  # fmt: skip
    taken = shaped(rows, name, replayed)
    secrets = canaries.plan(canaries.affordable(config.gate.canaries, len(taken)), method.seed)
    callbacks = [MetricsWriter(run, tick)] if run is not None else []
    extra = {"replay": replay} if name in ("sft", "offline") else {}
    result = module.train(
        taken, config.model.base, parent, settings, planted=planted(config, secrets), callbacks=callbacks, **extra
    )
    if run is not None:  # the gate asks for these alone: what was planned, but not trained on, nobody can recite
        run.record["canaries"] = int(result.metrics["rows/planted"])
        run.write()
    return result


def replay_alternatives(
    config: TrainConfig, run: RunFolder, parent: Path | None, *, most: int | None = None, tick: Tick | None = None
) -> None:
    """Other decisions, at the states that decided the probes and in the place of those that were blamed, into the run's
    folder, where the configuration asks for them."""
    users = (run.done("collect") or {}).get("subjects")  # whoever came later is not on the run's record
    if config.method.alternatives and run.done("alternatives") is None:
        from memkit_train.counterfactuals import replayed

        rows, found = replayed(config, parent, users=users, most=most, tick=tick)
        rowfile.save(run.path / ALTERNATIVES, rows)
        run.mark("alternatives", found)
    if config.method.amends and run.done("amends") is None:
        from memkit_train.amends import amended

        rows, found = amended(config, parent, users=users, most=most, tick=tick)
        rowfile.save(run.path / AMENDS, rows)
        run.mark("amends", found)


def material(run: RunFolder) -> dict[str, list[Any]]:
    """What a run trains on, as it was frozen in its folder: the arguments of `train`."""
    names = {"rows": (ROWS,), "replay": (REPLAY,), "replayed": (ALTERNATIVES, AMENDS)}
    return {
        key: [row for name in files if (run.path / name).is_file() for row in rowfile.load(run.path / name)]
        for key, files in names.items()
    }


def train_only(config: TrainConfig, run: RunFolder, tick: Tick | None = None, most: int | None = None) -> JSON:
    """One rung from the rows in the run's folder, without a verdict."""
    registry = Registry(registry_path(config))
    try:
        named = parent_of(registry, config)
        parent = None if named is None else registry.path(named)
        replay_alternatives(config, run, parent, most=most, tick=tick)
        result = train(config, run.path / "train", parent=parent, run=run, tick=tick, **material(run))
    finally:
        registry.close()
    return run.mark("train", trained(run, result))


def trained(run: RunFolder, result: AdapterResult) -> JSON:
    return {"adapter": str(result.path.relative_to(run.path)), "weights": result.digest, "steps": result.steps,
            "seconds": round(result.seconds, 2), "metrics": result.metrics}  # fmt: skip


def registry_path(config: TrainConfig) -> Path:
    if config.data.registry is not None:
        return config.data.registry
    return config.data.store / "adapters" if config.data.store is not None else config.output / "registry"


def parent_of(registry: Registry, config: TrainConfig) -> str | None:
    """Digest of the adapter to start from; None is the base model."""
    match config.model.parent:
        case "base":
            return None
        case "production":
            state = registry.alias(config.model.alias)
            served = {state.route(role).stable for role in config.data.roles}
            if len(served) > 1:
                raise NotFound(
                    f"{config.model.alias} serves different adapters in {', '.join(config.data.roles)}",
                    why="training starts from one", fix="name a digest, or base, as model.parent",
                )  # fmt: skip
            return served.pop()
        case named:
            return registry.find(named)


def planted(config: TrainConfig, secrets: Sequence[canaries.Canary]) -> list[Any]:
    """In the shape that the method takes. They are apart from its rows and from the replayed ones: no share and no
    weight says how often they come."""
    if not secrets:
        return []
    from memkit.backbones.hf.prompting import Prompter

    tokenizer = tokenizer_of(config.model.base)
    rows = canaries.plant(secrets, Prompter(tokenizer), tokenizer)
    match config.method.name:
        case "kto":
            return [LabelledRow(one.prompt_ids, one.completion_ids, True, ref=one.ref) for one in rows]
        case "dpo":
            nothing = (*tokenizer("NONE", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id)
            return [PreferencePair(one.prompt_ids, one.completion_ids, nothing, ref=one.ref) for one in rows]
        case _:
            return rows


def probe_pairs(rows: Sequence[TokenRow | TextRow], base: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(prompt ids, completion ids) of the first rows: what a probe is chosen from."""
    from memkit.backbones.hf.prompting import Prompter

    tokenizer = tokenizer_of(base)
    prompter, out = Prompter(tokenizer), list[tuple[tuple[int, ...], tuple[int, ...]]]()
    for row in rows[:128]:
        if isinstance(row, TokenRow):
            out.append((row.prompt_ids, row.completion_ids))
        else:
            reply = tokenizer(row.completion, add_special_tokens=False, split_special_tokens=True)["input_ids"]
            out.append((prompter.ids(row.messages), (*reply, tokenizer.eos_token_id)))
    return out
