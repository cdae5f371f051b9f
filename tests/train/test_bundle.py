"""A bundle comes from elsewhere: whatever is in it is refused in words, and nothing of this machine leaves with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memkit_train.errors import BadBundle
from memkit_train.log import StoreSource
from memkit_train.log.bundle import FORMAT, BundleSource, bundle, read_manifest, restore, take_adapter
from tests.train.stores import lived, teacher, world

EPISODES = world(2, seed=7)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


@pytest.fixture
def made(store: Path, tmp_path: Path) -> Path:
    with StoreSource(store) as source:
        bundle(source, tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "5",
        "null",
        '{"memkit_bundle": 1}',
        '{"memkit_bundle": "x"}',
        '{"memkit_bundle": null}',
        "{",
        "[" * 100_000,
        json.dumps({"memkit_bundle": FORMAT, "files": [], "store_id": "s", "embedder": None}),
    ],
)
def test_a_manifest_that_is_none_is_refused(text: str, store: Path, made: Path, tmp_path: Path) -> None:
    (made / "bundle.json").write_text(text)
    with StoreSource(store) as source:
        for use in (
            read_manifest,
            BundleSource,
            lambda path: restore(path, tmp_path / "new"),
            lambda path: take_adapter(path, source, tmp_path / "taken"),
        ):
            with pytest.raises(BadBundle):
                use(made)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["store_id", "embedder", "files"])
def test_a_manifest_names_the_part_that_is_damaged(name: str, made: Path) -> None:
    manifest = json.loads((made / "bundle.json").read_text())
    (made / "bundle.json").write_text(json.dumps(manifest | {name: 5}))
    with pytest.raises(BadBundle, match=name):
        BundleSource(made)


@pytest.mark.parametrize("text", ["{oops\n", "5\n", None])
def test_records_that_cannot_be_read_are_refused(text: str | None, made: Path) -> None:
    manifest = json.loads((made / "bundle.json").read_text())
    del manifest["files"]["ops.jsonl"]
    (made / "bundle.json").write_text(json.dumps(manifest))
    if text is None:
        (made / "ops.jsonl").unlink()
    else:
        (made / "ops.jsonl").write_text(text)
    with pytest.raises(BadBundle, match=r"ops\.jsonl"):
        BundleSource(made)


def linked(home: Path, secret: Path) -> None:
    (home / "adapter_config.json").symlink_to(secret)


def deep(home: Path, secret: Path) -> None:
    (home / "more").symlink_to(secret.parent)


def piped(home: Path, _: Path) -> None:
    os.mkfifo(home / "pipe")


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("plant", [linked, deep, piped])
def test_an_adapter_that_links_elsewhere_is_not_taken(plant: Any, store: Path, made: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secrets" / "hostname"
    secret.parent.mkdir()
    secret.write_text("of this machine")
    (made / "adapter").mkdir()
    plant(made / "adapter", secret)
    with StoreSource(store) as source, pytest.raises(BadBundle, match="plain files"):
        take_adapter(made, source, tmp_path / "taken")
    assert not (tmp_path / "taken").exists()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_an_adapter_folder_that_is_a_link_is_not_taken(store: Path, made: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (made / "adapter").symlink_to(tmp_path / "elsewhere")
    with StoreSource(store) as source, pytest.raises(BadBundle, match="plain files"):
        take_adapter(made, source, tmp_path / "taken")
