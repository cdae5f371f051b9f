"""Immutable folders, aliases that move by compare-and-swap, and what may be collected."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memkit.adapters import Registry
from memkit.adapters.plan import with_stable
from memkit.errors import AdapterError, AdapterRejected, InvalidInput, NotFound, StaleAlias
from tests.adapters._make import adapter

ROLES = ("manager",)


@pytest.fixture
def registry(tmp_path: Path) -> Any:
    registry = Registry(tmp_path / "store")
    yield registry
    registry.close()


def point(registry: Registry, digest: str | None, **options: Any) -> Any:
    return registry.move("production", lambda routes: with_stable(routes, digest, ROLES), roles=ROLES, **options)


def publish(registry: Registry, tmp_path: Path, seed: int) -> str:
    return registry.publish(adapter(tmp_path / f"a{seed}", seed=seed))


def test_publishing_is_idempotent_and_the_files_are_read_only(registry: Registry, tmp_path: Path) -> None:
    source = adapter(tmp_path / "a")
    digest = registry.publish(source)
    assert registry.publish(source) == digest
    assert registry.digests() == [digest]
    assert all(file.stat().st_mode & 0o222 == 0 for file in registry.path(digest).iterdir())
    assert not list(registry.root.glob(".incoming-*"))


def test_published_bytes_do_not_follow_their_source(registry: Registry, tmp_path: Path) -> None:
    source = adapter(tmp_path / "a")
    digest = registry.publish(source)
    before = (registry.path(digest) / "adapter_model.safetensors").read_bytes()
    (source / "adapter_model.safetensors").write_bytes(b"other")
    assert (registry.path(digest) / "adapter_model.safetensors").read_bytes() == before


def test_versions_grow_and_rollback_walks_back(registry: Registry, tmp_path: Path) -> None:
    a, b = publish(registry, tmp_path, 1), publish(registry, tmp_path, 2)
    assert registry.alias("production").version == 0
    point(registry, a)
    point(registry, b)
    assert registry.rollback("production").route("manager").stable == a
    assert registry.rollback("production").route("manager").stable is None
    with pytest.raises(AdapterError, match="nothing to roll back"):
        registry.rollback("production")
    assert [state.version for state in registry.history("production")] == [4, 3, 2, 1]
    assert registry.rollback("production", to=2).route("manager").stable == b


def test_a_stale_expectation_is_told_the_current_version(registry: Registry, tmp_path: Path) -> None:
    a, b = publish(registry, tmp_path, 1), publish(registry, tmp_path, 2)
    point(registry, a, expected=None)
    for expected in (None, 0, b):
        with pytest.raises(StaleAlias) as stale:
            point(registry, b, expected=expected)
        assert stale.value.details["version"] == 1
    assert point(registry, b, expected=a).version == 2


def test_one_of_many_concurrent_moves_wins(registry: Registry, tmp_path: Path) -> None:
    digests = [publish(registry, tmp_path, seed) for seed in (1, 2)]

    def attempt(n: int) -> bool:
        mine = Registry(registry.root)
        try:
            point(mine, digests[n % 2], expected=0)
        except StaleAlias:
            return False
        finally:
            mine.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1


def test_a_name_that_was_never_published_cannot_be_promoted(registry: Registry) -> None:
    for name in ("f" * 64, "../../etc", "", "x" * 10_000):
        with pytest.raises(NotFound):
            point(registry, name)
    assert registry.alias("production").version == 0


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 65, "a\x00", "ａ", "a ", "con.txt"])
def test_alias_names_are_plain(registry: Registry, name: str) -> None:
    with pytest.raises(InvalidInput):
        registry.alias(name)


@pytest.mark.parametrize("name", [None, 5, b"production", ["production"]])
def test_names_that_are_no_text_are_refused_as_such(registry: Registry, name: Any) -> None:
    for asked in (registry.alias, registry.find):
        with pytest.raises(InvalidInput, match=type(name).__name__):
            asked(name)


def test_a_digest_may_be_abbreviated(registry: Registry, tmp_path: Path) -> None:
    digest = publish(registry, tmp_path, 1)
    assert registry.find(digest[:8]) == digest
    for name in (digest[:3], "abcdef0123", "..", "%"):
        with pytest.raises(NotFound):
            registry.find(name)


def test_gc_keeps_what_is_named_warm_loaded_or_new(registry: Registry, tmp_path: Path) -> None:
    old, warm2, warm1, now, held, new = (publish(registry, tmp_path, seed) for seed in range(6))
    for digest in (old, warm2, warm1, now):
        point(registry, digest)
    for digest in (old, warm2, warm1, now, held):
        os.utime(registry.path(digest), (0, 0))
    other = Registry(registry.root)
    other.in_use.hold(held)

    assert registry.gc(keep=2, dry_run=True).removed == (old,)
    report = registry.gc(keep=2)

    assert report.removed == (old,)
    assert report.freed_bytes > 0
    assert set(registry.digests()) == {warm2, warm1, now, held, new}
    other.close()
    assert registry.gc(keep=2).removed == (held,)


def _hold(root: str, digest: str, ready: Any, done: Any) -> None:
    registry = Registry(root)
    registry.in_use.hold(digest)
    ready.set()
    done.wait(30)
    os._exit(9)


def test_a_process_that_dies_no_longer_holds_its_adapters(registry: Registry, tmp_path: Path) -> None:
    digest = publish(registry, tmp_path, 1)
    os.utime(registry.path(digest), (0, 0))
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Event(), spawn.Event()
    process = spawn.Process(target=_hold, args=(str(registry.root), digest, ready, done))
    process.start()
    assert ready.wait(30)
    assert registry.gc().removed == ()
    done.set()
    process.join(30)
    assert registry.gc().removed == (digest,)


def test_leftovers_of_a_crashed_publisher_are_swept(registry: Registry) -> None:
    leftover = registry.root / ".incoming-dead"
    leftover.mkdir()
    registry.gc()
    assert leftover.exists()
    os.utime(leftover, (0, 0))
    registry.gc()
    assert not leftover.exists()


def test_erased_subjects_taint_what_learned_from_them(registry: Registry, tmp_path: Path) -> None:
    window = {"store_id": "s", "subjects": ["u_1", "u_2"]}
    digest = registry.publish(adapter(tmp_path / "a", data=window))
    publish(registry, tmp_path, 2)
    assert registry.taint("u_2") == [digest]
    assert registry.taint("nobody") == []
    assert {known.digest: known.tainted for known in registry.list_known()}[digest] == ("u_2",)


def test_a_damaged_adapter_is_listed_as_such(registry: Registry, tmp_path: Path) -> None:
    digest = publish(registry, tmp_path, 1)
    manifest = registry.path(digest) / "memkit_adapter.json"
    manifest.chmod(0o644)
    manifest.write_text("{}")
    assert registry.list_known()[0].damaged == "manifest_invalid"
    with pytest.raises(AdapterRejected):
        registry.publish(adapter(tmp_path / "again", seed=1))


def test_state_survives_reopening(registry: Registry, tmp_path: Path) -> None:
    digest = publish(registry, tmp_path, 1)
    point(registry, digest, actor="ana", note="first", ungated=True, proved=True)
    again = Registry(registry.root)
    assert again.alias("production") == registry.alias("production")
    assert (again.alias("production").actor, again.alias("production").ungated) == ("ana", True)
    again.close()
