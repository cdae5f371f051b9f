"""A peer library in an environment of its own, so that it is measured as its users install it and ours stays clean."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class PeerMissing(Exception):
    """The peer could not be installed or run; the message says why."""


def peer_python(packages: Sequence[str]) -> Path:
    """An interpreter with just these packages; made once, kept in the user's cache."""
    cache = Path(os.environ.get("MEMKIT_BENCH_CACHE", Path.home() / ".cache" / "memkit-bench"))
    folder = cache / hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:16]
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode != 0:
        raise PeerMissing(f"pip could not install {' '.join(packages)}: {done.stderr.strip()[-300:]}")
    (folder / "ready").touch()
    return python


def run_peer(packages: Sequence[str], script: Path, request: dict[str, Any], timeout_s: float = 900) -> dict[str, Any]:
    """Run `script` in the peer's environment: the request goes in as JSON, its last line of output is the answer."""
    done = subprocess.run(
        [peer_python(packages), script],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=quiet(),
        check=False,
    )
    if done.returncode != 0:
        raise PeerMissing(f"{script.name} failed: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def quiet() -> dict[str, str]:
    """The environment of a peer's process: no telemetry, no code of ours."""
    said = {"MEM0_TELEMETRY": "False", "ANONYMIZED_TELEMETRY": "False", "OPENAI_API_KEY": "unused"}
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | said


def footprint(packages: Sequence[str]) -> str:
    """What an environment with these packages alone holds, beside pip."""
    python = peer_python(packages)
    call = [python, "-m", "pip", "list", "--format=json"]
    told = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    names = {one["name"] for one in told} - {"pip", "setuptools"}
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    beside = tuple(site / name for name in ("pip", "setuptools"))
    files = (path for path in site.rglob("*") if path.is_file() and not any(path.is_relative_to(one) for one in beside))
    return f"{python}: {len(names)} packages, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB"


if __name__ == "__main__":
    print(footprint(sys.argv[1:]))
