"""Serve → measure → retrain → swap while serving → measure → roll back. Nothing is staged: every figure is of what
happened, also when the gate refuses.

The usual split: the app's own model hears and answers, a small local one manages the memory. Here both are tiny: the
skilled one stands for the app's, and the biased one manages. It can do the right thing and has bad habits (another pet
replaces the first, changes are added beside the old, retractions are forgotten). Users rate some of its answers, some
of them wrongly, and never say anything about operations. That, and nothing else, is what `retrain` learns from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from memkit.backbones.hf import HFBackbone
from memkit.models import JSON
from memkit_train.files.run_folder import Tick
from memkit_train.lab.demo import panel
from memkit_train.lab.demo.chatbot import AT_ONCE, AnsweredQuestion, Chatbot, Visit
from memkit_train.lab.tiny import Name, checkpoint
from memkit_train.lab.worlds import Episode, Knobs, Manners, generate
from memkit_train.replay.env import beside
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.run import RunOutcome, retrain

ALIAS, ROLE = "production", "manager"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything."""

    users: int = 110
    """Whose talk is logged; the gate judges on part of them."""
    panel: int = 24
    visitors: int = 12
    """Who talk to the chatbot while the adapter is swapped."""
    sessions: int = 5
    probes: int = 8
    """Questions after each session."""
    explore: float = 1.0
    """Share of the manager's decisions that are sampled while the log is made: a greedy one only says what it would say
    again."""
    polish: int = 20
    """Steps of reinforcement learning after imitation."""
    rated: float = 0.3
    wrong: float = 0.1
    """Share of the ratings that say the opposite of the truth."""
    corrects: float = 0.35
    """After a wrong answer about one value: says the right one, as people do."""

    @property
    def knobs(self) -> Knobs:
        return Knobs(sessions=self.sessions, probes=self.probes)


class Voice(Protocol):
    """Whoever tells the story."""

    def part(self, title: str) -> None: ...
    def say(self, text: str) -> None: ...
    @property
    def tick(self) -> Tick | None: ...


@dataclass(frozen=True, slots=True)
class Swap:
    """What users noticed of it."""

    seconds: float
    """From the call of `promote` to the new adapter serving everybody."""
    answers: int
    """Given while it happened, some by the old and the rest by the new adapter."""
    by_new: int
    parked: int
    """Turns meanwhile and after that could not be decided."""


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    served: int
    rated: int
    right: float
    """Share of the answers that were right while the log was made."""
    outcome: RunOutcome
    compared: panel.BeforeAfter | None
    """None: the gate refused, so nothing was swapped in."""
    swap: Swap | None
    rolled_back: bool
    """After the rollback the same questions had the old answers again."""
    folder: Path
    cpu_s: float

    @property
    def unnoticed(self) -> bool:
        """Swapped in under users who noticed nothing, taken back without a trace."""
        return self.swap is not None and self.swap.by_new > 0 and not self.swap.parked and self.rolled_back

    @property
    def true(self) -> bool:
        """All that, and better on the panel."""
        return self.unnoticed and self.compared is not None and self.compared.better

    def to_json(self) -> JSON:
        return {
            "served": self.served,
            "rated": self.rated,
            "right": self.right,
            "outcome": self.outcome.to_json(),
            "panel": self.compared.to_json() if self.compared else None,
            "rolled_back": self.rolled_back,
            "swap": {name: getattr(self.swap, name) for name in Swap.__slots__} if self.swap else None,
            "report": str(self.folder / "report.html"),
            "cpu_s": self.cpu_s,
            "true": self.true,
        }


def tell(folder: Path, voice: Voice, *, scale: Scale | None = None, seed: int = 0) -> DemoOutcome:
    """The whole story in `folder` (store, runs, report.html)."""
    scale, began = scale or Scale(), time.process_time()
    store = folder / "memory"
    with _chatbot(store, explore=scale.explore) as chatbot:
        log = _serve(chatbot, scale, seed, voice)
    with _chatbot(store) as chatbot:  # what is shown from here on is not sampled
        before = _panel(chatbot, scale, seed, "before", voice)
        voice.part("Retrain from the log alone")
        tonight = max(one.question.asked_at for one in log) + timedelta(days=1)  # decisions count less as they age
        outcome = retrain(make_config(store, folder / "runs", scale, seed), tick=voice.tick, now=tonight)
        compared, swap, back = None, None, False
        if outcome.digest is None:
            voice.say("the gate refused it; the chatbot goes on with what it had")
        else:
            voice.say(f"passed every gate, published as {outcome.digest[:12]}")
            swap = _swap(chatbot, outcome.digest, scale, seed, voice)
            compared = panel.compare(before, _panel(chatbot, scale, seed, "after", voice))
            back = _roll_back(chatbot, outcome.digest, before, scale, seed, voice)
    return DemoOutcome(
        len(log),
        sum(one.rating is not None for one in log),
        sum(one.right for one in log) / len(log),
        outcome,
        compared,
        swap,
        back,
        folder,
        round(time.process_time() - began, 1),
    )


@contextmanager
def _chatbot(store: Path, **options: float) -> Generator[Chatbot]:
    """The biased model manages; the skilled one, as the app's own, hears and answers."""
    with (
        _model("biased") as small,
        _model("skilled") as own,
        Chatbot(store, beside(small, own, [ROLE]), **options) as chatbot,
    ):
        yield chatbot


def _model(name: Name) -> HFBackbone:
    return HFBackbone(checkpoint(name), threads=1, max_batch=AT_ONCE)


def make_config(store: Path, output: Path, scale: Scale, seed: int) -> TrainConfig:
    """What `memkit-train retrain` is given: rejection SFT on the credited decisions, then GRPO from replayed states."""
    own = f"hf:{checkpoint('skilled')}"
    sets = {
        "data.store": store,
        "data.roles": f"[{ROLE}]",
        "data.heldout_share": 0.45,
        "data.validation_share": 0.15,
        "model.base": checkpoint("biased"),
        "model.answerer": own,
        "online.others": own,
        "online.reward.answerer": own,
        "method.name": "sft",
        "method.polish": True,
        "method.seed": seed,
        "method.epochs": 8,
        "method.lr": 2e-3,
        "method.half_life_days": 3650,
        "online.stages": f"[{{steps: {scale.polish}}}]",
        "output": output,
        "gate.canaries": 0,  # spelt in bytes by a vocabulary of whole words, one secret outweighs a hundred decisions
    }
    return load(None, [f"{name}={value}" for name, value in sets.items()])


def _serve(chatbot: Chatbot, scale: Scale, seed: int, voice: Voice) -> list[AnsweredQuestion]:
    voice.part(f"A chatbot with a memory serves {scale.users} users")
    manners = Manners(scale.rated, scale.wrong, corrects=scale.corrects)
    episodes = generate(scale.users, seed=_world(seed), knobs=scale.knobs)
    log = chatbot.serve([Visit(one, one.user_id, manners, seed=seed) for one in episodes], _counter(voice, "users"))
    rated = [one for one in log if one.rating is not None]
    wrong = sum(one.rating != float(one.right) for one in rated)
    voice.say(
        f"{len(log)} answers, {sum(one.right for one in log) / len(log):.0%} of them right; users rated {len(rated)}, "
        f"{wrong} of these wrongly, and labelled no operation"
    )
    return log


def _panel(chatbot: Chatbot, scale: Scale, seed: int, when: str, voice: Voice) -> list[AnsweredQuestion]:
    voice.part(f"A panel of {scale.panel} other users, {when}: never learned from")
    found = chatbot.serve(panel.visits(_panel_episodes(scale, seed), when), _counter(voice, "panel"))
    voice.say(f"{sum(one.right for one in found) / len(found):.1%} of {len(found)} answers right")
    return found


def _panel_episodes(scale: Scale, seed: int) -> Sequence[Episode]:
    return generate(scale.panel, seed=_world(seed), knobs=scale.knobs, split="heldout")


def _swap(chatbot: Chatbot, digest: str, scale: Scale, seed: int, voice: Voice) -> Swap:
    """Visitors talk all the while; some come only when the new adapter is there, however long that took."""
    voice.part("Swap the adapter in while the chatbot is serving")
    episodes = generate(scale.visitors, seed=_world(seed) + 1, knobs=scale.knobs)
    visits = panel.visits(episodes, "visitor")
    early, late = visits[::2], visits[1::2]
    underway, before = threading.Event(), _parked(chatbot)

    def serving() -> list[AnsweredQuestion]:
        try:
            return chatbot.serve(early, each=lambda _: underway.set())
        finally:
            underway.set()

    with ThreadPoolExecutor(1) as pool:
        visitors = pool.submit(serving)
        underway.wait()
        started = time.perf_counter()
        chatbot.memory.adapters.promote(ALIAS, digest, roles=[ROLE])
        seconds = time.perf_counter() - started
        found = chatbot.serve(late) + visitors.result()
    by_new = sum(one.adapter == digest for one in found)
    parked = len(_parked(chatbot) - before)
    voice.say(
        f"{seconds:.2f} s from promote to service; {len(found)} answers meanwhile and after, {by_new} of them with the "
        f"new adapter; {parked} turns failed"
    )
    return Swap(round(seconds, 3), len(found), by_new, parked)


def _parked(chatbot: Chatbot) -> set[str]:
    return {one.trace_id for one in chatbot.memory.parked()}


def _roll_back(
    chatbot: Chatbot, digest: str, before: Sequence[AnsweredQuestion], scale: Scale, seed: int, voice: Voice
) -> bool:
    """The first panel users once more: the old adapter gives the old answers. Then forward again."""
    voice.part("Roll back, and forward again")
    chatbot.memory.adapters.rollback(ALIAS)
    again = chatbot.serve(panel.visits(_panel_episodes(scale, seed)[:2], "again"))
    old = {one.question.question_id: one.answer for one in before}
    same = all(old[one.question.question_id] == one.answer for one in again)
    chatbot.memory.adapters.promote(ALIAS, digest, roles=[ROLE])
    voice.say(
        f"{len(again)} questions asked again after the rollback: {'the old answers' if same else 'other answers'}"
    )
    return same


def _counter(voice: Voice, name: str) -> Callable[[int, int], None] | None:
    tick = voice.tick
    return None if tick is None else lambda done, total: tick(name, done, total, {})


def _world(seed: int) -> int:
    """Far from the seeds that the shipped checkpoints were trained on and benchmarks are measured on."""
    return 50_000 + 10 * seed


__all__ = ["DemoOutcome", "Scale", "Swap", "Voice", "make_config", "tell"]
