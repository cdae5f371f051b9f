"""What a training run leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AdapterResult:
    path: Path
    """Folder with adapter_model.safetensors and adapter_config.json."""
    metrics: dict[str, float]
    """The last value of each training metric, and what became of the rows (`rows/*`)."""
    steps: int
    seconds: float
    """Wall time, loading included."""
    digest: str
    """sha256 of the weights."""
