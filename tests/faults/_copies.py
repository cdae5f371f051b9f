"""Backups and exports while four threads write: each restores to a state that existed, and is healthy."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from memkit import Memory
from memkit.errors import MemkitError
from memkit.runtime.copies import restore
from tests.faults._tally import Tally

WRITERS = 4
EACH = 10
"""Copies of one store, which grows."""


def copies(count: int, seed: int) -> Tally:
    """`count` of each. What a writer says is numbered, so that a copy shows where it was cut."""
    tally = Tally(seed)
    for number in range(0, count, EACH):
        with tempfile.TemporaryDirectory() as folder:
            _copied(Path(folder), range(number, min(count, number + EACH)), tally)
    return tally


def _copied(root: Path, numbers: range, tally: Tally) -> None:
    with _open(root / "s", project_every=8) as memory, _writing(memory, tally) as said:
        for number in numbers:
            before = list(said)
            reached = memory.backup(root / f"backup{number}")
            _restored(root, number, reached, before, tally)
            before = list(said)
            memory.export(root / f"export{number}")
            _imported(root, number, before, tally)


def _open(path: Path, **config: int) -> Memory:
    return Memory(path, model=_model, mode="fused", config=config)


def _model(messages: list[dict[str, str]]) -> str:
    text = messages[-1]["content"].split("NEW turns:")[1].strip().splitlines()[-1][-60:]
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": f"Said: {text}", "turn": 1}]})


@contextmanager
def _writing(memory: Memory, tally: Tally) -> Iterator[list[int]]:
    """How much each writer was told to be safe."""
    stop, said = threading.Event(), [0] * WRITERS

    def write(number: int) -> None:
        try:
            while not stop.is_set():
                memory.add(f"I said {said[number]}.", user_id=f"u{number}")
                said[number] += 1
                if said[number] % 9 == 0:
                    memory.flush()
        except Exception as error:
            tally.broken.append(f"a writer: {type(error).__name__}: {error}")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for one in writers:
        one.start()
    try:
        yield said
    finally:
        stop.set()
        for one in writers:
            one.join()


def _restored(root: Path, number: int, reached: int, before: Sequence[int], tally: Tally) -> None:
    what = f"backup {number}"
    tally.tried += 1
    try:
        if restore(root / f"backup{number}", root / f"restored{number}") != reached:
            tally.broken.append(f"{what}: it restores to another state than it was made of")
        with _open(root / f"restored{number}") as memory:
            _check(memory, before, tally, what)
    except MemkitError as error:
        tally.broken.append(f"{what}: {type(error).__name__}: {error}")


def _imported(root: Path, number: int, before: Sequence[int], tally: Tally) -> None:
    what = f"export {number}"
    tally.tried += 1
    try:
        with _open(root / f"imported{number}", workers=0) as memory:
            memory.import_(root / f"export{number}")
            _check(memory, before, tally, what)
    except MemkitError as error:
        tally.broken.append(f"{what}: {type(error).__name__}: {error}")


def _check(memory: Memory, before: Sequence[int], tally: Tally, what: str) -> None:
    """Each writer's words up to a moment, in order, with none left out, and all that were safe before it was made."""
    journal = memory._runtime.journal
    for number, safe in enumerate(before):
        said = [turn.text for turn in journal.turns() if turn.bank.user_id == f"u{number}"]
        if said != [f"I said {n}." for n in range(len(said))]:
            tally.broken.append(f"{what}: u{number}'s words have holes")
        if len(said) < safe:
            tally.broken.append(f"{what}: {safe - len(said)} turns that u{number} was told to be safe are missing")
    memory.add("I live in Oslo.", user_id="u0")
    memory.flush()
    tally.broken += [f"{what}: the doctor finds {one.code}: {one.what[:100]}" for one in memory.doctor()]
    decided = len(memory.decisions(user_id="u1", last=10_000))
    made = len(memory.list(user_id="u1", limit=10_000))
    if decided != made:
        tally.broken.append(f"{what}: {decided} decisions made {made} memories")
