"""The behavioural probe: an adapter that loaded without error may still do nothing, or be another one.

`memkit_probe.json` holds a few prompts with completions, as token ids, and the log-probs that the trainer measured
under the adapter. After loading, the host scores the same tokens. They must agree with the trainer's numbers within
`tolerance`, differ from the base model's, and be much nearer to the trainer's than the base model's are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memkit.adapters._files import durable_write, open_plain
from memkit.adapters.hosts.base import ScoringHost
from memkit.adapters.manifest import PROBE, strict_json
from memkit.errors import AdapterRejected, ProbeFailed
from memkit.models import to_json

_SOMETHING = 1e-4
"""Nats per token. Scoring the same model twice, in another batch, differs by less in full precision."""

Ids = Annotated[tuple[Annotated[int, Field(ge=0, le=10_000_000)], ...], Field(min_length=1, max_length=16_384)]
LogProb = Annotated[float, Field(allow_inf_nan=False, le=1e-3)]


class ProbeCase(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prompt_ids: Ids
    token_ids: Ids
    logprobs: Annotated[tuple[LogProb, ...], Field(min_length=1)]
    """Under the adapter, at temperature 1, without a mask: one per token of `token_ids`."""


class Probe(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    cases: Annotated[tuple[ProbeCase, ...], Field(min_length=1, max_length=64)]
    tolerance: Annotated[float, Field(gt=0, le=2.0, allow_inf_nan=False)] = 0.05
    """Largest mean difference per token, in nats. Half-precision serving of a full-precision trainer needs ~0.05."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Mean absolute difference per token, in nats."""

    from_trainer: float
    from_base: float
    tolerance: float
    cases: int


def read_probe(folder: Path) -> Probe:
    with open_plain(folder / PROBE) as file:
        raw = file.read()
    strict_json(raw, where=PROBE, reason="probe_invalid")
    try:
        probe = Probe.model_validate_json(raw)
        if any(len(case.token_ids) != len(case.logprobs) for case in probe.cases):
            raise ValueError("a case has more or fewer log-probs than tokens")
    except ValidationError as error:
        raise _invalid(error.errors()[0]["msg"]) from None
    except ValueError as error:
        raise _invalid(str(error)) from None
    return probe


def write_probe(folder: Path, probe: Probe) -> None:
    durable_write(folder / PROBE, to_json(probe.model_dump(mode="json")).encode())


def run_probe(host: ScoringHost, name: str, probe: Probe) -> ProbeResult:
    pairs = [(case.prompt_ids, case.token_ids) for case in probe.cases]
    recorded = [case.logprobs for case in probe.cases]
    adapted, base = host.score(name, pairs), host.score(None, pairs)
    result = ProbeResult(_gap(adapted, recorded), _gap(adapted, base), probe.tolerance, len(pairs))
    if not result.from_base > _SOMETHING:
        raise ProbeFailed(
            "the loaded adapter does nothing",
            why=f"its log-probs are the base model's (difference {result.from_base:.3g} nats per token)",
            fix="the server ignored the adapter, or it was never trained; the old adapter keeps serving",
            reason="same_as_base",
        )
    if not result.from_trainer <= min(probe.tolerance, _gap(base, recorded) / 2):
        raise ProbeFailed(
            "the loaded adapter does not behave as its trainer recorded",
            why=f"log-probs differ by {result.from_trainer:.3g} nats per token; the tolerance is {probe.tolerance:.3g}",
            fix="check base weights, precision and chat template of this server; the old adapter keeps serving",
            reason="unlike_trainer",
        )
    return result


def _gap(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> float:
    """Mean absolute difference over all tokens; infinite when the shapes differ, so that it never passes."""
    if [len(row) for row in left] != [len(row) for row in right]:
        return float("inf")
    gaps = [abs(x - y) for a, b in zip(left, right, strict=True) for x, y in zip(a, b, strict=True)]
    return sum(gaps) / len(gaps)


def _invalid(why: str) -> AdapterRejected:
    return AdapterRejected(
        f"{PROBE} is not a valid probe", why=why, fix="publish the adapter again", reason="probe_invalid"
    )
