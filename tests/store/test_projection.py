"""What the projection promises: exact rows, one state per memory, literal scopes, one embedder."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from memkit.errors import EmbedderError, EmbedderMismatch, NewerFormat, OpRejected
from memkit.filters import parse_filters
from memkit.models import Bank
from tests.store._rows import IDENTITY, ids, open_projection, row, tombstone, vector

HOSTILE = [
    "*", "%", "_", "x' OR '1'='1", "a\\", "\\'", '"; DROP TABLE memories; --', " ana", "ana ", "ANA", "ana\n", "🦀",
    "مرحبا", "u" * 512, "null", "true", "0", "user_id", "${x}", "{}", "__wm__", "a\tb", "é", "e\u0301",
]  # fmt: skip
START_OF_TIME = datetime(1, 1, 1, tzinfo=UTC)


def test_rows_come_back_exactly(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    rows = [
        row(1, agent="helper", text="🦀, RTL مرحبا, NUL \0 and a quote '", metadata={"a": {"b": [1, True, None, 1.5]}}),
        row(2, at=datetime(2024, 1, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5, minutes=-30))), kind="episode"),
        row(3, source_turns=(), metadata={}, expires_at=START_OF_TIME, trust=0.1 + 0.2, trainable=False, origin="tool"),
        row(4, at=None, created_at=None, updated_at=None, speaker="", session_id="", revision=7),
        row(5, confirmed_at=datetime(2024, 6, 1, 9, tzinfo=timezone(timedelta(hours=2)))),
    ]
    store.apply(rows, 9)
    found = store.slice("ana")
    assert found.records == [(each.bank, each.record) for each in rows]
    assert found.records[1][1].to_dict() == rows[1].record.to_dict()  # the offset too: prompts show local dates
    assert np.array_equal(found.vectors, np.stack([each.vector for each in rows]))
    assert found.vectors.dtype == np.float32
    assert found.vectors.flags.c_contiguous
    assert found.watermark == store.watermark() == 9
    assert store.check() == []


def test_a_group_leaves_one_state_per_memory_and_replay_changes_nothing(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    first = [row(1), row(2), row(3)]
    second = [
        row(1, seq=4, text="newer"),
        row(1, seq=6, text="newest"),
        row(1, seq=5, text="between"),
        tombstone(2, seq=7),
        row(9, seq=8),
        tombstone(9, seq=9),
    ]
    store.apply(first, 3)
    store.apply(second, 9)
    want = store.slice("ana")
    assert [(r.id, r.text, r.seq) for _, r in want.records] == [("m_3", "memory 3 of ana", 3), ("m_1", "newest", 6)]
    for group, seq in ((first, 3), (second, 9), (first, 9)):
        store.apply(group, seq)
    assert store.slice("ana").records == want.records
    assert store.watermark() == 9


def test_purged_tombstones_stay_dead(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    store.apply([row(1), row(2)], 2)
    store.apply([tombstone(1, seq=3)], 3)
    report = store.maintain(force=True)
    assert (report.ran, report.purged) == (True, 1)
    store.apply([row(1)], 2)
    store.apply([row(1), row(3, seq=4)], 4)
    assert ids(store.slice("ana")) == ["m_2", "m_3"]


def test_scopes_are_literal(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    store.apply([row(n, user, agent=user, seq=n) for n, user in enumerate(HOSTILE, 1)], len(HOSTILE))
    store.maintain(force=True)
    for number, user in enumerate(HOSTILE, 1):
        assert ids(store.slice(user)) == [f"m_{number}"], user
        assert ids(store.slice(user, user)) == [f"m_{number}"], user
        assert ids(store.preselect(user, vector=vector(1), text="memory", limit=5)) == [f"m_{number}"], user
    assert ids(store.slice("ana")) == ids(store.slice("ana", "*")) == []


def test_agents_and_kinds(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    store.apply([row(1), row(2, agent="a"), row(3, agent="b", kind="episode"), row(4, agent="__wm__")], 4)
    assert ids(store.slice("ana")) == ["m_1", "m_2", "m_3", "m_4"]
    assert ids(store.slice("ana", "")) == ["m_1"]
    assert ids(store.slice("ana", "a")) == ["m_2"]
    assert ids(store.slice("ana", kinds=["episode"])) == ["m_3"]
    assert store.slice("ana", "a").watermark == store.slice("nobody").watermark == 4


def test_reserved_scope_and_bad_vectors_are_refused(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    for bad in (row(1, ""), replace(row(1), memory_id="__wm__")):
        with pytest.raises(OpRejected, match="reserved"):
            store.apply([bad], 1)
    for bad_vector in (None, np.zeros(3, np.float32), np.full(16, np.nan, np.float32)):
        with pytest.raises(EmbedderError):
            store.apply([replace(row(1), vector=bad_vector)], 1)
    assert store.watermark() == 0
    assert store.slice("ana").records == []


def test_another_embedder_is_refused_until_the_store_is_rebuilt(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    store.apply([row(1)], 1)
    other = open_projection(tmp_path, dim=8, identity="other/1:8")
    for call in (other.watermark, lambda: other.slice("ana"), lambda: other.apply([row(2, dim=8)], 2)):
        with pytest.raises(EmbedderMismatch, match="doctor --reembed"):
            call()
    other.rebuild([[row(1, dim=8)], [row(2, dim=8)]], 2)
    assert (ids(other.slice("ana")), other.watermark()) == (["m_1", "m_2"], 2)
    assert other.slice("ana").vectors.shape == (2, 8)
    with pytest.raises(EmbedderMismatch):  # the handle that was open all the time
        store.slice("ana")


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memkit.store import schema

    monkeypatch.setattr(schema, "FORMAT", 2)
    schema.memories_schema.cache_clear()
    open_projection(tmp_path).apply([row(1)], 1)
    monkeypatch.undo()
    schema.memories_schema.cache_clear()
    with pytest.raises(NewerFormat):
        open_projection(tmp_path).slice("ana")


def test_rebuild_replaces_everything_and_a_failing_source_nothing(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    store.apply([row(n) for n in range(1, 6)], 5)

    def failing():
        yield [row(7)]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.rebuild(failing(), 9)
    assert (len(store.slice("ana").records), store.watermark()) == (5, 5)
    store.rebuild(([row(n)] for n in range(10, 40)), 50)
    assert (ids(store.slice("ana")), store.watermark()) == ([f"m_{n}" for n in range(10, 40)], 50)
    assert store.check() == []


def test_maintenance_bounds_files_and_bytes(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    for group in range(60):
        store.apply([row(group * 5 + n, f"user{n}") for n in range(1, 6)], group * 5 + 5)
    assert store.commits_since_maintenance >= 60
    report = store.maintain()
    assert report.files_after < 20 < 180 < report.files_before
    assert store.commits_since_maintenance == 0
    assert store.maintain().ran is False
    assert sum(len(store.slice(f"user{n}").records) for n in range(1, 6)) == 300


def test_preselect_sees_near_vectors_and_rare_words_of_the_scope_only(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    mine = [
        row(n, text=f"common words {'zebra' if n == 77 else 'cat'} {n}", metadata={"even": n % 2 == 0})
        for n in range(1, 201)
    ]
    store.apply([*mine, *(row(n, "bob", text="zebra zebra") for n in range(201, 300))], 299)
    target = mine[120].vector
    found = store.preselect("ana", vector=target, text="a Zebra!", limit=10)
    assert {"m_121", "m_77"} <= set(ids(found))
    assert len(found.records) <= 20
    assert all(bank == Bank("ana") for bank, _ in found.records)
    again = store.preselect("ana", vector=target, text="a Zebra!", limit=10)
    assert ids(again) == ids(found)
    condition = parse_filters({"metadata.even": True, "seq": {"$gt": 50}})
    even = store.preselect("ana", vector=target, text="zebra", limit=10, condition=condition)
    assert even.records
    assert all(condition.matches(record) for _, record in even.records)
    assert ids(store.preselect("ana", vector=np.zeros(16, np.float32), text="zebra", limit=3)) == ["m_77"]


def test_the_table_is_plain_lancedb(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    store.apply([row(1, metadata={"ref": "D1"}), row(2)], 2)
    store.apply([tombstone(2, seq=3)], 3)
    lancedb = pytest.importorskip("lancedb")
    table = lancedb.connect(str(tmp_path / "lance")).open_table("memories")
    assert table.schema.metadata[b"memkit.embedder"] == IDENTITY.encode()
    frame = pytest.importorskip("pandas").DataFrame(table.to_pandas())
    live = frame[~frame.deleted]
    assert list(live.text) == ["memory 1 of ana"]
    assert live["at"].iloc[0].to_pydatetime() == datetime(2024, 5, 8, 13, 56, tzinfo=UTC)
    assert list(live.source_turns.iloc[0]) == ["t_1"]


def test_importing_the_room_loads_nothing() -> None:
    code = (
        "import sys; from memkit.store import Projection, Trajectories; "
        "print([m for m in ('lancedb', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
