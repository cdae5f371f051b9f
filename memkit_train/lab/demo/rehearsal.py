"""Every step of training once, on next to nothing and on the device that is asked for: what `doctor --gpu` runs. The
shipped tiny model talks to a few invented users, learns from their log, is judged, published, and served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from memkit.backbones.hf import HFBackbone
from memkit.errors import InvalidInput, MemkitError
from memkit.seams.backbone import Backbone
from memkit_train.errors import NoRows, TrainError
from memkit_train.lab import tiny
from memkit_train.lab.demo.chatbot import SILENT, Chatbot, Visit
from memkit_train.lab.worlds import Knobs, Manners, generate
from memkit_train.retrain import run as commands
from memkit_train.retrain.collect import open_source, sides, validation
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.doctor import Finding

USERS = 8
_KNOBS = Knobs(sessions=3, turns=3, extra_turns=0, probes=2, questions=4)
_SERVED = {"answer_candidates": 8, "workers": 0}
"""The tiny checkpoints were taught to read up to eight memories."""
_LETS_PASS = {
    "margin": 0.99,
    "min_probes": 1,
    "min_users": 1,
    "canaries": 1,
    "alternatives": 12,
    **dict.fromkeys(("format", "deletions", "growth", "junk", "parked", "update", "abstain"), 1e9),
    **dict.fromkeys(("tokens", "work", "calls", "memorisation"), 1e9),
}
"""The gate's whole work is done; its verdict is about a model that learned from eight users."""


def rehearse(device: str, folder: Path) -> Iterator[Finding]:
    """One finding a step; nothing comes after one that failed. `device`: cpu, or cuda and the number of one."""
    if device != "cpu" and not device.startswith("cuda"):
        raise InvalidInput(f"there is no device {device!r} to try", fix="use cuda, cuda:1, … or cpu")
    one = _Rehearsal(device, folder)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("load", one.load),
        ("sample", one.sample),
        ("sft", one.imitate),
        ("grpo", one.reinforce),
        ("gate, publish", one.retrain),
        ("promote, serve", one.serve),
    ]
    for name, do in steps:
        try:
            yield Finding(name, True, do() + one.peak())
        except Exception as error:  # whatever a device or a driver does, it is told in one line
            known = error if isinstance(error, MemkitError) else TrainError(f"{type(error).__name__}: {error}"[:300])
            yield Finding(name, False, f"{known.what}: {known.why}" if known.why else known.what, known.fix)
            return


class _Rehearsal:
    def __init__(self, device: str, folder: Path) -> None:
        self.device, self.base = device, tiny.checkpoint("biased")
        self.store, self.runs = folder / "store", folder / "runs"
        self.seed = 0
        """Of a split that leaves somebody on each side."""
        self.digest = ""

    def load(self) -> str:
        import torch

        if self.device != "cpu" and not torch.cuda.is_available():
            raise TrainError(
                "no GPU is in reach",
                why=f"torch {torch.__version__} finds no CUDA device",
                fix="install a torch that is built for CUDA and your driver; --device cpu tries the same steps without",
            )
        self._model().close()
        return f"{self.base.name} on {self.device}"

    def sample(self) -> str:
        with self._model() as model:
            found = self._talk(model, "before", Manners(rated=1.0, wrong_ratings=0.0))
        self.seed = next(seed for seed in range(1_000) if self._divides(seed))
        return f"{found} answers of {USERS} invented users"

    def imitate(self) -> str:
        _, made = commands.imitate(self._config(), smoke=True)
        return f"{made['steps']} steps of {commands.SMOKE_ROWS} rows"

    def reinforce(self) -> str:
        _, done = commands.reinforce(self._config(), smoke=True)
        return f"{done.steps} steps, {done.generated} sampled replies"

    def retrain(self) -> str:
        done = commands.retrain(self._config())
        if done.digest is None:
            raise TrainError(f"the gate {done.status} what it lets pass", why=done.why)
        self.digest = done.digest
        assert done.verdict is not None
        return f"{len(done.verdict.checks)} checks on {done.verdict.probes} probes"

    def serve(self) -> str:
        with self._model() as model:
            found = self._talk(model, "after", SILENT)
        with open_source(self._config()) as source:
            served = sum(one.adapter == self.digest for one in source.decisions(user_id="after/0"))
        if not served:
            raise TrainError("no decision went through the promoted adapter")
        return f"{found} answers, with the adapter that was trained here"

    def peak(self) -> str:
        import torch

        if not self.device.startswith("cuda"):
            return ""
        most = torch.cuda.max_memory_allocated() / 1e9
        torch.cuda.reset_peak_memory_stats()
        return f"; at most {most:.2f} GB"

    def _model(self) -> HFBackbone:
        return HFBackbone(self.base, threads=1, device=self.device)

    def _talk(self, model: Backbone, when: str, manners: Manners) -> int:
        episodes = generate(USERS, seed=0, knobs=_KNOBS, split="train")
        visits = [Visit(one, f"{when}/{number}", manners) for number, one in enumerate(episodes)]
        with Chatbot(self.store, model, explore=0.5, config=_SERVED) as chatbot:
            if self.digest:
                chatbot.memory.adapters.promote("production", self.digest)
            return len(chatbot.serve(visits))

    def _divides(self, seed: int) -> bool:
        """Opaque ids are salted anew in every store."""
        with suppress(NoRows), open_source(config := self._config(seed)) as source:
            asks = config.model_copy(update={"method": config.method.model_copy(update={"polish": True})})
            return bool(len(sides(source, asks)[0]) > 2 and sides(source, asks)[1] and validation(source, asks))
        return False

    def _config(self, seed: int | None = None) -> TrainConfig:
        sets: dict[str, Any] = {
            "data.store": self.store,
            "data.split_seed": self.seed if seed is None else seed,
            "data.heldout_share": 0.3,
            "data.validation_share": 0.3,
            "data.min_labels": 1,
            "data.roles": "[manager]",
            "model.base": self.base,
            "model.device": self.device,
            "output": self.runs,
            **{f"gate.{name}": value for name, value in _LETS_PASS.items()},
        }
        return load(None, [f"{name}={value}" for name, value in sets.items()])


__all__ = ["rehearse"]
