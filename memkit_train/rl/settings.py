"""The `online:` section of a configuration: what reinforcement learning does, and when it stops. Light: no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Algorithm = Literal["grpo", "ppo", "logo"]
Learned = Literal["decisions", "answers", "episodes"]
Engine = Literal["memkit", "trl", "tinker"]
Role = Literal["extractor", "manager", "answerer", "fused"]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RewardSettings(Section):
    """A weighted sum of named parts; each is logged by itself."""

    metric: Literal["f1", "em"] = "f1"
    answerer: str = "base"
    """Frozen model that answers from the changed bank: base (the checkpoint without an adapter), `hf:…`, `openai:NAME`,
    or `exact`, which understands every sentence of a generated world, is shown what others are, and costs little."""
    horizon: Literal["immediate", "played"] = "immediate"
    """Decisions: ask the bank right after the decision, or play on (greedily) to where the question was asked."""
    growth: Annotated[float, Field(ge=0)] = 0.05
    """Taken off per memory that a decision adds. A good reader answers as well from a fact added beside the old one as
    from the old one updated, so without a cost a policy learns to add everything. How much it may be hangs on how much
    is asked: in a world that asks about everything 0.15 teaches to update; from a log, where most of what is known is
    never asked about, the same 0.15 taught to write new facts over old ones."""
    validity: Annotated[float, Field(ge=0)] = 0.1
    """For a reply in the format that breaks no rule."""
    budget: Annotated[float, Field(ge=0)] = 0.0
    """Episodes: weight of Memory-R2's linear excess over `alpha` words kept per word said."""
    alpha: Annotated[float, Field(gt=0)] = 0.7
    citations: Annotated[float, Field(ge=0)] = 0.1
    """Answers: weight of the F1 of cited memories' source turns, where the question's own are known."""


class Stage(Section):
    """A part of the curriculum."""

    sessions: Positive | None = None
    """Conversations up to this many sessions; None: as they are."""
    steps: Positive = 40
    trained: tuple[Role, ...] | None = None
    """Roles that learn in this stage; None: all that the adapter answers in. Train the manager before both."""


class StopSettings(Section):
    """When a run ends before its steps do."""

    every: Positive = 10
    """Steps between validations."""
    users: Positive = 16
    patience: Positive = 4
    """Validations without a new best."""
    m_fail: Annotated[float, Field(gt=0)] = 0.10
    """Gate between stages: share of evidence turns that no memory carries any more."""
    one_op: Share = 0.97
    """Alarm: one kind of operation is this share of all (and was not at the start)."""
    memories: Share = 0.3
    """Alarm: memories per scene fall below this share of the start's."""
    length: Annotated[float, Field(gt=1)] = 3.0
    """Alarm: replies this many times as long as at the start."""
    validity: Share = 0.8
    """Alarm: share of replies that keep the format without the mask, relative to the start."""
    entropy: Share = 0.02
    """Alarm: surprise per token falls below this share of the start's."""


class TinkerSettings(Section):
    """For engine tinker. Where the service is and its key are read from the environment alone: TINKER_BASE_URL (none:
    the hosted service) and TINKER_API_KEY."""

    base_model: str | None = None
    """What the service calls `model.base`; None: the same."""
    timeout: Annotated[float, Field(gt=0)] = 1800.0
    """Seconds without an answer after which the run ends; services queue while they are full."""


SAID_ELSEWHERE = {
    "learning_rate": "online.lr",
    "lr_scheduler_type": "online.schedule",
    "num_generations": "online.group",
    "num_iterations": "online.iterations",
    "max_steps": "online.stages",
    "save_steps": "online.stop.every",
    "seed": "method.seed",
    "gradient_checkpointing": "method.gradient_checkpointing",
    "report_to": "method.report_to",
    "use_cpu": "model.device",
    "output_dir": "output",
}
"""What TRL calls what a configuration says in its own words."""


class OnlineSettings(Section):
    algorithm: Algorithm = "grpo"
    engine: Engine = "memkit"
    """Who samples and steps. memkit: this process, with the runtime's own backbone. trl: TRL's GRPOTrainer, for vLLM
    and for models that one GPU does not hold; grpo on decisions of one role."""
    trl: dict[str, Any] = Field(default_factory=dict[str, Any])
    """For engine trl: handed to GRPOConfig as it is, e.g. {use_vllm: true, vllm_mode: server}."""
    tinker: TinkerSettings = TinkerSettings()
    learn: Learned = "decisions"
    """decisions: one scene from many states. answers: the answerer, from banks of played conversations. episodes: whole
    conversations (for logo, or grpo with one scalar for each)."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ("manager",)
    """Roles that the adapter answers in."""
    others: str = "base"
    """Frozen model of the other roles (extractor, …): base, `hf:…`, `openai:NAME`, or `world`, which hears every
    sentence of a generated world rightly. The usual split: the app's own LLM extracts, the adapter manages."""
    rollouts: str | None = None
    """URL of a vLLM server of the base that replies are sampled on, e.g. http://127.0.0.1:8000; it must see the run's
    folder. None: in this process."""
    lr: Annotated[float, Field(gt=0)] | None = None
    """None: by the size of the model: 1e-3 below 50M parameters, 2e-5 below 3B, 1e-5 above, these with a warm-up."""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    group: Annotated[int, Field(ge=2)] = 8
    """Alternatives of one state, or episodes of one conversation. ppo: one decision from each of more states."""
    states: Positive = 16
    """Decisions and answers: states in a step."""
    guard_share: Share = 0.25
    """Share of the states where no question turns on the decision: it may still destroy, or store junk."""
    questions: Positive = 3
    """Asked of each alternative at most."""
    talks: Positive = 16
    """Conversations played for states at each refresh; in a step, for episodes."""
    refresh: Positive = 10
    """Steps until the states are played anew by the policy of that moment."""
    iterations: Positive = 1
    """Optimiser steps on the same rows."""
    p_local: Share = 0.5
    """logo: how likely a session is to be rerolled …"""
    rerolls: Annotated[int, Field(ge=2)] = 4
    """… and how often."""
    chunks: Positive | None = None
    """Turns of a session are decided in this many parts (Memory-R2's K); None: turn by turn. Worlds only."""
    std_floor: Annotated[float, Field(gt=0)] = 0.1
    token_budget: Positive = 8192
    """Tokens in one forward and backward pass."""
    decode_batch: Positive = 256
    """Replies that are decoded at once."""
    reward: RewardSettings = RewardSettings()
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)] = (Stage(),)
    stop: StopSettings = StopSettings()

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, raw: Any) -> Any:
        """logo learns from episodes, the answerer from answers: nobody needs to say so."""
        if isinstance(raw, dict) and "learn" not in raw:
            if raw.get("algorithm") == "logo":
                return {**raw, "learn": "episodes"}
            if list(raw.get("roles", ())) == ["answerer"]:
                return {**raw, "learn": "answers"}
        return raw

    @model_validator(mode="after")
    def _fits(self) -> OnlineSettings:
        wanted = {"ppo": "decisions", "logo": "episodes"}.get(self.algorithm)
        if wanted is not None and self.learn != wanted:
            raise ValueError(f"{self.algorithm} learns from {wanted}: set learn: {wanted}")
        if (self.learn == "answers") != (self.roles == ("answerer",)):
            raise ValueError("the answerer is trained by itself: learn: answers goes with roles: [answerer]")
        self._fits_engine()
        for stage in self.stages:
            if stage.trained is not None and not set(stage.trained) <= set(self.roles):
                raise ValueError(f"a stage trains {', '.join(stage.trained)}, the adapter answers in {self.roles}")
        return self

    def _fits_engine(self) -> None:
        for name in self.trl:
            if self.engine != "trl":
                raise ValueError("trl: is for engine: trl")
            if name in SAID_ELSEWHERE:
                raise ValueError(f"trl.{name}: say it as {SAID_ELSEWHERE[name]}")
        if self.engine != "tinker" and self.tinker != TinkerSettings():
            raise ValueError("tinker: is for engine: tinker")
        if self.engine == "memkit":
            return
        wants = {
            "algorithm: grpo": self.algorithm == "grpo",
            "learn: decisions": self.learn == "decisions",
            "one role in roles": len(self.roles) == 1,
            "reward.horizon: immediate": self.reward.horizon == "immediate",
            "no rollouts": self.rollouts is None,
        }
        missing = [name for name, met in wants.items() if not met]
        if missing:
            raise ValueError(f"engine: {self.engine} needs {', '.join(missing)}")

    @property
    def period(self) -> int:
        """Steps after which everything is drawn anew: where a checkpoint may be written, and a run resumed."""
        return self.iterations if self.learn == "episodes" else self.refresh * self.iterations
