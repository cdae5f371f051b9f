"""`memkit adapters`: exit codes and what is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from memkit.adapters import Registry
from memkit.adapters.shadow import ShadowLog, ShadowPair
from memkit.cli.adapters import app
from memkit.errors import GateRefused, InvalidInput, NotAStore, NotFound, StaleAlias
from tests.adapters._make import adapter


@pytest.fixture
def store(tmp_path: Path) -> Path:
    registry = Registry(tmp_path / "store" / "adapters")
    registry.publish(adapter(tmp_path / "a", seed=1))
    registry.publish(adapter(tmp_path / "b", seed=2, gates=[]))
    registry.close()
    return tmp_path / "store"


def call(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--store", str(store)])


def digests(store: Path) -> tuple[str, str]:
    listed = json.loads(call(store, "list", "--json").stdout)["adapters"]
    return next(one["digest"] for one in listed if one["gated"]), next(
        one["digest"] for one in listed if not one["gated"]
    )


def told(store: Path, *arguments: str) -> Any:
    result = call(store, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_promote_roll_back_and_look(store: Path) -> None:
    good, _ = digests(store)
    assert told(store, "promote", good[:8], "--expected", "base", "--note", "first")["version"] == 1
    listed = told(store, "list")
    assert listed["aliases"][0]["routes"]["manager"]["stable"] == good
    assert told(store, "show", good[:8])["history"][0]["note"] == "first"
    assert told(store, "rollback")["routes"] == {}
    assert call(store, "rollback").exit_code == 4


def test_gates_are_kept(store: Path) -> None:
    _, raw = digests(store)
    assert isinstance(call(store, "promote", raw).exception, GateRefused)
    assert told(store, "promote", raw, "--ungated")["ungated"] is True
    assert told(store, "show", raw)["history"][0]["ungated"] is True


def test_a_refused_gate_exits_with_3(store: Path) -> None:
    _, raw = digests(store)
    code = (
        "import sys; from memkit.cli import show; from memkit.cli.adapters import app\n"
        "from memkit.errors import MemkitError\n"
        "try: app()\nexcept MemkitError as error: sys.exit(show.fail(error))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "promote", raw, "--store", str(store)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "memkit-train gate" in " ".join(done.stderr.split())


def test_wrong_input_is_named(store: Path) -> None:
    good, _ = digests(store)
    told(store, "promote", good)
    assert isinstance(call(store, "promote", good, "--expected", "7").exception, StaleAlias)
    assert isinstance(call(store, "promote", "nonsense").exception, NotFound)
    assert isinstance(call(store, "promote", good, "--role", "answerer").exception, InvalidInput)
    assert isinstance(call(store, "promote", good, "--alias", "../x").exception, InvalidInput)
    assert isinstance(call(store / "missing", "list").exception, NotAStore)


def test_canary_and_shadow(store: Path) -> None:
    good, raw = digests(store)
    assert told(store, "canary", good, "--share", "0.1")["routes"]["manager"]["challengers"] == [[good, 0.1]]
    assert told(store, "canary", "--end")["routes"]["manager"]["challengers"] == []
    assert call(store, "canary", "--end").exit_code == 4
    assert told(store, "shadow", raw, "--share", "0.5")["routes"]["manager"]["shadow"] == raw
    assert call(store, "shadow", "--report").exit_code == 4
    log = ShadowLog(store / "adapters" / "shadow.sqlite")
    log.write(ShadowPair("2026", "ana", "production", "manager", "d_1", good, raw, ("ADD dog",), ("NOOP",)))
    (report,) = told(store, "shadow", "--report")
    assert (report["agreement"], report["disagreements"][0]["candidate"]) == (0.0, ["NOOP"])
    assert "NOOP" in call(store, "shadow", "--report").stdout
    assert told(store, "shadow", "--end")["routes"]["manager"]["shadow"] is None


def test_verify_and_gc(store: Path) -> None:
    good, _ = digests(store)
    assert all(one["ok"] for one in told(store, "verify"))
    assert call(store, "gc").exit_code == 4, "both are young"
    assert len(told(store, "gc", "--min-age-hours", "0", "--dry-run")["removed"]) == 2
    weights = store / "adapters" / good / "adapter_model.safetensors"
    weights.chmod(0o644)
    weights.write_bytes(b"damaged")
    result = call(store, "verify", good[:8], "--json")
    assert (result.exit_code, json.loads(result.stdout)[0]["reason"]) == (1, "size_mismatch")


def test_tables_for_people(store: Path) -> None:
    good, _ = digests(store)
    told(store, "promote", good)
    for command in (["list"], ["show", good], ["verify"], ["rollback"]):
        result = call(store, *command)
        assert result.exit_code == 0, result.output
        assert result.stdout.strip()
