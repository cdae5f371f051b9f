"""The small manager as it serves: what it takes of memory, and a swap under load whose log is read back."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from memkit import Memory
from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.backbone import SHIPPED
from memkit.backbones.small.encoder import TextPair
from memkit.backbones.small.shape import OPTIONS
from memkit.embedders import make_embedder
from memkit_train.chooser.logged import LoggedChoices
from memkit_train.credit.assign import Crediting, learn_topics
from memkit_train.credit.moments import choices_of
from memkit_train.log.source import StoreSource
from tests.adapters.test_small import adapter
from tests.bench._replayed import replay

USERS, TURNS = 8, 8
_TOLD = """
import sys, tempfile, time
from memkit import Memory
with Memory(tempfile.mkdtemp() + "/store", embedder="minilm", model=sys.argv[1] or None) as memory:
    memory.add("I moved to Lyon last week, and my sister Ilse stayed in Ghent.", user_id="u")
    cold = time.process_time()
    for number in range(12):
        memory.add(f"I moved to house {number}, and my sister Ilse stayed in Ghent.", user_id="u")
    print(cold, next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""
_SAID = (
    "hi again! my landlord is Mr Okafor",
    "I moved to Lyon last week, and my sister Ilse stayed in Ghent",
    "lol ok thanks",
    "we adopted a cat from the shelter, she hides all day",
    "the house was sold, my landlord is a Mrs Petrov now",
    "what would you cook with leeks?",
    "I gave up the flat in Lyon, I'm in Nantes now",
    "I work nights at the bakery, it's tiring though",
)


def started() -> tuple[float, float]:
    """CPU seconds of a fresh process to its first decision, imports and embedder with it; megabytes that the small
    manager takes beside the embedder."""
    found = [subprocess.check_output([sys.executable, "-c", _TOLD, name], text=True).split() for name in ("", "small")]
    (_, rules), (cold, small) = found
    return float(cold), (int(small) - int(rules)) / 1024


@dataclass(frozen=True, slots=True)
class Swapped:
    lost: int
    """Turns that could not be decided."""
    by_old: int
    by_new: int
    others: int
    """Choices that are others when the pairs of the log are scored again by the weights that made them."""
    apart: float
    """The furthest that a log-prob is from the logged one."""
    choices: int
    banks: int
    """Scenes that end in another bank when they are played again."""


def swap_under_load() -> Swapped:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = adapter(folder / "adapter", shift=1.0)
        with Memory(folder / "store", model="small") as memory:
            digest = memory.adapters.publish(built)
            served, lost = _serve(memory, digest), len(list(memory.parked()))
        new = sum(one == digest for one in served.values())
        with StoreSource(folder / "store") as source:
            banks = replay(source)
        others, apart, choices = _read_back(folder / "store", served, built)
    return Swapped(lost, len(served) - new, new, others, apart, choices, banks.different + banks.other_prompts)


def _serve(memory: Memory, digest: str) -> dict[str, str | None]:
    """Decision → the adapter that made it."""
    half = threading.Barrier(USERS + 1)

    def talk(user: str) -> None:
        for number in range(TURNS):
            if number == TURNS // 2:
                half.wait(120)
            at = datetime(2026, 3, 2, tzinfo=UTC) + timedelta(days=number)
            memory.add(_SAID[number % len(_SAID)], user_id=user, session_id=f"s{number}", at=at)

    users = [f"u{number}" for number in range(USERS)]
    with ThreadPoolExecutor(USERS) as pool:
        talking = [pool.submit(talk, user) for user in users]
        half.wait(120)
        memory.adapters.promote("production", digest)
        for one in talking:
            one.result()
    memory.flush()
    return {
        one["decision_id"]: one["served_by"] if one["served_by"] == digest else None
        for user in users
        for one in memory.decisions(user_id=user, last=10_000)
    }


def _read_back(store: Path, served: dict[str, str | None], built: Path) -> tuple[int, float, int]:
    by = {True: SmallBackbone(weights=SHIPPED), False: SmallBackbone(weights=built)}
    others, apart, choices = 0, 0.0, 0
    with StoreSource(store) as source:
        topics, embedder = learn_topics(source), make_embedder("hash")
        for episode in source.trajectories():
            read = LoggedChoices(Crediting(episode, topics, embedder), 0)
            for decision in episode.decisions:
                rows = read.rows.get(decision.decision_id, {})
                for choice in choices_of(decision):
                    row = rows[tuple(choice["place"])]
                    pair = TextPair(row.task, row.first, row.second, row.features)  # pyright: ignore[reportArgumentType]
                    (logs,) = by[served[decision.decision_id] is None].score("", [pair])
                    at = OPTIONS[row.task].index(choice["option"])
                    others += bool(choice["sampled"] == 0 and at not in (0, int(np.argmax(logs))))
                    apart = max(apart, abs(float(logs[at]) - choice["logprob"]))
                    choices += 1
    return others, apart, choices
