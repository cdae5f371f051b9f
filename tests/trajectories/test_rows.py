"""Logs as rows, files and bundles: nothing is tokenised again, nothing that may not be learned from comes along."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.embedders import make_embedder
from memkit.errors import InvalidInput
from memkit.journal import DecisionRecord, Journal
from memkit.models import Bank, digest, to_json
from memkit.runtime.sealer import Sealer
from memkit.seams.clock import RandomIds, SystemClock
from memkit.store import SEALED, Trajectories
from memkit_train.credit.assign import Credited, assign
from memkit_train.credit.rows import Score, rows
from memkit_train.errors import BadBundle, Leakage, NoRows
from memkit_train.learn import export as exporting
from memkit_train.learn import export as exports
from memkit_train.learn.export import export
from memkit_train.log import StoreSource
from memkit_train.log import bundle as bundles
from memkit_train.log.splits import Split, check_leaks
from memkit_train.ranker.learn import ranker_examples
from memkit_train.rows import TokenRow
from tests.trajectories._logs import day

HASH = make_embedder("hash")


def local(number: int, user: str = "ana", *, reply: str = "ADD", logprobs: bool = True) -> DecisionRecord:
    prompt = to_json([["system", "rules"], ["user", "NEW fact [1 May 2026]: x"]])
    payload = {
        "v": 1,
        "reply": reply,
        "prompt_ids": [1, 2, 300 + number % 2],
        "token_ids": [7, len(reply)],
        "prompt_hash": digest(prompt),
        "parse": {"ok": True},
        "model": "tiny",
        "extra": {"vocabulary": "abc"},
    }
    if logprobs:
        payload["logprobs"] = [-0.1 / 3, -1e-7]
    return DecisionRecord(f"d_{number}", None, Bank(user), "manager", 0, payload, day(number), {digest(prompt): prompt})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Ten decisions of two users; the first six are sealed."""
    path = tmp_path / "store"
    journal = Journal.open(path, clock=SystemClock(), ids=RandomIds())
    journal.record(*[local(n, "ana" if n % 2 else "bob", reply="ADD" if n < 4 else "NOOP") for n in range(6)])
    table = Trajectories(path / SEALED, lock=journal.lance_lock)
    Sealer(journal, lambda: table).seal(force=True)
    journal.record(*[local(n, "ana" if n % 2 else "bob", logprobs=False) for n in range(6, 10)])
    for user in ("ana", "bob"):
        journal.meta_set(user, "1")
    journal.close()
    return path


def test_sealed_and_unsealed_decisions_become_rows_with_their_own_ids(store: Path) -> None:
    with StoreSource(store) as source:
        found = list(rows(source.decisions(), source.subject, now=day(10)))
        ana = [one.decision_id for one in source.decisions(user_id="ana")]
        subject = source.subject("ana")
    assert all(isinstance(row, TokenRow) for row in found)
    assert [row.ref for row in found] == [f"d_{n}" for n in range(10)]
    first = found[1]
    assert isinstance(first, TokenRow)
    assert (first.prompt_ids, first.completion_ids) == ((1, 2, 301), (7, 3))
    assert (first.user, first.age_days, first.vocabulary, first.reward) == (subject, 9.0, "abc", None)
    assert ana == [f"d_{n}" for n in range(1, 10, 2)]


def test_rows_carry_the_scores_of_their_decisions(store: Path) -> None:
    scored = {"d_1": Score(1.0, 1.0, ("cited",)), "d_5": Score(0.0, 0.5, ("missed",)), "d_4": Score(0.4, 1.0, ())}
    with StoreSource(store) as source:
        found = [
            row for row in rows(source.decisions(), source.subject, scored, now=day(10)) if isinstance(row, TokenRow)
        ]
    assert [(row.ref, row.reward, row.weight) for row in found] == [("d_1", 1, 1), ("d_4", 0.4, 1), ("d_5", 0, 0.5)]


def test_who_opted_out_is_nowhere(store: Path) -> None:
    journal = Journal.open(store, clock=SystemClock(), ids=RandomIds())
    journal.set_trainable("ana", False)
    journal.close()
    with StoreSource(store) as source:
        assert {one.bank.user_id for one in source.decisions()} == {"bob"}


def test_splits_hold_users_back_whole_and_for_good() -> None:
    split = Split(seed=3, heldout_share=0.3)
    train, heldout = split.divide(f"u{n}" for n in range(200))
    more, _ = split.divide(f"u{n}" for n in range(400))
    assert 30 < len(heldout) < 90
    assert set(train) <= set(more)

    def row(user: str, ref: str) -> TokenRow:
        return TokenRow((1,), (2,), user=user, ref=ref)

    assert check_leaks([row(train[0], "a")], [row(heldout[0], "b")], split) == 1
    for leaking in (row(heldout[0], "a"), row(heldout[1], "a"), row(train[0], "b")):
        with pytest.raises(Leakage):
            check_leaks([leaking], [row(heldout[0], "b")], split)
    with pytest.raises(NoRows):
        split.divide(["one"])


META = {"reward", "weight", "role", "style", "subject", "split", "decision_id"}
COLUMNS = {
    "sft": {"prompt", "completion", *META},
    "kto": {"prompt", "completion", "label", *META},
    "openai": {"messages", "metadata"},
}


def halves(source: StoreSource) -> Split:
    """Opaque ids are salted anew in every store: a split with some of the eight users on each side."""
    subjects = list(map(source.subject, source.users()))
    splits = (Split(seed, 0.5) for seed in range(300))
    return next(one for one in splits if 2 < sum(map(one.is_heldout, subjects)) < 6)


@pytest.mark.parametrize("form", COLUMNS)
def test_exports_are_what_trl_and_datasets_read(form: Any, source: StoreSource, tmp_path: Path) -> None:
    import datasets
    from trl.data_utils import is_conversational

    split = halves(source)
    found = export(source, tmp_path / "rows.jsonl", form, HASH, side="all", split=split)
    loaded = datasets.load_dataset(
        "json", data_files=str(tmp_path / "rows.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert set(loaded.column_names) == COLUMNS[form]
    assert is_conversational(loaded[0])
    metas = [row.get("metadata", row) for row in loaded]
    assert len(loaded) == found.lines == sum(found.splits.values())
    assert all((one["split"] == "heldout") == split.is_heldout(one["subject"]) for one in metas)
    assert {one["split"] for one in metas} == {"train", "heldout"}
    assert {one["subject"] for one in metas} <= set(map(source.subject, source.users()))
    assert all(0 < one["weight"] <= 1 and (form == "kto" or one["reward"] >= 0.5) for one in metas)


def test_held_out_users_stay_at_home_unless_they_are_asked_for(source: StoreSource, tmp_path: Path) -> None:
    lines = {}
    sides: tuple[exports.Side, ...] = ("train", "heldout", "all")
    for side in sides:
        lines[side] = export(source, tmp_path / side, "kto", HASH, side=side, split=halves(source)).lines
        said = {json.loads(line)["split"] for line in (tmp_path / side).read_text().splitlines()}
        assert said == ({"train", "heldout"} if side == "all" else {side})
    assert lines["train"] + lines["heldout"] == lines["all"]


def test_parquet_holds_every_decision_whole(source: StoreSource, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    found = export(source, tmp_path / "all.parquet", "parquet", HASH, side="all")
    table = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert len(table) == found.lines == sum(1 for _ in source.decisions())
    assert set(table[0]) >= META
    assert any(row["reward"] is not None for row in table)
    assert any(row["reward"] is None for row in table)
    assert all(row["messages"] and row["reply"] for row in table)


def test_parquet_by_day_holds_the_same_in_folders_of_days(
    source: StoreSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    monkeypatch.setattr(exporting, "_OPEN", 1)
    monkeypatch.setattr(exporting, "_BATCH", 3)
    export(source, tmp_path / "all.parquet", "parquet", HASH, side="all")
    found = export(source, tmp_path / "days", "parquet", HASH, side="all", by_day=True)
    rows = ds.dataset(tmp_path / "days", partitioning="hive").to_table().to_pylist()
    assert all(str(row.pop("day")) == row["created_at"].date().isoformat() for row in rows)
    whole = pq.read_table(tmp_path / "all.parquet").to_pylist()
    by_id = {row["decision_id"]: row for row in whole}
    assert (len(rows), {row["decision_id"]: row for row in rows}) == (found.lines, by_id)
    with pytest.raises(InvalidInput, match="there already"):
        export(source, tmp_path / "days", "parquet", HASH, by_day=True)
    with pytest.raises(InvalidInput, match="one file"):
        export(source, tmp_path / "other", "sft", HASH, by_day=True)
    assert not list(tmp_path.glob("*.part"))


def test_what_answers_cited_teaches_the_ranker(source: StoreSource) -> None:
    credited = Credited()
    for _, one in assign(source):
        credited.extend(one)
    assert sum(one.teaches for one in ranker_examples(credited.ranker)) > 10


def test_a_pair_is_one_state_of_one_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob's bad decision in the same state is no alternative to Ana's good one."""
    replies = {
        "d_0": ("ana", "ADD", 1.0),
        "d_1": ("ana", "NOOP", 0.0),
        "d_2": ("ana", "ADD", 0.8),
        "d_3": ("bob", "DELETE 1", 0.0),
    }
    path = tmp_path / "s"
    with Memory(path) as memory:
        for user in ("ana", "bob"):
            memory.add("I like tea.", user_id=user)
    journal = Journal.open(path, clock=SystemClock(), ids=RandomIds())
    journal.record(*[local(int(name[2:]), user, reply=reply) for name, (user, reply, _) in replies.items()])
    journal.close()
    given = {name: Score(y, 0.5, ("cited",)) for name, (_, _, y) in replies.items()}
    monkeypatch.setattr(exports, "scores", lambda _: given)
    with StoreSource(path) as source:
        export(source, tmp_path / "dpo.jsonl", "dpo", HASH, side="all")
        subject = source.subject("ana")
    (pair,) = map(json.loads, (tmp_path / "dpo.jsonl").read_text().splitlines())
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("ADD", "NOOP")
    assert (pair["reward"], pair["rejected_reward"], pair["subject"]) == (1.0, 0.0, subject)
    assert (pair["decision_id"], pair["rejected_id"]) == ("d_0", "d_1")


def test_where_there_is_nothing_to_export_a_file_that_was_there_stays(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("kept")
    with Memory(tmp_path / "store") as memory:
        memory.add("I like tea.", user_id="ana")
    with StoreSource(tmp_path / "store") as source:
        with pytest.raises(NoRows, match="No label reached a decision"):
            export(source, out, "sft", HASH, side="all")
        with pytest.raises(NoRows, match="which needs no pairs"):
            export(source, out, "dpo", HASH, side="all")
        with pytest.raises(InvalidInput, match="sft, kto, dpo, openai, parquet"):
            export(source, out, "csv", HASH)  # type: ignore[arg-type]
    assert out.read_text() == "kept"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rows.jsonl", "store"]


def test_a_bundle_goes_out_without_names_and_reads_like_the_store(source: StoreSource, tmp_path: Path) -> None:
    users = source.users()[:3]
    secret = users[0]
    manifest = bundles.bundle(source, tmp_path / "b", users=users)
    assert manifest["users"] == sorted(map(source.subject, users))
    assert not any(secret.encode() in path.read_bytes() for path in (tmp_path / "b").iterdir())
    script = f"""
import sys
sys.modules["lancedb"] = sys.modules["pyarrow"] = None
from memkit_train.log.bundle import BundleSource
from memkit_train.credit.assign import assign
with BundleSource({str(tmp_path / "b")!r}) as source:
    print(sum(1 for _ in source.decisions()), [(c.decision_id, c.user, c.y, c.why) for _, d in assign(source)
                                                for c in sorted(d.credits, key=repr)])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    own = {user: d for user, d in zip(users, (one for _, one in assign(source, users)), strict=True)}
    ordered = sorted(users, key=source.subject)
    credits = [(c.decision_id, c.user, c.y, c.why) for user in ordered for c in sorted(own[user].credits, key=repr)]
    count = sum(1 for user in users for _ in source.decisions(user_id=user))
    assert ran.stdout.strip() == f"{count} {credits}"


def test_redaction_takes_the_token_ids_along(store: Path, tmp_path: Path) -> None:
    with StoreSource(store) as source, pytest.raises(NoRows):
        bundles.bundle(source, tmp_path / "none")
    with Memory(tmp_path / "s") as memory:
        memory.add("My code is zq17.", user_id="ana")
        memory.add("I live in Oslo.", user_id="ana")
        memory.flush()
    with StoreSource(tmp_path / "s") as source:
        manifest = bundles.bundle(source, tmp_path / "b", redact=lambda text: text.replace("zq17", "[code]"))
    assert manifest["redacted"]
    assert not any(b"zq17" in path.read_bytes() for path in (tmp_path / "b").iterdir())
    with bundles.BundleSource(tmp_path / "b") as read:
        assert all("content hash" in problem.detail for problem in read.journal.check())
        (user,) = read.users()
        assert any("[code]" in record.text for _, record in read.journal.live(user_id=user))
        assert all(one.messages for one in read.decisions())


def test_a_bundle_that_was_changed_or_is_foreign_is_refused(source: StoreSource, tmp_path: Path) -> None:
    bundles.bundle(source, tmp_path / "b", users=source.users()[:1])
    with pytest.raises(InvalidInput, match="already"):
        bundles.bundle(source, tmp_path / "b")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    bundles.put_adapter(tmp_path / "b", tmp_path / "adapter")
    taken = bundles.take_adapter(tmp_path / "b", source, tmp_path / "home")
    assert json.loads((taken / "adapter_config.json").read_text()) == {}
    Memory(tmp_path / "other").close()
    with StoreSource(tmp_path / "other") as other, pytest.raises(BadBundle, match="another store"):
        bundles.take_adapter(tmp_path / "b", other, tmp_path / "x")
    with (tmp_path / "b" / "ops.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(BadBundle, match=r"ops\.jsonl"):
        bundles.restore(tmp_path / "b", tmp_path / "r")
