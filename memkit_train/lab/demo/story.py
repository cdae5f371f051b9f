"""Serve → measure → retrain → swap while serving → measure → roll back. Nothing is staged: every figure is of what
happened, also when the gate refuses.

The app is a support desk: the small manager (`model="small"`) keeps what its users say, the app reads five facts and
answers from them. The manager was made for talk at large. What these users care for, in passing and in few words (what
they tried, which light it shows, what it does now instead), it often leaves or adds beside the old. Users rate some
answers, some of them wrongly, say now and then what would have been right, and never say anything about memories. That,
and nothing else, is what `retrain` learns from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from memkit.backbones.small import SmallBackbone
from memkit.models import JSON
from memkit_train.files.run_folder import Tick
from memkit_train.lab.demo import panel
from memkit_train.lab.demo.chatbot import AnsweredQuestion, Chatbot, Visit
from memkit_train.lab.demo.habits import find_habits
from memkit_train.lab.field import FieldUser, generate_field, read_answer
from memkit_train.lab.worlds import Episode, Manners
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.run import RunOutcome, retrain

ALIAS, ROLES = "production", ("extractor", "manager")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything."""

    users: int = 100
    """Whose talk is logged; the gate judges on part of them."""
    panel: int = 20
    visitors: int = 8
    """Who talk to the chatbot while the adapter is swapped."""
    rated: float = 0.3
    wrong: float = 0.1
    """Share of the ratings that say the opposite of the truth."""
    corrects: float = 0.35
    """After a wrong answer: says the right one, as people do."""


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
    with open_desk(store) as chatbot:
        log = _serve(chatbot, scale, seed, voice)
        before = _panel(chatbot, scale, seed, "before", voice)
        voice.part("Retrain from the log alone")
        tonight = max(one.question.asked_at for one in log) + timedelta(days=1)  # decisions count less as they age
        outcome = retrain(make_config(store, folder / "runs", seed), tick=voice.tick, now=tonight)
        compared, swap, back = None, None, False
        if outcome.digest is None:
            voice.say("the gate refused it; the chatbot goes on with what it had")
        else:
            voice.say(f"passed every gate, published as {outcome.digest[:12]}")
            swap = _swap(chatbot, outcome.digest, scale, seed, voice)
            after = _panel(chatbot, scale, seed, "after", voice)
            compared = panel.compare(before, after, find_habits(chatbot.memory))
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
def open_desk(store: Path) -> Generator[Chatbot]:
    """The small manager keeps what is said; the app answers from the facts that it reads."""
    options = {"embedder": "minilm", "keep_turns": "all"}
    with (
        closing(SmallBackbone()) as small,
        Chatbot(store, small, reads=read_answer, users=FieldUser, **options) as chatbot,
    ):
        yield chatbot


def make_config(store: Path, output: Path, seed: int) -> TrainConfig:
    """What `memkit-train retrain` is given. Its users care for what the shipped manager leaves: who learns that from
    them keeps more of the same talk. Junk, answers and all else are judged as always."""
    sets = {
        "data.store": store,
        "data.embedder": "minilm",
        "data.heldout_share": 0.42,
        "model.base": "small",
        "method.seed": seed,
        "gate.growth": 0.3,
        "output": output,
    }
    return load(None, [f"{name}={value}" for name, value in sets.items()])


def _serve(chatbot: Chatbot, scale: Scale, seed: int, voice: Voice) -> list[AnsweredQuestion]:
    voice.part(f"A chatbot with a memory serves {scale.users} users")
    manners = Manners(scale.rated, scale.wrong, corrects=scale.corrects)
    episodes = generate_field(scale.users, seed=seed)
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
    return generate_field(scale.panel, seed=seed, side="panel")


def _swap(chatbot: Chatbot, digest: str, scale: Scale, seed: int, voice: Voice) -> Swap:
    """Visitors talk all the while; some come only when the new adapter is there, however long that took."""
    voice.part("Swap the adapter in while the chatbot is serving")
    episodes = generate_field(scale.visitors, seed=seed, side="visitors")
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
        chatbot.memory.adapters.promote(ALIAS, digest, roles=ROLES)
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
    chatbot.memory.adapters.promote(ALIAS, digest, roles=ROLES)
    voice.say(
        f"{len(again)} questions asked again after the rollback: {'the old answers' if same else 'other answers'}"
    )
    return same


def _counter(voice: Voice, name: str) -> Callable[[int, int], None] | None:
    tick = voice.tick
    return None if tick is None else lambda done, total: tick(name, done, total, {})


__all__ = ["DemoOutcome", "Scale", "Swap", "Voice", "make_config", "tell"]
