"""A disk that loses power, fails at the Nth call, or takes the process with it.

`shim.c` is compiled and loaded before libc; it writes down what a process does to the files of one folder. `states`
makes of such a record what a disk may hold after a power cut at any moment: `ordered`, as journaling file systems do
(names in order, up to the last flush at least; of a file what was flushed, then a beginning of the rest), and `strict`,
as POSIX allows (names of each folder that was not flushed, and any part of the data that was not)."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

_HEAD = struct.Struct("<cIIQQ")
_SECTOR = 4_096


@dataclass(frozen=True, slots=True)
class Event:
    """c create, t truncate to nothing, w write, l set length, s flush, r rename, k link, u remove, d make a folder."""

    kind: str
    ino: int
    at: int
    path: str
    data: bytes


@lru_cache(maxsize=1)
def shim() -> Path | None:
    """The compiled shim; None where there is no C compiler, or no Linux."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    made = Path(tempfile.mkdtemp(prefix="memkit-shim-")) / "shim.so"
    source = Path(__file__).with_name("shim.c")
    flags = ["-shared", "-fPIC", "-O1", "-w"]
    done = subprocess.run([compiler, *flags, "-o", made, source, "-ldl", "-lpthread"], capture_output=True, check=False)
    return made if done.returncode == 0 else None


def run_shimmed(
    script: str, arguments: Sequence[str], root: Path, *, log: Path | None = None, kill_at: int = 0
) -> subprocess.CompletedProcess[str]:
    found = shim()
    assert found is not None
    env: dict[str, str] = dict(os.environ) | {"LD_PRELOAD": str(found), "FAULTS_ROOT": str(root)}
    if log is not None:
        env["FAULTS_LOG"] = str(log)
    if kill_at:
        env["FAULTS_KILL_AT"] = str(kill_at)
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], env=env, capture_output=True, text=True, timeout=240, check=False
    )


def read_log(log: Path) -> list[Event]:
    raw, at, found = log.read_bytes(), 0, list[Event]()
    while at + _HEAD.size <= len(raw):
        kind, name, size, ino, place = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        path, data = raw[at : at + name].decode("utf-8", "replace"), raw[at + name : at + name + size]
        at += name + size
        found.append(Event(kind.decode(), ino, place, path, data))
    return found


def with_unseen_renames(events: Sequence[Event], root: Path) -> list[Event]:
    """Some renames go past libc. They show where a file is met under another name than those that it was given; they
    were made right after its last write. Files get numbers of their own: those of the disk are used again. `root`: as
    the process left it."""
    left = {path.stat().st_ino: str(path) for path in root.rglob("*") if path.is_file()}
    folders = {str(root), *(one.path for one in events if one.kind == "d")}
    current: dict[int, int] = {}
    names: dict[int, set[str]] = {}
    wrote: dict[int, int] = {}
    moved: dict[int, list[Event]] = {}
    plain: list[Event] = []

    def met(number: int, path: str) -> None:
        own = names[number]
        if path not in own:
            before = min(own, default=path)
            moved.setdefault(wrote[number], []).append(Event("r", 0, 0, before, path.encode()))
            own.symmetric_difference_update({before, path})

    for place, one in enumerate(events):
        number = None if one.path in folders else current.get(one.ino)
        match one.kind:
            case "c":
                number = current[one.ino] = place + 1
                names[number], wrote[number] = {one.path}, place
            case "r" | "k":
                for own in names.values():
                    if one.path in own:
                        own.add(one.data.decode())
                        own -= {one.path} if one.kind == "r" else set()
            case _ if number is not None:
                met(number, one.path)
                wrote[number] = place if one.kind in "wlt" else wrote[number]
                if one.kind == "u":
                    names[number].discard(one.path)
                    if not names[number]:
                        del current[one.ino]
        plain.append(replace(one, ino=number or 0))
    for ino, path in left.items():
        if ino in current:
            met(current[ino], path)
    return [one for place, event in enumerate(plain) for one in (event, *moved.get(place, ()))]


@dataclass
class _File:
    flushed: bytearray = field(default_factory=bytearray)
    waiting: list[Event] = field(default_factory=list[Event])


@dataclass
class _Disk:
    """What is on the disk, and what only the machine knows yet. Names wait in the order of the calls."""

    names: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    """Path → file; None for a folder."""
    waiting: list[Event] = field(default_factory=list[Event])
    files: dict[int, _File] = field(default_factory=dict[int, _File])
    strict: bool = False

    def do(self, event: Event) -> None:
        match event.kind:
            case "w" | "l" | "t":
                self.files.setdefault(event.ino, _File()).waiting.append(event)
            case "s":
                self._flush(event)
            case "c":
                self.files[event.ino] = _File()
                self.waiting.append(event)
            case _:
                self.waiting.append(event)

    def _flush(self, event: Event) -> None:
        if (file := self.files.get(event.ino)) is not None:
            for one in file.waiting:
                _write(file.flushed, one)
            file.waiting.clear()
        folder = event.ino not in self.files
        if self.strict:
            mine = [one for one in self.waiting if folder and os.path.dirname(one.path) == event.path]
        else:
            mine = list(self.waiting)
        for one in mine:
            _name(self.names, one)
        gone = {id(one) for one in mine}
        self.waiting = [one for one in self.waiting if id(one) not in gone]

    def cut(self, rng: random.Random) -> tuple[dict[str, int | None], dict[int, bytes]]:
        """What a power cut now may leave."""
        names = dict(self.names)
        if self.strict:
            kept_in = {folder: rng.random() for folder in sorted({os.path.dirname(one.path) for one in self.waiting})}
            by_folder: dict[str, list[Event]] = {}
            for one in self.waiting:
                by_folder.setdefault(os.path.dirname(one.path), []).append(one)
            kept = {id(one) for at, ones in by_folder.items() for one in ones[: round(kept_in[at] * len(ones))]}
            left = [one for one in self.waiting if id(one) in kept]
        else:
            left = self.waiting[: rng.randint(0, len(self.waiting))]
        for one in left:
            _name(names, one)
        data: dict[int, bytes] = {}
        for ino in {ino for ino in names.values() if ino is not None}:
            file = self.files.get(ino, _File())
            content = bytearray(file.flushed)
            for one in self._survivors(file.waiting, rng):
                _write(content, one)
            data[ino] = bytes(content)
        return names, data

    def _survivors(self, waiting: Sequence[Event], rng: random.Random) -> Iterator[Event]:
        if not self.strict:
            yield from waiting[: rng.randint(0, len(waiting))]
            return
        share = rng.random()
        for one in waiting:
            if rng.random() >= share:
                continue
            if one.kind == "w" and rng.random() < 0.2:  # torn
                yield Event("w", one.ino, one.at, one.path, one.data[: rng.randrange(0, len(one.data) + 1, 512)])
            else:
                yield one


def _write(content: bytearray, event: Event) -> None:
    if event.kind == "t":
        content.clear()
    elif event.kind == "l":
        del content[event.at :]
        content.extend(bytes(event.at - len(content)))
    else:
        content.extend(bytes(max(0, event.at - len(content))))
        content[event.at : event.at + len(event.data)] = event.data


def _name(names: dict[str, int | None], event: Event) -> None:
    match event.kind:
        case "c":
            names[event.path] = event.ino
        case "d":
            names[event.path] = None
        case "u":
            names.pop(event.path, None)
        case "r":
            to, start = event.data.decode(), event.path + "/"
            for path in [path for path in names if path == event.path or path.startswith(start)]:
                names[to + path[len(event.path) :]] = names.pop(path)
        case _:
            if event.path in names:
                names[event.data.decode()] = names[event.path]


@dataclass(frozen=True)
class State:
    number: int
    strict: bool
    at: int
    """Events that had happened."""
    names: Mapping[str, int | None]
    data: Mapping[int, bytes]

    def write(self, root: Path, to: Path) -> None:
        """As a folder. What has lost its folder is lost with it."""
        folders = {str(root), *(path for path, ino in self.names.items() if ino is None)}
        for path, ino in sorted(self.names.items()):
            parents = [str(one) for one in Path(path).parents if str(one).startswith(str(root))]
            if not all(parent in folders for parent in parents):
                continue
            target = to / os.path.relpath(path, root)
            if ino is None:
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.data[ino])


def states(events: Sequence[Event], root: Path, count: int, seed: int) -> Iterator[State]:
    """`count` states after a cut, half of them strict, at moments drawn by `seed`."""
    for strict in (False, True):
        rng = random.Random(f"{seed}/{strict}")
        moments = sorted(rng.randint(1, len(events)) for _ in range(count // 2))
        disk, done = _Disk(strict=strict), 0
        for number, moment in enumerate(moments):
            for event in events[done:moment]:
                disk.do(event)
            done = moment
            names, data = disk.cut(rng)
            yield State(number, strict, moment, names, data)
