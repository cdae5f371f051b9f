"""Short ways to make what a journal takes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from memkit.journal import Intake, Journal
from memkit.models import Bank, OpDraft, Turn
from memkit.seams.clock import RandomIds, SystemClock

IDS = RandomIds()
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA = Bank("ana")
ROOT = Path(__file__).parents[2]


def open_journal(path: Path, **options: bool) -> Journal:
    return Journal.open(path, clock=SystemClock(), ids=RandomIds(), **options)


def intake(*texts: str, bank: Bank = ANA, key: str | None = None, session: str = "s", infer: bool = True) -> Intake:
    name = IDS.new("i")
    turns = tuple(
        Turn(IDS.new("t"), name, bank, place, "user", text, AT, session_id=session, at_given=True)
        for place, text in enumerate(texts)
    )
    return Intake(name, bank, session, turns, infer, key, datetime.now(UTC))


def adds(*texts: str) -> list[OpDraft]:
    return [OpDraft("add", text=text, source_turns=(f"t_{text}",), at=AT) for text in texts]


def add(journal: Journal, *texts: str, bank: Bank = ANA) -> list[str]:
    """Applied facts; their memory ids."""
    ops = journal.apply(bank, adds(*texts), decision_id=IDS.new("d"), at=AT)
    return [str(op.memory_id) for op in ops]


def texts(journal: Journal, bank: Bank = ANA) -> list[str]:
    return [record.text for _, record in journal.live(bank=bank)]


def start(program: str, *args: object) -> subprocess.Popen[str]:
    """A Python process that has these helpers at hand and prints what it has to say."""
    source = "import os, sys, time\nfrom pathlib import Path\nfrom tests.journal.making import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", source + textwrap.dedent(program), *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs
