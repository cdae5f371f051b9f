"""The compose file of the fleet: its memory service runs as it is told there, on PostgreSQL and with real S3 requests.
Whether the images can be had, and start each other, is not tried."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.object_storage import BUCKET, own_bucket
from tests.postgres import own_url

FLEET = yaml.safe_load((Path(__file__).resolve().parents[2] / "examples" / "fleet" / "compose.yaml").read_text("utf-8"))
MEMORY: dict[str, Any] = FLEET["services"]["memory"]
BASE = "/memkit/v1"


def test_a_service_of_the_fleet_finds_what_another_was_told(tmp_path: Path) -> None:
    store = own_url(tmp_path)
    given = {"DB_PASSWORD": "", "MEMKIT_TOKEN": "an-app's-token-of-some-length", "STORAGE_KEY": "test"}
    environ = {**os.environ, **{name: _filled(value, given) for name, value in MEMORY["environment"].items()}}
    assert "&lance=s3://memkit/lance" in environ["MEMKIT_STORE"]
    environ["MEMKIT_STORE"] = f"{store}&lance=s3://{BUCKET}/{tmp_path.name}"
    environ |= own_bucket().environment  # the server that stands for `storage`
    web: dict[str, Any] = {"headers": {"authorization": f"Bearer {given['MEMKIT_TOKEN']}"}, "timeout": 120.0}
    with _serve(environ, tmp_path / "one") as one, _serve(environ, tmp_path / "two") as two:
        first, second = _address(one), _address(two)
        try:
            said = {"messages": "I moved to Oslo.", "user_id": "ana"}
            assert httpx.post(f"{first}{BASE}/add", json=said, **web).json()["status"] == "applied"
            asked = {"query": "where does Ana live?", "user_id": "ana"}
            (hit, *_) = httpx.post(f"{second}{BASE}/search", json=asked, **web).json()["hits"]
            assert "Oslo" in hit["memory"]["text"]
            path = re.search(r"127\.0\.0\.1:8787(/\S+?)'", MEMORY["healthcheck"]["test"][-1])
            assert path is not None
            assert httpx.get(f"{second}{path[1]}", timeout=60.0).status_code == 200
        finally:
            one.terminate()
            two.terminate()


def _filled(value: str, given: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda found: given[found[1]], str(value))


def _serve(environ: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    here = {"8787": "0", "0.0.0.0": "127.0.0.1"}
    command = [here.get(one) or one for one in map(str, MEMORY["command"][1:])]
    return subprocess.Popen(
        [sys.executable, "-m", MEMORY["command"][0], *command],
        stdout=subprocess.PIPE,
        text=True,
        env={**environ, "XDG_CACHE_HOME": str(folder)},
    )


def _address(served: subprocess.Popen[str]) -> str:
    assert served.stdout is not None
    found = re.search(r"http://[^/]+:(\d+)", served.stdout.readline())
    if found is None:
        pytest.fail("it did not say where it listens")
    return f"http://127.0.0.1:{found[1]}"
