"""`memkit demo`: the main job on the embedded defaults. No key, no network, no model download.

The circle of learning belongs to the trainer, which this package never imports: a package that has one to show says so
with an entry point of the group `memkit.demo`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from memkit.cli import log, show
from memkit.memory import Memory

_TALK = [
    ("2026-03-02", "Hi there! How are you today?"),
    ("2026-03-02", "I live in Oslo and I work as a nurse."),
    ("2026-03-09", "I adopted a dog named Buddy."),
    ("2026-04-20", "I adopted another dog named Scout."),
    ("2026-05-11", "I moved to Bergen last week."),
    ("2026-05-11", "I no longer work as a nurse."),
]


def circle() -> Callable[..., int] | None:
    """The demonstration of an installed trainer; None where there is none, or something that it needs is missing."""
    for point in entry_points(group="memkit.demo"):
        try:
            return point.load()
        except ModuleNotFoundError:
            show.err.print("[dim]the part where it learns needs the trainer: pip install 'memkit\\[train]'[/]")
    return None


def run(keep: Path | None, json: bool) -> int:
    with tempfile.TemporaryDirectory() as scratch, Memory(keep or Path(scratch) / "memory") as memory:
        told = _tell(memory, quiet=json)
    if json:
        show.as_json(told)
    return 0


def _tell(memory: Memory, *, quiet: bool) -> dict[str, Any]:
    ana = memory.user("ana")
    say = (lambda *_: None) if quiet else show.out.print
    say("[bold]1. A conversation becomes memories[/] (built-in rules, no model, no network)\n")
    before_the_move = 0
    for day, text in _TALK:
        result = ana.add(text, at=datetime.fromisoformat(day).replace(hour=10, tzinfo=UTC), session_id=day)
        if "moved" in text:
            before_the_move = min(op.seq for op in result.ops) - 1
        say(f"  [dim]{day}[/] {show.visible(text)}")
        for op in result.ops:
            say(f"             {show.action(op)} {show.change(op)}")
    say("\n[bold]2. What is remembered now[/]")
    if not quiet:
        show.memories(ana.list())
    now = ana.search("Where does Ana live?", k=1)
    then = ana.search("Where does Ana live?", k=1, as_of=before_the_move)
    say("[bold]3. Ask, now and as of an earlier moment[/]")
    say(f"  now                     {show.visible(now[0].text)}  [dim]{show.visible(now[0].why)}[/]")
    say(f"  as of sequence no. {before_the_move:<4} {show.visible(then[0].text)}")
    say("\n[bold]4. Undo the last thing that was said[/]")
    last = [op for op in ana.history() if op.action in ("delete", "update")][-1]
    undone = ana.undo(op_id=last.op_id)
    say(f"  took back  {show.action(last)} {show.change(last)}")
    say(f"  wrote      {show.action(undone[0])} {show.change(undone[0])}   [dim]history keeps both[/]")
    say("\n[bold]5. The journal's story of one decision[/] (memkit log)\n")
    story = log.read(memory, "ana", None, 20)
    chosen = [one for one in story if one["role"] == "manager" and one["candidates"]][-1:] or story[-1:]
    if not quiet:
        log.tell(chosen)
    return {
        "memories": [record.text for record in ana.list()],
        "now": now[0].text,
        "as_of": then[0].text,
        "undone": [op.op_id for op in undone],
        "ops": len(ana.history()),
    }
