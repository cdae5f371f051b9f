"""`memkit-train demo`: the circle, told as it happens, with a short table and a report at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from memkit.cli import show
from memkit.errors import InvalidInput
from memkit_train.cli.progress import progress
from memkit_train.files.run_folder import Tick, write_json
from memkit_train.lab.demo import refusal
from memkit_train.lab.demo.figures import figures, rows
from memkit_train.lab.demo.page import page
from memkit_train.lab.demo.panel import telling
from memkit_train.lab.demo.story import DemoOutcome, Scale, tell

REFUSED = 3


def run(keep: Path | None, *, json: bool, seed: int = 0, scale: Scale | None = None) -> int:
    """Exit code 0: the story came to its end, and the figures say how much better the answers are. 3: the gate refused
    what was learned, and the end says why. 1: users noticed the swap, or the rollback did not bring the old answers."""
    with _folder(keep) as folder, progress(json) as tick:
        told = _told(folder, _Aloud(tick, quiet=json), seed, scale)
        if json:
            show.as_json(told.to_json())
        else:
            _end(told, kept=keep)
    if told.outcome.digest is None:
        return REFUSED
    return 0 if told.unnoticed else 1


def seeds(keep: Path, count: int, *, json: bool, scale: Scale | None = None) -> int:
    """The same with other worlds and other luck: how often does it come true?"""
    told: list[DemoOutcome] = []
    with _folder(keep) as folder:
        for seed in range(count):
            one = _told(folder / f"seed-{seed}", _Aloud(None, quiet=True), seed, scale)
            told.append(one)
            if json:
                continue
            what = figures(one.compared) if one.compared else one.outcome.why
            show.out.print(f"seed {seed}: {'true' if one.true else 'not true'}, {what}, {one.cpu_s:.0f} CPU-s")
    true = sum(one.true for one in told)
    if json:
        show.as_json([one.to_json() for one in told])
    else:
        show.out.print(f"{true} of {count}")
    return 0 if true >= 0.9 * count else 1


def _told(folder: Path, voice: _Aloud, seed: int, scale: Scale | None) -> DemoOutcome:
    """The story, with its page and its figures beside it."""
    told = tell(folder, voice, seed=seed, scale=scale)
    (folder / "report.html").write_text(page(told), encoding="utf-8")
    write_json(folder / "figures.json", told.to_json())
    return told


class _Aloud:
    def __init__(self, tick: Tick | None, *, quiet: bool) -> None:
        self.tick, self._quiet, self._parts = tick, quiet, 0

    def part(self, title: str) -> None:
        self._parts += 1
        if not self._quiet:
            show.out.print(f"\n[bold]{self._parts}. {show.visible(title)}[/]")

    def say(self, text: str) -> None:
        if not self._quiet:
            show.out.print(f"   {show.visible(text)}")


@contextmanager
def _folder(keep: Path | None) -> Generator[Path]:
    if keep is not None:
        if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
            raise InvalidInput(f"{keep} is not an empty folder", fix="name a new one: a story begins with an empty log")
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="memkit-demo-") as scratch:
        yield Path(scratch)


def _end(told: DemoOutcome, *, kept: Path | None) -> None:
    if told.compared is not None:
        show.out.print("\n[bold]Questions it never saw, before and after[/]")
        for pair in telling(told.compared.pairs):
            asked = pair.before.question
            _case(refusal.GateQuestion(asked.text, asked.expected, pair.before.answer, pair.after.answer, pair.gain))
    if told.outcome.digest is None:
        show.out.print("\n[bold]The gate refused what was learned[/], so nothing was swapped in, because:")
        for reason in refusal.reasons(told.outcome):
            show.out.print(f"   {show.visible(reason)}")
        if cases := refusal.pick_questions(told.outcome):
            show.out.print("\n[bold]Questions it never saw, as they are answered and as they would have been[/]")
        for one in cases:
            _case(one)
    show.table("", ["", ""], rows(told))
    if kept is not None:
        show.out.print(f"report: {show.visible(str(told.folder / 'report.html'))}")
    else:
        show.out.print("[dim]nothing was kept; --keep FOLDER keeps the store, the run and report.html[/]")


def _case(one: refusal.GateQuestion) -> None:
    colour = "green" if one.gain > 0 else "red"
    show.out.print(f"   {show.visible(one.question)}  [dim]({show.visible(one.expected)})[/]")
    show.out.print(f"      {_in_one_line(one.before)} → [{colour}]{_in_one_line(one.after)}[/]")


def _in_one_line(answer: str) -> str:
    return show.visible("; ".join(answer.splitlines()))


QUICK = Scale(users=20, panel=4, visitors=4)
"""Every step of the story on next to nothing: the gate will say that it cannot tell."""

__all__ = ["QUICK", "run", "seeds"]
