"""Every limit and knob of the runtime, in one place, each with the default that the benchmarks ran with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from memkit.errors import InvalidConfig
from memkit.ops.guard import GuardLimits, check_numbers


@dataclass(frozen=True, slots=True)
class Config:
    max_message_bytes: int = 262_144
    """One message's text, UTF-8."""
    max_messages: int = 200
    """Messages of one `add`."""
    max_metadata_bytes: int = 16_384
    max_k: int = 200
    guard: GuardLimits = field(default_factory=GuardLimits)
    """What one decided turn may do to a bank."""
    workers: int = 8
    """Threads that decide turns in the background; they start when there is something to decide. 0: this process
    decides nothing but what it is asked to (`add`, `flush`, `retry`)."""
    deadline_s: float = 60.0
    """Total time of one model call, retries included."""
    reasks: int = 2
    """How often a reply that cannot be used is sent back with its error, before the turn is parked."""
    candidates: int = 5
    """Memories shown to the manager per fact; one that is asked in JSON is shown as many as its prompt holds."""
    fused_candidates: int = 20
    """Memories shown in the fused call, likewise."""
    context_turns: int = 4
    """Earlier turns of the session shown to the extractor as context only."""
    answer_candidates: int = 60
    """Memories shown for an answer at most; 30 of them from one person."""
    wording: int = 0
    """Version of the words in which models are asked. 0: as this store asked them before; for the first time, the
    newest for hosted models, and the first for local ones, whose adapters were trained on it."""
    answer_tokens: int = 7_000
    """Tokens of the memories shown for an answer, at most; 0 for no limit."""
    preselect_from: int = 200_000
    """Live memories above which LanceDB pre-selects before the exact scorer ranks. Below, a bank that is read is held
    in memory as a whole."""
    preselect: int = 1_000
    """How many rows it pre-selects."""
    cache_bytes: int = 536_870_912
    """Memory for warm banks, the least recently read of which give way; the one that is being read always stays. With
    384 numbers per vector, 100,000 memories take about 360 MB."""
    project_every: int = 256
    """Ops that may wait in the journal before the background projector writes them to LanceDB."""
    project_idle_s: float = 1.0
    """…or the time after which it writes what is there."""
    maintain_commits: int = 100
    """LanceDB commits between two maintenance passes."""
    trace_sample: float = 1.0
    """Share of searches and contexts whose trace is kept (answers always are)."""
    tidy_every_s: float = 0.0
    """Seconds between two background passes of `tidy` over what is new, while no turn waits to be decided; 0: none."""
    tidy_budget: int = 200
    """Decisions of the manager that each of them may ask for."""
    wait_s: float = 300.0
    """How long `add` waits for turns that somebody else is deciding before it answers "pending"; and `flush`, without
    one of them being decided, before it raises."""
    poll_s: float = 0.02
    """How often a waiting `add` looks for work that another process finished."""

    def __post_init__(self) -> None:
        check_numbers(self)
        if not isinstance(self.guard, GuardLimits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(
                f"guard cannot be {self.guard!r}", fix="pass memkit.ops.GuardLimits(...) or a mapping of its fields"
            )

    @classmethod
    def of(cls, raw: Config | Mapping[str, Any] | None) -> Config:
        if raw is None:
            return cls()
        if isinstance(raw, Config):
            return raw
        if not isinstance(raw, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(
                f"config is {type(raw).__name__}", fix="pass memkit.Config(...) or a mapping of its keys"
            )
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(raw) - known)
        if unknown:
            raise InvalidConfig(
                f"unknown configuration key {unknown[0]!r}",
                why=f"the keys are {', '.join(sorted(known))}",
                fix="correct the spelling, or drop the key",
            )
        data = dict(raw)
        if isinstance(data.get("guard"), Mapping):
            try:
                data["guard"] = GuardLimits(**data["guard"])
            except TypeError as error:
                raise InvalidConfig(
                    "unknown key in `guard`", why=str(error), fix="see memkit.ops.GuardLimits for its fields"
                ) from None
        return cls(**data)
