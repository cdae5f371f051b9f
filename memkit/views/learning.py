"""What is learned: labels, runs, gates, adapters and where they serve, what candidates would have done."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.errors import MemkitError, NotFound
from memkit.models import JSON
from memkit.views.health import read_days
from memkit.views.reads import verdict_of
from memkit.views.records import Learning

if TYPE_CHECKING:
    from memkit.adapters import AdapterSet
    from memkit.adapters.registry import RegisteredAdapter
    from memkit.journal.journal import Journal
    from memkit.runtime.runtime import Runtime

_LABELS = 5_000
_DECISIONS = 300
_RUNS = 20
_RUN_BYTES = 4_000_000
"""Of a run's record; a longer file is no run of ours."""
_HISTORY = 20


def survey(runtime: Runtime, runs: Path | None) -> Learning:
    """`runs`: the folder that `memkit-train` writes its runs to."""
    journal = runtime.journal
    labels = _labels(journal)
    reads = read_days(journal)["asked"]
    rated = sum(sum(one.values()) for one in labels.values())
    asked = sum(reads.values())
    known: tuple[JSON, ...] = ()
    aliases: tuple[JSON, ...] = ()
    shadows: tuple[JSON, ...] = ()
    problem = ""
    if runtime.has_adapters:
        try:
            adapters = runtime.adapters
            known = tuple(list_adapters(adapters))
            names = adapters.registry.aliases()
            aliases = tuple(tell_alias(adapters, name) for name in sorted(names))
            shadows = tuple(one.to_json() for one in adapters.shadow_report(examples=3))
        except MemkitError as error:
            problem = str(error)
    mix = _mix(journal)
    return Learning(
        reads,
        labels,
        min(1.0, rated / asked) if asked else 0.0,
        tuple(list_runs(runs)) if runs else (),
        known,
        aliases,
        mix,
        shadows,
        problem,
    )


def _labels(journal: Journal) -> dict[str, dict[str, int]]:
    days: dict[str, Counter[str]] = {}
    for one in journal.recent_feedback(_LABELS):
        good = verdict_of(one.payload)
        day = days.setdefault(f"{one.created_at:%Y-%m-%d}", Counter())
        day["said" if good is None else "good" if good else "bad"] += 1
    return {day: dict(days[day]) for day in sorted(days)}


def _mix(journal: Journal) -> dict[str, dict[str, int]]:
    """What each adapter's newest decisions did."""
    mix: dict[str, Counter[str]] = {}
    for record in journal.decisions(limit=_DECISIONS, newest_first=True, gaps=True):
        if record.role in ("manager", "fused") and record.payload:
            own = mix.setdefault(str(record.payload.get("adapter") or "base"), Counter())
            own.update(draft["action"] for draft in record.payload["drafts"])
    return {name: dict(counts) for name, counts in mix.items()}


def tell_alias(adapters: AdapterSet, name: str) -> JSON:
    history = adapters.history(name)[:_HISTORY]
    now = history[0]
    return {
        "alias": name,
        "version": now.version,
        "back": now.back,
        "routes": {role: route.to_json() for role, route in sorted(now.routes.items())},
        "history": [
            {
                "version": one.version,
                "action": one.action,
                "actor": one.actor,
                "at": one.at,
                "note": one.note,
                "ungated": one.ungated,
                "serves": {role: route.stable for role, route in sorted(one.routes.items())},
            }
            for one in history
        ],
    }


def need_adapters(runtime: Runtime) -> AdapterSet:
    """Looking makes no registry where there is none."""
    if not runtime.has_adapters:
        raise NotFound("this store has no adapters", fix="train and publish one: memkit-train retrain")
    return runtime.adapters


def list_adapters(adapters: AdapterSet) -> list[JSON]:
    """Newest first, each with what its manifest claims; one that is damaged says so."""
    return [_adapter(adapters, one) for one in sorted(adapters.list(), key=lambda one: one.created_at, reverse=True)]


def tell_adapter(adapters: AdapterSet, digest: str) -> JSON:
    name = adapters.registry.find(digest)
    return next(_adapter(adapters, one) for one in adapters.list() if one.digest == name)


def _adapter(adapters: AdapterSet, known: RegisteredAdapter) -> JSON:
    told: JSON = {
        "digest": known.digest,
        "kind": known.kind,
        "roles": list(known.roles),
        "created_at": known.created_at,
        "gated": known.gated,
        "parent": known.parent,
        "bytes": known.bytes,
        "aliases": list(known.aliases),
        "tainted": list(known.tainted),
        "damaged": known.damaged,
        "gates": [],
    }
    if known.damaged:
        return told
    manifest = adapters.registry.manifest(known.digest).model_dump(mode="json")
    return told | {name: manifest[name] for name in ("gates", "base", "data", "training", "evaluation", "notes")}


def list_runs(folder: Path) -> list[JSON]:
    """Newest first. What is no run is passed over."""
    if not folder.is_dir():
        return []
    found: list[JSON] = []
    for path in folder.glob("*/run.json"):
        record = _read(path)
        if record is not None:
            found.append(_run(path.parent.name, record))
    return sorted(found, key=lambda one: one["started_at"], reverse=True)[:_RUNS]


def tell_run(folder: Path, name: str) -> JSON:
    """The run by the name of its folder, which is looked up and never joined into a path."""
    for one in list_runs(folder):
        if one["name"] == name:
            return one
    raise NotFound("there is no such run", why=f"{folder} has none of that name", fix="look at the list of runs")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _RUN_BYTES:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _run(name: str, record: dict[str, Any]) -> JSON:
    def within(value: Any, *keys: str) -> Any:
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    verdict = within(record, "stages", "evaluate", "verdict")
    checks = within(verdict, "checks")
    counts = within(record, "stages", "collect", "counts")
    actions = within(record, "stages", "evaluate", "actions")
    return {
        "name": name,
        "started_at": str(record.get("started_at", "")),
        "outcome": str(record.get("outcome") or "unfinished"),
        "digest": record.get("digest") if isinstance(record.get("digest"), str) else None,
        "counts": counts if isinstance(counts, dict) else {},
        "verdict": within(verdict, "outcome"),
        "checks": [one for one in checks if isinstance(one, dict)] if isinstance(checks, list) else [],
        "actions": actions if isinstance(actions, dict) else {},
    }
