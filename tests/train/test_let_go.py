"""A bank that is closed to learning after a run froze its rows: they go, and so does what was made from them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit_train.credit.rows import rows
from memkit_train.files import rowfile
from memkit_train.log import StoreSource
from memkit_train.report import RunFolder
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.run import let_go
from memkit_train.retrain.stages import AMENDS, REPLAY, ROWS
from memkit_train.rows import TokenRow
from tests.trajectories.test_opt_out import allow, told

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def begun(tmp_path: Path) -> tuple[TrainConfig, RunFolder]:
    """Ana, with two banks, and Bob: every decision is a row; some of what was made beside them names none."""
    told(tmp_path / "s")
    with Memory(tmp_path / "s") as memory:
        memory.add("Bob likes tea.", user_id="bob")
    config = load(None, [f"data.store={tmp_path / 's'}", "model.base=m", f"output={tmp_path / 'out'}"])
    run = RunFolder.begin(tmp_path / "out" / "runs" / "0001", config.resolve(), now=NOW)
    with StoreSource(tmp_path / "s") as source:
        found = list(rows(source.decisions(), source.subject, now=NOW))
        subjects = sorted(map(source.subject, source.users()))
    rowfile.save(run.path / ROWS, found[:-1])
    rowfile.save(run.path / REPLAY, found[-1:])
    run.mark("collect", {"subjects": subjects})
    return config, run


def trained(run: RunFolder, *more: TokenRow) -> None:
    rowfile.save(run.path / AMENDS, more)
    for folder in ("train", "polish"):
        (run.path / folder).mkdir(exist_ok=True)
        run.mark(folder, {})


def refs(run: RunFolder, *names: str) -> set[str]:
    return {row.ref for name in names or (ROWS, REPLAY) for row in rowfile.load(run.path / name)}


def learned_from(store: Path) -> set[str]:
    with StoreSource(store) as source:
        return {one.decision_id for one in source.decisions()}


def test_rows_of_a_bank_that_was_closed_since_are_let_go_of(begun: Any, tmp_path: Path) -> None:
    config, run = begun
    ana, bob = sorted(run.result_of("collect")["subjects"], key=lambda one: one != of(tmp_path / "s", "ana"))
    let_go(config, run)
    before = refs(run)
    trained(run)
    let_go(config, run)
    assert refs(run) == before
    assert run.result_of("train") is not None, "nobody left"
    allow(tmp_path / "s", False, "money")
    known = sorted(refs(run) & learned_from(tmp_path / "s"))
    made = [
        TokenRow((1,), (2,), user=user, ref=ref)
        for user, ref in [(ana, known[0]), (ana, "d_invented"), (bob, "d_invented_too")]
    ]
    trained(run, *made)
    let_go(config, run)
    assert refs(run) == set(known) < before
    assert not any("francs" in (run.path / name).read_text() for name in (ROWS, REPLAY))
    assert refs(run, AMENDS) == {known[0], "d_invented_too"}
    assert (run.result_of("train"), run.result_of("polish")) == (None, None)
    assert not (run.path / "train").exists()
    assert set(run.result_of("collect")["subjects"]) == {ana, bob}
    assert "money" not in run.file.read_text()


def test_a_run_that_knows_of_a_closed_bank_goes_on(begun: Any, tmp_path: Path) -> None:
    config, run = begun
    allow(tmp_path / "s", False, "money")
    let_go(config, run)
    for again, left in ((False, True), (True, True), (False, False)):
        trained(run, TokenRow((1,), (2,), user=of(tmp_path / "s", "ana"), ref="d_invented"))
        allow(tmp_path / "s", again, "money")
        let_go(config, run)
        assert (run.result_of("train") is not None) == left, "closed once more, after it was open for a while"
        assert refs(run, AMENDS) == ({"d_invented"} if left else set())


def of(store: Path, user: str) -> str:
    with StoreSource(store) as source:
        return source.subject(user)
