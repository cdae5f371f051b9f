"""`memory.adapters`: what users touch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memkit import Memory
from memkit.adapters import StaticHost
from memkit.errors import InvalidConfig
from tests.adapters._make import ranker


def test_a_promoted_ranker_ranks_the_next_search(tmp_path: Path) -> None:
    with Memory(tmp_path / "store") as memory:
        for text in ("Ana has a dog.", "Ana has a cat.", "Bob has a boat."):
            memory.add(text, user_id="ana", infer=False)
        embedder = {"embedder": memory._runtime.embedder.identity, "store_schema": 1}
        built_in = [hit.score for hit in memory.search("dog", user_id="ana")]
        digest = memory.adapters.publish(ranker(tmp_path / "r", words=5.0, retrieval=embedder))
        memory.adapters.promote("production", digest)
        assert [hit.score for hit in memory.search("dog", user_id="ana")] != built_in
        memory.adapters.rollback("production")
        assert [hit.score for hit in memory.search("dog", user_id="ana")] == built_in
        assert memory.adapters.list()[0].digest == digest


def test_adapters_may_be_a_folder_a_host_or_options(tmp_path: Path) -> None:
    for n, spec in enumerate((tmp_path / "elsewhere", str(tmp_path / "other"), StaticHost(), {"keep": 1})):
        with Memory(tmp_path / str(n), adapters=spec) as memory:
            assert memory.adapters.list() == []
    assert (tmp_path / "elsewhere" / "registry.sqlite").is_file()
    for wrong in (7, {"kepe": 1}, {"host": "vllm"}):
        with Memory(tmp_path / "wrong", adapters=wrong) as memory, pytest.raises(InvalidConfig):
            memory.adapters.list()


def test_a_store_without_adapters_never_loads_them(tmp_path: Path) -> None:
    code = (
        f"from memkit import Memory; import sys\nwith Memory({str(tmp_path / 'store')!r}) as memory:\n"
        "    memory.add('Ana has a dog.', user_id='ana')\n    memory.search('dog', user_id='ana')\n"
        "assert not [name for name in sys.modules if name.startswith('memkit.adapters')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
