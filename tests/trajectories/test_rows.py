"""Logs as rows, files and bundles: nothing is tokenised again, nothing that may not be learned from comes along."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memkit import Memory
from memkit.errors import InvalidInput
from memkit.journal import DecisionRecord, Journal
from memkit.models import Bank, digest, to_json
from memkit.pipeline.sealer import Sealer
from memkit.seams import RandomIds, SystemClock
from memkit.store import SEALED, Trajectories
from memkit_train.errors import BadBundle, Leakage, MissingLogprobs, NoRows, WrongVocabulary
from memkit_train.rows import TextRow, TokenRow
from memkit_train.trajectories import StoreSource
from memkit_train.trajectories import bundle as bundles
from memkit_train.trajectories.credit import Credited, assign
from memkit_train.trajectories.exports import export, export_parquet
from memkit_train.trajectories.rows import (
    Score,
    labelled,
    pairs,
    ranker_examples,
    rows,
    scores,
    with_logprobs,
)
from memkit_train.trajectories.splits import Split, check_leaks
from tests.trajectories._logs import day


def local(number: int, user: str = "ana", *, reply: str = "ADD", logprobs: bool = True) -> DecisionRecord:
    prompt = to_json([["system", "rules"], ["user", "NEW fact [1 May 2026]: x"]])
    payload = {
        "v": 1, "reply": reply, "prompt_ids": [1, 2, 300 + number % 2], "token_ids": [7, len(reply)],
        "prompt_hash": digest(prompt), "parse": {"ok": True}, "model": "tiny", "extra": {"vocabulary": "abc"},
    }  # fmt: skip
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
    assert (first.prompt_ids, first.completion_ids, first.logprobs) == ((1, 2, 301), (7, 3), (-0.1 / 3, -1e-7))
    assert (first.user, first.age_days, first.vocabulary, first.reward) == (subject, 9.0, "abc", None)
    assert ana == [f"d_{n}" for n in range(1, 10, 2)]


def test_methods_refuse_by_name_what_they_cannot_use(store: Path) -> None:
    with StoreSource(store) as source:
        found = list(rows(source.decisions(), source.subject, now=day(10)))
    with pytest.raises(MissingLogprobs, match="offline cannot use this log: 4 of 4"):
        with_logprobs(found[6:], "offline")
    hosted = TextRow((), "ADD", ref="d_x")
    with pytest.raises(WrongVocabulary, match="offline cannot use this log: 1 of 1"):
        with_logprobs([hosted], "offline")
    assert with_logprobs([hosted, *found], "offline") == found[:6], "the others are left out"


def test_scores_labels_and_pairs(store: Path) -> None:
    scored = {"d_1": Score(1.0, 1.0, ("cited",)), "d_5": Score(0.0, 0.5, ("missed",)), "d_4": Score(0.4, 1.0, ())}
    with StoreSource(store) as source:
        found = [row for row in rows(source.decisions(), source.subject, scored, now=day(10))
                 if isinstance(row, TokenRow)]  # fmt: skip
    assert [(row.ref, row.reward, row.weight) for row in found] == [("d_1", 1, 1), ("d_4", 0.4, 1), ("d_5", 0, 0.5)]
    assert [row.label for row in labelled(found)] == [True, False, False]
    (pair,) = pairs(found)
    assert (pair.chosen_ids, pair.rejected_ids, pair.margin, pair.weight) == ((7, 3), (7, 4), 1.0, 0.5)


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


@pytest.mark.slow
def test_exports_load_in_trl_and_datasets(source: StoreSource, store: Path, tmp_path: Path) -> None:
    import datasets
    from trl.data_utils import is_conversational

    credited = Credited()
    for _, one in assign(source):
        credited.extend(one)
    scored = scores(credited.credits)
    paired = {"d_1": Score(1.0, 1.0, ()), "d_5": Score(0.0, 1.0, ())}
    with StoreSource(store) as other:
        counts = {"dpo": export(other.decisions(), tmp_path / "dpo.jsonl", "dpo", paired)}
    counts |= {form: export(source.decisions(), tmp_path / f"{form}.jsonl", form, scored)
               for form in ("sft", "kto", "openai")}  # fmt: skip
    for form, count in counts.items():
        loaded = datasets.load_dataset("json", data_files=str(tmp_path / f"{form}.jsonl"), split="train",
                                       cache_dir=str(tmp_path / "cache"))  # fmt: skip
        assert len(loaded) == count > 0
        assert is_conversational(loaded[0])
        assert set(loaded.column_names) == {
            "sft": {"prompt", "completion"}, "kto": {"prompt", "completion", "label"},
            "dpo": {"prompt", "chosen", "rejected"}, "openai": {"messages"},
        }[form]  # fmt: skip
    with pytest.raises(InvalidInput, match="kto"):
        export(source.decisions(), tmp_path / "x", "kto")
    total = export_parquet(source.decisions(), tmp_path / "all.parquet", source.subject, scored)
    table = datasets.Dataset.from_parquet(str(tmp_path / "all.parquet"), cache_dir=str(tmp_path / "cache"))
    assert len(table) == total == sum(1 for _ in source.decisions())
    assert sum(value is not None for value in table["reward"]) == len(scored)
    examples = ranker_examples(credited.ranker)
    assert sum(one.teaches for one in examples) > 10


def test_a_bundle_goes_out_without_names_and_reads_like_the_store(source: StoreSource, tmp_path: Path) -> None:
    users = source.users()[:3]
    secret = users[0]
    manifest = bundles.bundle(source, tmp_path / "b", users=users)
    assert manifest["users"] == sorted(map(source.subject, users))
    assert not any(secret.encode() in path.read_bytes() for path in (tmp_path / "b").iterdir())
    script = f"""
import sys
sys.modules["lancedb"] = sys.modules["pyarrow"] = None
from memkit_train.trajectories.bundle import BundleSource
from memkit_train.trajectories.credit import assign
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
