"""Your own model on real words: what a memory that it manages finds of talks, beside the same turns stored raw and the
built-in rules; and what it asks for that.

Set MEMKIT_TALKS (the folder of the talks), MEMKIT_MODEL ("openai:NAME", "anthropic:NAME", …) and, for an endpoint of
your own, MEMKIT_BASE_URL; keys are read where the provider's client has them. The talks are told at the same time,
exchange by exchange. Where MEMKIT_STORES names a folder, the stores stay there, and a run that was broken off goes on
where it ended. The bars are what a strong model should reach.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.retrieval import estimate_tokens
from tests.bench._real_talks import Served, System, Talk, served, share, talks, tally, told
from tests.bench._table import Row
from tests.bench.real import is_set

EMBEDDER, USER = "minilm", "u"
PATIENT = {"deadline_s": 7_200.0, "wait_s": 7_200.0, "workers": 0}
"""A large model on a small machine takes its time."""
ALL = 100_000


@dataclass(frozen=True, slots=True)
class Managed:
    """One talk, told to the model."""

    served: list[Served]
    exchanges: int
    calls: int
    again: int
    """Calls that were made because a reply could not be used."""
    tokens: int
    """Of all prompts and replies."""
    parked: int
    """Exchanges that came to nothing."""


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    if not (is_set("MEMKIT_MODEL", rows) and is_set("MEMKIT_TALKS", rows)):
        return rows
    found = talks()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(len(found), 1)) as pool:
        stores = Path(os.environ.get("MEMKIT_STORES") or folder)
        told_to = list(pool.map(lambda talk: manage(talk, stores / talk.name), found))
    managed = {talk.name: one for talk, one in zip(found, told_to, strict=True)}
    rows += _found("English", [one for one in found if one.english], managed, (98, 90, 6))
    rows += _found("other languages", [one for one in found if not one.english], managed, (92, 85, 8))
    return [*rows, *_asked(told_to)]


def manage(talk: Talk, path: Path) -> Managed:
    url = os.environ.get("MEMKIT_BASE_URL")
    where: dict[str, Any] = {"base_url": url} if url else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    said = exchanges(talk)
    with Memory(path, model=os.environ["MEMKIT_MODEL"], embedder=EMBEDDER, config=PATIENT, **where) as memory:
        for turns in said:
            messages = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
            first = turns[0]
            memory.add(messages, user_id=USER, session_id=first["session"], at=first["at"], idempotency_key=first["id"])
        made = memory.decisions(user_id=USER, last=ALL)
        attempts = [attempt for one in made for attempt in one["attempts"]]
        return Managed(
            served=list(served(memory, talk)),
            exchanges=len(said),
            calls=len(attempts),
            again=len(attempts) - len(made),
            tokens=sum(_tokens(memory, one) for one in attempts),
            parked=len(memory.parked(user_id=USER)),
        )


def _tokens(memory: Memory, attempt: Mapping[str, Any]) -> int:
    messages = json.loads(memory._runtime.journal.blob(attempt["prompt_hash"]))
    return sum(estimate_tokens(text) for _, text in messages) + estimate_tokens(attempt["reply"] or "")


def exchanges(talk: Talk) -> list[list[dict[str, Any]]]:
    """What the user says, with the answer to it: as an app tells it."""
    out: list[list[dict[str, Any]]] = []
    for turn in talk.turns:
        if turn["role"] == "user" or not out or out[-1][0]["session"] != turn["session"]:
            out.append([])
        out[-1].append(turn)
    return out


def _found(
    language: str, chosen: Sequence[Talk], managed: Mapping[str, Managed], bars: tuple[int, int, int]
) -> Iterator[Row]:
    model = os.environ["MEMKIT_MODEL"]
    systems: dict[str, System] = {
        "raw": told(EMBEDDER, infer=False),
        "rules": told(EMBEDDER),
        model: lambda talk: iter(managed[talk.name].served),
    }
    for system, how in systems.items() if chosen else ():
        found, is_judged, name = tally(how, chosen), system == model, f"talks, {language}, {system}"
        for what, right, bar, sign in (
            ("evidence@10", found.evidence, bars[0], 1),
            ("gold in context(300)", found.gold, bars[1], 1),
            ("only stale in it", found.stale, bars[2], -1),
        ):
            text = f"{'>=' if sign > 0 else '<='} {bar}" if is_judged else ""
            ok, note = not text or sign * share(right) >= sign * bar, f"n={len(right)}"
            yield Row(f"{name}: {what}", share(right), "%", text, ok, note)
        if is_judged:
            lost = ", ".join(found.misses)
            yield Row(f"{name}: questions that lost something", len(found.misses), "", "reported", True, lost)


def _asked(managed: Sequence[Managed]) -> list[Row]:
    told_to = sum(one.exchanges for one in managed)
    calls, tokens = sum(one.calls for one in managed), sum(one.tokens for one in managed)
    again, parked = sum(one.again for one in managed), sum(one.parked for one in managed)
    return [
        Row("calls per exchange", calls / max(told_to, 1), "", "reported", True, f"n={told_to}"),
        Row("tokens per exchange, prompt and reply", tokens / max(told_to, 1), "", "reported", True),
        Row("replies that could not be used and were asked for again", again, "", "reported", True, f"n={calls}"),
        Row("exchanges that came to nothing", parked, "", "0", parked == 0),
    ]
