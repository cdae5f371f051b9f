"""What decides the turns of a store, beside the model: on record in the journal, so that the trainer replays the system
that is served, and not one of default values.

Whoever decides with a model writes it down before the decision, where it is not what the journal says already. The
rules write only where nothing is on record: a command line without a model leaves alone what the app recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from memkit.config import Config
from memkit.errors import InvalidConfig
from memkit.models import JSON, to_json

if TYPE_CHECKING:
    from memkit.engine.decide import Settings
    from memkit.journal import Journal

_META = "practice"
_KEYS = ("guard", "reasks", "candidates", "fused_candidates", "context_turns")
"""Of the configuration: what changes a prompt, or what is made of a reply."""
_MODES = ("split", "fused")


@dataclass(frozen=True, slots=True)
class Practice:
    mode: str = "split"
    instructions: str = ""
    config: Config = field(default_factory=Config)
    """Only what decides of it is recorded; the rest is the default."""

    @property
    def context_turns(self) -> int:
        return self.config.context_turns

    def settings(self, mode: str | None = None, instructions: str | None = None) -> Settings:
        """For `decide`; None: as recorded."""
        from memkit.engine.decide import Settings

        config = self.config
        return Settings(
            mode=self.mode if mode is None else mode,
            instructions=self.instructions if instructions is None else instructions,
            guard=config.guard, reasks=config.reasks, candidates=config.candidates,
            fused_candidates=config.fused_candidates,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """As it stands in the journal."""
        return to_json(self.to_json())

    def to_json(self) -> JSON:
        known = asdict(self.config)
        return {"mode": self.mode, "instructions": self.instructions, **{name: known[name] for name in _KEYS}}

    @classmethod
    def read(cls, raw: Any) -> Practice:
        """What is missing is the default; what another version knows besides is left out."""
        if not isinstance(raw, Mapping):
            raise _unreadable("it is no mapping")
        found: JSON = dict(raw)  # pyright: ignore[reportUnknownArgumentType]
        mode, instructions = found.get("mode", "split"), found.get("instructions", "")
        if mode not in _MODES or not isinstance(instructions, str):
            raise _unreadable(f"mode {mode!r} is unknown" if mode not in _MODES else "its instructions are no text")
        return cls(mode, instructions, Config.of({name: found[name] for name in _KEYS if name in found}))


def recorded(journal: Journal) -> Practice | None:
    text = journal.meta_get(_META)
    if text is None:
        return None
    try:
        raw = json.loads(text)
    except ValueError:
        raise _unreadable("it is no JSON") from None
    return Practice.read(raw)


def record(journal: Journal, text: str, *, instead: bool = True) -> None:
    """`text`: of a practice. `instead`: of what is on record, where that is something else."""
    known = journal.meta_get(_META)
    if known is None or (instead and known != text):
        journal.meta_set(_META, text)


def _unreadable(why: str) -> InvalidConfig:
    return InvalidConfig(
        "what decided the turns of this log cannot be read", why=why,
        fix="let the app that made it decide a turn, which records it again",
    )  # fmt: skip
