"""Random histories against a model of what is remembered: after each step every user's memories are the model's, and
from time to time the whole store is checked."""

from __future__ import annotations

import json
import random
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from memkit import Memory
from memkit.errors import MemkitError
from memkit.ops import BankState
from tests.faults._tally import Tally

USERS = ("ana", "bob'; --", "*")
CHECK_EVERY = 250


def model(messages: list[dict[str, str]]) -> str:
    """Keeps what was said; of two things in one turn, both."""
    said = re.findall(r"canary\d+of\d", messages[-1]["content"].partition("NEW turns:")[2])
    ops = [{"op": "ADD", "id": None, "text": f"Bees live in {one}.", "turn": 1} for one in dict.fromkeys(said)]
    return json.dumps({"operations": ops})


@dataclass
class _Expected:
    """What one user has: memory → text; each op that can be undone → its memory and the text before."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    ops: dict[str, tuple[str, str | None]] = field(default_factory=dict[str, "tuple[str, str | None]"])
    said: int = 0
    turns: list[str] = field(default_factory=list[str])


class _History:
    def __init__(self, path: Path, seed: int, tally: Tally) -> None:
        self.path, self.rng, self.tally = path, random.Random(seed), tally
        self.memory = self._open()
        self.expected = {user: _Expected() for user in USERS}
        self.number = 0

    def _open(self) -> Memory:
        return Memory(self.path, model=model, mode="fused", config={"workers": 0, "project_every": 64})

    def step(self) -> str:
        user = self.rng.choice(USERS)
        chances = {"add": 40, "say": 20, "update": 12, "delete": 8, "undo": 10, "search": 6, "all": 1, "rest": 3}
        what = self.rng.choices(list(chances), list(chances.values()))[0]
        {
            "add": lambda: self._add(user, infer=False),
            "say": lambda: self._add(user, infer=True),
            "update": lambda: self._change(user, ends=False),
            "delete": lambda: self._change(user, ends=True),
            "undo": lambda: self._undo(user),
            "search": lambda: self._search(user),
            "all": lambda: self._end_all(user),
            "rest": self._rest,
        }[what]()
        self.tally.count(what)
        return f"{what} of {user}"

    def _add(self, user: str, *, infer: bool) -> None:
        mine = self.expected[user]
        words = f"Bees live in canary{self.number}of{USERS.index(user)}" + ("" if infer else ", and I saw them.")
        self.number += 1
        result = self.memory.add(words, user_id=user, infer=infer)
        mine.said, mine.turns = mine.said + 1, [*mine.turns, result.trace_id]
        self._take(mine, [op.op_id for op in result.ops], user)

    def _take(self, mine: _Expected, op_ids: list[str], user: str) -> None:
        for op in self.memory.history(user_id=user):
            if op.op_id in op_ids and op.memory_id is not None:
                before = mine.texts.get(op.memory_id)
                if before != (op.before and op.before.text):
                    self.tally.broken.append(f"{op.op_id} of {user} met another state than what was there")
                mine.ops[op.op_id] = (op.memory_id, before)
                if op.after is None:
                    mine.texts.pop(op.memory_id, None)
                else:
                    mine.texts[op.memory_id] = op.after.text

    def _newest(self, user: str) -> str:
        return self.memory.history(user_id=user)[-1].op_id

    def _change(self, user: str, *, ends: bool) -> None:
        mine = self.expected[user]
        if not mine.texts:
            return
        name = self.rng.choice(sorted(mine.texts))
        before = mine.texts[name]
        if ends:
            self.memory.delete(name, user_id=user)
            del mine.texts[name]
        else:
            mine.texts[name] = f"Bees moved to canary{self.number}of{USERS.index(user)}."
            self.number += 1
            self.memory.update(name, mine.texts[name], user_id=user)
        mine.ops[self._newest(user)] = (name, before)

    def _undo(self, user: str) -> None:
        """Refused where something later stands on it; then nothing has changed."""
        mine = self.expected[user]
        if not mine.ops:
            return
        op_id = self.rng.choice(sorted(mine.ops))
        name, before = mine.ops[op_id]
        try:
            self.memory.undo(user_id=user, op_id=op_id)
        except MemkitError:
            self.tally.count("refused undo")
            return
        mine.ops[self._newest(user)] = (name, mine.texts.get(name))
        del mine.ops[op_id]
        if before is None:
            mine.texts.pop(name, None)
        else:
            mine.texts[name] = before

    def _search(self, user: str) -> None:
        mark = f"of{USERS.index(user)}"
        words = f"where do bees live canary{self.rng.randrange(self.number + 1)}?"
        hits = self.memory.search(words, user_id=user, k=20)
        if any(mark not in hit.text for hit in hits):
            self.tally.broken.append(f"a search of {user} found what others said")

    def _end_all(self, user: str) -> None:
        mine = self.expected[user]
        if self.rng.random() < 0.5:
            self.memory.erase(user_id=user)
            self.expected[user] = _Expected()
        else:
            self.memory.delete_all(user_id=user)
            mine.texts.clear()
            mine.ops.clear()  # each is followed by a deletion now

    def _rest(self) -> None:
        match self.rng.randrange(3):
            case 0:
                self.memory.close()
                self.memory = self._open()
            case 1:
                self.memory.flush()
            case _:
                self.memory.prune(days=0)

    def check(self, what: str) -> None:
        for user, mine in self.expected.items():
            found = {one.id: one.text for one in self.memory.list(user_id=user, limit=10_000)}
            if found != mine.texts:
                self.tally.broken.append(f"{what}: {user} has {len(found)} memories, and should have {len(mine.texts)}")
                mine.texts = found

    def check_whole(self, what: str) -> None:
        """As research has it: each turn's words, each turn in one state, the fold, no other scope, a clean doctor."""
        self.memory.flush()
        journal = self.memory._runtime.journal
        for user, mine in self.expected.items():
            states = {one.intake.intake_id: one.status for one in journal.iter_intakes(user_id=user)}
            if sorted(states) != sorted(mine.turns) or {*states.values()} - {"applied"}:
                self.tally.broken.append(f"{what}: the turns of {user} are not those that were acknowledged")
            for bank, _ in journal.user_banks(user):
                ops = journal.ops(bank=bank)
                if list(BankState().fold(ops)) != [record for _, record in journal.live(bank=bank)]:
                    self.tally.broken.append(f"{what}: {user}'s memories are not what the log makes")
                if len({op.op_id for op in ops}) != len(ops) or any(op.bank != bank for op in ops):
                    self.tally.broken.append(f"{what}: an op of {user} is there twice, or elsewhere")
        self.tally.broken += [f"{what}: the doctor finds {one.code}" for one in self.memory.doctor()]


def histories(steps: int, seed: int) -> Tally:
    tally = Tally(seed)
    while tally.tried < steps:
        with tempfile.TemporaryDirectory() as folder:
            history = _History(Path(folder) / "s", seed + tally.tried, tally)
            for number in range(min(1_000, steps - tally.tried)):
                tally.tried += 1
                try:
                    what = f"step {number}, {history.step()}"
                except MemkitError as error:
                    tally.broken.append(f"step {number} is refused, {type(error).__name__}: {error.what}: {error.why}")
                    break
                history.check(what)
                if number % CHECK_EVERY == CHECK_EVERY - 1:
                    history.check_whole(what)
            history.check_whole("at the end")
            history.memory.close()
    return tally
