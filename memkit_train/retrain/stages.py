"""From a configuration to an adapter: the good decisions that a run froze, and what mends the blamed ones, imitated;
with secrets planted for the gate to find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.adapters import Registry
from memkit.adapters.opening import FOLDER
from memkit.adapters.opening import open_registry as registry_of
from memkit.errors import NotFound
from memkit.inputs import is_url
from memkit.models import JSON
from memkit_train.files import rowfile
from memkit_train.files.run_folder import RunFolder, Tick
from memkit_train.gate import canaries
from memkit_train.learn.lora import LoraSpec
from memkit_train.learn.tokenizing import reader_of
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.rendered import list_imitated
from memkit_train.rows import AnyRow, TextRow, TokenRow, list_chosen, list_written

if TYPE_CHECKING:
    from memkit_train.learn.result import AdapterResult
    from memkit_train.learn.sft import SftConfig

ROWS, REPLAY, AMENDS = "rows.jsonl", "replay.jsonl", "amends.jsonl"


def settings(config: TrainConfig, output: Path | str) -> SftConfig:
    """The method's own defaults under what was set."""
    from memkit_train.learn.sft import SftConfig

    method, model = config.method, config.model
    return SftConfig(
        output=output,
        seed=method.seed,
        save_steps=method.save_steps,
        report_to=method.report_to,
        lora=LoraSpec(r=method.lora_r, alpha=method.lora_alpha),
        dtype=model.dtype,
        device=model.device,
        gradient_checkpointing=method.gradient_checkpointing,
        **method.options(),
    )


def train(
    config: TrainConfig,
    output: Path,
    rows: Sequence[AnyRow],
    replay: Sequence[AnyRow],
    parent: Path | None,
    *,
    amended: Sequence[TokenRow] = (),
    run: RunFolder | None = None,
    tick: Tick | None = None,
) -> AdapterResult:
    """`rows`: credited decisions, of which the good ones are imitated; `amended`: what stands for the blamed ones."""
    if config.model.is_small:
        from memkit_train.retrain.small import train_choices

        return train_choices(config, output, list_chosen(rows), list_chosen(replay), parent, run=run, tick=tick)
    from memkit_train.learn import sft
    from memkit_train.report.progress import MetricsWriter

    taken = [*list_imitated(list_written(rows), every=config.method.imitates_all), *amended]
    secrets = canaries.plan(canaries.affordable(config.gate.canaries, len(taken)), config.method.seed)
    result = sft.train(
        taken,
        config.model.base,
        parent,
        settings(config, output),
        replay=list_written(replay),
        planted=plant(config, secrets),
        callbacks=[MetricsWriter(run, tick)] if run is not None else [],
    )
    if run is not None:  # the gate asks for these alone: what was planned, but not trained on, nobody can recite
        run.record["canaries"] = int(result.metrics["rows/planted"])
        run.write()
    return result


def amend_blamed(
    config: TrainConfig, run: RunFolder, parent: Path | None, *, most: int | None = None, tick: Tick | None = None
) -> None:
    """Into the run's folder, where the configuration asks for it."""
    if config.method.amends and run.result_of("amends") is None:
        from memkit_train.retrain.amends import find_amends

        users = (run.result_of("collect") or {}).get("subjects")  # whoever came later is not on the run's record
        rows, found = find_amends(config, parent, users=users, most=most, tick=tick)
        rowfile.save(run.path / AMENDS, rows)
        run.mark("amends", found)


def material(run: RunFolder) -> dict[str, list[Any]]:
    """What a run trains on, as it was frozen in its folder: the arguments of `train`."""
    files = {"rows": run.path / ROWS, "replay": run.path / REPLAY, "amended": run.path / AMENDS}
    return {key: rowfile.load(file) if file.is_file() else [] for key, file in files.items()}


def describe_training(run: RunFolder, result: AdapterResult) -> JSON:
    return {
        "adapter": str(result.path.relative_to(run.path)),
        "weights": result.digest,
        "steps": result.steps,
        "seconds": round(result.seconds, 2),
        "metrics": result.metrics,
    }


def open_registry(config: TrainConfig) -> Registry:
    """Of the folder that is named, else the store's own."""
    data = config.data
    if data.registry is None and data.store is not None:
        return registry_of(data.store)
    return Registry(data.registry or config.output / "registry")


def has_registry(config: TrainConfig) -> bool:
    """Opening one makes its folder."""
    data = config.data
    if data.registry is None and is_url(data.store):
        return True
    beside = config.output / "registry" if data.store is None else Path(data.store) / FOLDER
    return (data.registry or beside).is_dir()


def parent_of(registry: Registry, config: TrainConfig) -> str | None:
    """Digest of the adapter to start from; None is the base model."""
    match config.model.parent:
        case "base" | "logged":
            return None
        case "production":
            state = registry.alias(config.model.alias)
            served = {state.route(role).stable for role in config.data.roles}
            if len(served) > 1:
                raise NotFound(
                    f"{config.model.alias} serves different adapters in {', '.join(config.data.roles)}",
                    why="training starts from one",
                    fix="name a digest, or base, as model.parent",
                )
            return served.pop()
        case named:
            return registry.find(named)


def plant(config: TrainConfig, secrets: Sequence[canaries.Canary]) -> list[TokenRow]:
    """Apart from the method's rows and from the replayed ones: no share and no weight says how often they come."""
    if not secrets:
        return []
    return canaries.plant(secrets, reader_of(config.model.base))


def probe_pairs(rows: Sequence[TokenRow | TextRow], base: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(prompt ids, completion ids) of the first rows: what a probe is chosen from."""
    from memkit_train.learn.texts import token_rows

    return [(row.prompt_ids, row.completion_ids) for row in token_rows(rows[:128], reader_of(base))]
