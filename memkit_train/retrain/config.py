"""One file says what a run does: YAML, TOML or JSON, with strict keys. What is printed is the resolved form, defaults
included, so that a run can be repeated from its own record.

    data:   {store: ./memory}
    model:  {base: Qwen/Qwen2.5-3B-Instruct}
    method: {name: sft}
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from memkit.errors import InvalidConfig
from memkit.inputs import store_of
from memkit.models import JSON
from memkit_train.gate.checks import Limits
from memkit_train.retrain.gone import refuse_gone
from memkit_train.rl.settings import OnlineSettings, Section

TrainedRole = Literal["extractor", "manager", "answerer", "fused"]
Share = Annotated[float, Field(ge=0, lt=1)]


class DataConfig(Section):
    store: Annotated[str | Path | None, AfterValidator(lambda given: given and store_of(given))] = None
    """Folder of a memkit store, or postgresql://… …"""
    bundle: Path | None = None
    """… or of a bundle of one …"""
    world: str | None = None
    """… or, for online training, a generated world: `closed,count=64,seed=1,sessions=8,probes=8`."""
    registry: Path | None = None
    """Folder where adapters are published. None: the store's own, or `registry` in the output folder for a bundle."""
    roles: Annotated[tuple[TrainedRole, ...], Field(min_length=1)] = ("extractor", "manager")
    heldout_share: Share = 0.2
    split_seed: int = 0
    """Keep it: a user's side of the split depends on it."""
    validation_share: Share = 0.2
    """Of the users that are not held out: on them reinforcement learning chooses its checkpoint. Imitation alone sets
    nobody aside."""
    min_labels: Annotated[int, Field(ge=1)] = 50
    """New labels since the last run that make another one worth it."""
    embedder: str = "hash"
    mode: Literal["split", "fused"] | None = None
    """None: the one in which `roles` are asked; of roles of both, or of neither, the one of the log."""
    instructions: str | None = None
    """What the app tells its models to remember. None: as the log says."""

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if sum(one is not None for one in (self.store, self.bundle, self.world)) != 1:
            raise ValueError("name either `store` or `bundle` (or `world`, for online training)")
        return self

    @property
    def path(self) -> str | Path:
        found = self.store or self.bundle
        if found is None:
            raise InvalidConfig(
                "this command reads a log, and data names a generated world",
                fix="set data.store or data.bundle; a world is for grpo, ppo and logo",
            )
        return found


class ModelConfig(Section):
    base: str
    """Folder or hub id of the base checkpoint, or `small`: the manager that chooses."""
    parent: str = "production"
    """What training starts from and is compared with: production (whatever the alias serves), base, or a digest; or
    logged, which starts from the base and compares with what the log says was decided, by whichever model."""
    alias: str = "production"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    answerer: str | None = None
    """Frozen model that answers probes: `hf:…`, `openai:NAME`. None: the base without an adapter; for `small`, which
    writes no answers, what a read finds is judged itself."""

    @property
    def is_small(self) -> bool:
        return self.base == "small"


class MethodConfig(Section):
    name: Literal["sft", "distil"] = "sft"
    """sft: the decisions that a label calls good. distil: all that a hosted model or a function decided, but for those
    that turned out badly; those that turned out well count up to twice as much. Needs no labels."""
    amends: Annotated[int, Field(ge=0, le=64)] = 0
    """Samples that are drawn of each blamed decision, to find one that mends the answer, and to learn that beside the
    log. 0: the log alone. For short answers: what an app worded itself the frozen answerer will not say again,
    and then the decision is acquitted."""
    polish: bool = False
    """After imitation, reinforcement learning from replayed states of the same log, as the `online` section says."""
    lr: Annotated[float, Field(gt=0)] | None = None
    """None: by the size of the model: 1e-3 below 50M parameters, 2e-4 below 3B, 1e-4 above."""
    warmup: Share | None = None
    """Share of the steps over which the rate rises. None: 0.03 from 50M parameters on, else 0."""
    epochs: Annotated[int, Field(ge=1)] | None = None
    """None: three."""
    batch: Annotated[int, Field(ge=1)] | None = None
    micro_batch: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    replay_share: Share | None = None
    """Of the rows that are drawn, how many are replayed guard rows (duplicates, chit-chat). These weigh 0.3, and
    weights come on top: at 0.1 about 3 % of what is trained on; `rows/replayed` counts them."""
    half_life_days: Annotated[float, Field(gt=0)] | None = None
    lora_r: Annotated[int, Field(ge=1, le=512)] = 16
    lora_alpha: Annotated[int, Field(ge=1)] = 32
    gradient_checkpointing: bool = False
    seed: int = 0
    save_steps: Annotated[int, Field(ge=0)] = 50
    report_to: str = "none"
    """none, trackio, wandb, tensorboard, …: passed through to transformers."""

    @property
    def imitates_all(self) -> bool:
        """Also what nobody rated."""
        return self.name == "distil"

    def options(self) -> dict[str, Any]:
        """What was set, for the method's own configuration."""
        names = ("lr", "warmup", "epochs", "batch", "micro_batch", "max_tokens", "replay_share", "half_life_days")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class GateConfig(Section):
    """ε of the guards and the least sample; see memkit_train.gate.checks."""

    target: Literal["answer_f1", "answer_em", "answer_right", "found"] | None = None
    """What must get better: None is `answer_f1`, the words in common with what is expected. `answer_right` asks whether
    it is said, in however many words, and suits apps whose answers are sentences. For `small` without an answerer it is
    `found`: how early a read has what the right answer says."""
    margin: Annotated[float, Field(ge=0, lt=1)] | None = None
    """By how much the target may be worse. None: 0, or 0.05 where the parent is `logged`."""
    min_probes: Annotated[int, Field(ge=0)] = 200
    min_users: Annotated[int, Field(ge=0)] = 30
    min_set: Annotated[int, Field(ge=1)] = 30
    format: float = 0.01
    deletions: float = 0.15
    growth: float = 0.10
    junk: float = 0.05
    parked: float = 0.02
    tokens: float | None = None
    """None: 0.25, or not judged for `small`, which writes no words of its own: `growth` judges what it keeps."""
    work: float = 0.5
    calls: float = 0.25
    update: float = 0.10
    abstain: float = 0.10
    memorisation: float = 0.5
    canaries: Annotated[int, Field(ge=0, le=32)] = 16
    """Invented secrets that are planted among the rows, at most one to 250, once each in every epoch; 0: memorisation
    is not judged."""
    alternatives: Annotated[int, Field(ge=10, le=100_000)] = 1_000

    def limits(self) -> Limits:
        return Limits(**self.model_dump(exclude={"canaries", "alternatives"}, exclude_none=True))


class TrainConfig(Section):
    data: DataConfig
    model: ModelConfig
    method: MethodConfig = MethodConfig()
    gate: GateConfig = GateConfig()
    online: OnlineSettings = OnlineSettings()
    """For grpo, ppo and logo."""
    output: Path = Path("memkit-runs")
    """Gets one folder per run, the watermark and the lock."""

    @property
    def target(self) -> str:
        """What the gate asks to get better."""
        return self.gate.target or ("found" if self.model.is_small and self.model.answerer is None else "answer_f1")

    @property
    def limits(self) -> Limits:
        margin = self.gate.margin if self.gate.margin is not None else 0.05 * (self.model.parent == "logged")
        found = replace(self.gate.limits(), target=self.target, margin=margin)
        return replace(found, tokens=None) if self.model.is_small and self.gate.tokens is None else found

    @property
    def polishing(self) -> OnlineSettings:
        """`online` for a polish, which goes on with the roles that imitation trained."""
        return OnlineSettings.model_validate({**self.online.model_dump(exclude_unset=True), "roles": self.data.roles})

    @model_validator(mode="after")
    def _of_small(self) -> TrainConfig:
        if not self.model.is_small:
            return self
        if self.method.amends or self.method.polish:
            raise ValueError("method.amends and method.polish write replies; small chooses: leave them out")
        if not set(self.data.roles) <= {"extractor", "manager"}:
            raise ValueError("small decides as extractor and manager: name these in data.roles")
        return self

    @model_validator(mode="after")
    def _polishable(self) -> TrainConfig:
        if self.method.polish:
            _ = self.polishing
            if self.online.engine == "tinker":
                raise ValueError("method.polish goes on from an adapter of this machine; engine: tinker cannot")
        return self

    @model_validator(mode="after")
    def _amendable(self) -> TrainConfig:
        if self.method.amends and ("manager" not in self.data.roles or self.data.mode == "fused"):
            raise ValueError("method.amends takes decisions of the manager again: name it in data.roles, in split mode")
        return self

    def resolve(self) -> JSON:
        return self.model_dump(mode="json")


def load(path: Path | None, overrides: Sequence[str] = ()) -> TrainConfig:
    """A file, or nothing, under `section.key=value` overrides. Unknown keys are errors, and name what there is."""
    raw: dict[str, Any] = {} if path is None else _read(path)
    for one in overrides:
        _override(raw, one)
    refuse_gone(raw)
    try:
        return TrainConfig.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the configuration"
        raise InvalidConfig(
            f"{place}: {first['msg'].removeprefix('Value error, ').lower()}",
            why=f"in {path}" if path is not None else "from the command line",
            fix=_known(place) or "correct it; `memkit-train plan` prints the resolved form",
        ) from None


def dump(config: TrainConfig) -> str:
    """The resolved form as YAML."""
    import yaml

    return yaml.safe_dump(config.resolve(), sort_keys=False, allow_unicode=True)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InvalidConfig(f"there is no configuration file {path}", fix="name an existing .yaml, .toml or .json file")
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            raw: Any = tomllib.loads(text)
        elif path.suffix == ".json":
            raw = json.loads(text)
        else:
            raw = _yaml(text)
    except ValueError as error:
        raise InvalidConfig(f"{path} cannot be read", why=str(error)[:300], fix="correct its syntax") from error
    if not isinstance(raw, dict):
        raise InvalidConfig(f"{path} holds no keys", fix="begin with `data:` and `model:`")
    return raw


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _override(raw: dict[str, Any], one: str) -> None:
    name, found, value = one.partition("=")
    if not found or not name:
        raise InvalidConfig(f"--set {one!r} is not understood", fix="write section.key=value, e.g. method.lr=1e-4")
    *path, last = name.split(".")
    for part in path:
        inner = raw.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InvalidConfig(f"--set {one!r}: {part} is not a section", fix="write section.key=value")
        raw = inner
    try:
        raw[last] = _scalar(value)
    except ValueError as error:
        raise InvalidConfig(
            f"--set {one!r} is not understood",
            why=" ".join(str(error).split())[:300],
            fix="the value is read as YAML: close its brackets, or quote it",
        ) from None


def _scalar(text: str) -> Any:
    """As YAML reads it; also `1e-4`, which YAML 1.1 takes for text."""
    value = _yaml(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _known(place: str) -> str:
    section: Any = TrainConfig
    *path, _ = place.split(".")
    fields: Mapping[str, Any] = section.model_fields
    for part in path:
        inner = fields.get(part)
        annotation = getattr(inner, "annotation", None)
        if not isinstance(annotation, type) or not issubclass(annotation, BaseModel):
            return ""
        fields = annotation.model_fields
    return f"the keys there are {', '.join(fields)}"
