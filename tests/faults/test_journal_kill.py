"""kill -9 at random moments of mixed work: what was acknowledged is there, whole; every open succeeds; nothing stays
stuck."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from memkit.journal import Journal
from memkit.models import Bank
from memkit.ops import BankState
from tests.faults._tally import SEED
from tests.journal.making import AT, IDS, adds, open_journal, start

WORKER = """
    import random, threading
    path, name, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    journal = open_journal(path)
    acks = os.open(path.parent / "acks" / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def ack(*words):
        os.write(acks, (" ".join(words) + "\\n").encode())

    def decide(claim, rng):
        if rng.random() < 0.15:
            journal.park(claim, reason="bad_reply", detail="x")
            ack("parked", claim.intake_id)
            return
        text = claim.intake.turns[0].text
        drafts = adds(text + " left", text + " right")
        live = journal.live(bank=claim.bank, limit=2)
        if live and rng.random() < 0.3:
            drafts.append(OpDraft("update", live[0][1].id, text + " newer", source_turns=("t",)))
        ops = journal.apply(claim.bank, drafts, decision_id=IDS.new("d"), at=AT, claim=claim)
        ack("applied", claim.intake_id, *(op.op_id for op in ops))

    def work(rng):
        while True:
            bank = Bank(f"user{rng.randrange(3)}")
            said = intake("said " + IDS.new("x"), bank=bank)
            choice = rng.random()
            try:
                if choice < 0.4:
                    accepted = journal.accept(said, claim=True)
                    ack("accepted", said.intake_id, said.turns[0].text)
                    if accepted.claim:
                        decide(accepted.claim, rng)
                elif choice < 0.6:
                    ops = journal.accept(said, drafts=adds(said.turns[0].text)).ops
                    ack("accepted", said.intake_id, said.turns[0].text)
                    ack("applied", said.intake_id, *(op.op_id for op in ops))
                elif choice < 0.97:
                    claim = journal.claim_next()
                    if claim:
                        decide(claim, rng)
                else:
                    gone = f"gone {IDS.new('u')}"
                    add(journal, "secret", bank=Bank(gone))
                    ack("there", gone)
                    journal.erase(gone)
                    ack("erased", gone)
            except Exception as error:
                ack("failed", type(error).__name__, str(error))

    print("ready", flush=True)
    for number in range(2):
        threading.Thread(target=work, args=(random.Random(seed + number),)).start()
"""


def acknowledged(files: Iterable[Path]) -> list[list[str]]:
    """What each process wrote whole: a kill can cut its last line, where a page of the file ends."""
    lines = (line for file in files for line in file.read_text().splitlines(keepends=True))
    return [line.removesuffix("\n").split(" ") for line in lines if line.endswith("\n")]


def verify(journal: Journal, acks: list[list[str]]) -> None:
    failures = [line for line in acks if line[0] == "failed" and line[1] != "StoreBusy"]
    assert failures == []
    for kind, name, *rest in acks:
        if kind == "erased":
            assert journal.ops(user_id=f"gone {rest[0]}") == []
        elif kind == "accepted":
            state = journal.intake(name)
            assert state is not None
            assert state.intake.turns[0].text == " ".join(rest)
        elif kind == "applied":
            state = journal.intake(name)
            assert state is not None
            assert state.status == "applied"
            assert [op.op_id for op in journal.ops(intake_id=name)] == rest
        elif kind == "parked":
            state = journal.intake(name)
            assert state is not None
            assert state.status == "parked"
    for user in journal.users():
        for bank in (Bank(user.user_id),):
            log = journal.ops(bank=bank)
            said = [op.text for op in log if op.action == "add" and op.text]
            lefts = {text.removesuffix(" left") for text in said if text.endswith(" left")}
            rights = {text.removesuffix(" right") for text in said if text.endswith(" right")}
            assert lefts == rights  # a batch is there whole or not at all
            assert list(BankState().fold(log)) == [record for _, record in journal.live(bank=bank)]


def drain(journal: Journal) -> None:
    while claim := journal.claim_next():
        journal.apply(claim.bank, adds("drained " + claim.intake_id), decision_id=IDS.new("d"), at=AT, claim=claim)
    assert journal.pending_count() == 0


@pytest.mark.parametrize("rounds", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_random_kills_lose_nothing(tmp_path: Path, rounds: int) -> None:
    rng = random.Random(SEED)
    path, acks = tmp_path / "store", tmp_path / "acks"
    acks.mkdir()
    seen = set[Path]()
    survivor = None
    for number in range(rounds):
        fresh = start(WORKER, path, f"w{number}", rng.randrange(2**31))
        assert fresh.stdout is not None
        assert fresh.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.4)
        # One dies while another lives on, so that claims and locks are taken over under load; sometimes both die.
        victims = [one for one in (survivor, fresh) if one is not None]
        if rng.random() < 0.5 and len(victims) == 2:
            victims = [rng.choice(victims)]
        survivor = next((one for one in (survivor, fresh) if one is not None and one not in victims), None)
        for victim in victims:
            victim.kill()
            victim.communicate()
        if survivor is None:
            journal = open_journal(path)
            verify(journal, acknowledged(set(acks.iterdir()) - seen))
            assert journal.check() == []
            drain(journal)
            journal.close()
            seen.update(acks.iterdir())
    if survivor is not None:
        survivor.kill()
        survivor.communicate()
    journal = open_journal(path)
    drain(journal)
    lines = acknowledged(acks.iterdir())
    verify(journal, lines)
    assert journal.check() == []
    assert len({line[0] for line in lines}) >= (4 if rounds > 4 else 1), "a busy machine gets less done in a few rounds"
    journal.close()
