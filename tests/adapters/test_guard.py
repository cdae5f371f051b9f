"""Automatic rollback: what trips it, what must not, and what it does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from memkit.adapters import AdapterSet, Outcome
from memkit.adapters.guard import Breach, Guard
from tests.adapters._make import FakeHost, adapter
from tests.adapters._sets import serving

GOOD = {"valid": 0.99, "error": 0.01, "deletions": 0.1, "tokens": 100.0}


def feed(guard: Guard, name: str | None, turns: int, rng: random.Random, **odd: float) -> Breach | None:
    rates = GOOD | odd
    for _ in range(turns):
        breach = guard.observe(
            Outcome(
                name,
                valid=rng.random() < rates["valid"],
                error=rng.random() < rates["error"],
                deletions=int(rng.random() < rates["deletions"]) * (3 if rates["deletions"] > 0.5 else 1),
                tokens=round(rng.gauss(rates["tokens"], 10)),
            )
        )
        if breach is not None:
            return breach
    return None


@pytest.mark.parametrize(
    ("metric", "odd"),
    [
        ("invalid", {"valid": 0.6}),
        ("errors", {"error": 0.5}),
        ("deletions", {"deletions": 0.8}),
        ("tokens", {"tokens": 500.0}),
    ],
)
def test_each_metric_trips_within_a_hundred_turns(metric: str, odd: dict[str, float]) -> None:
    for seed in range(20):
        guard, rng = Guard(), random.Random(seed)
        assert feed(guard, "old", 100, rng) is None
        breach = feed(guard, "new", 100, rng, **odd)
        assert breach is not None
        assert breach.metric == metric


def test_a_healthy_adapter_is_left_alone() -> None:
    alarms = 0
    for seed in range(20):
        guard, rng = Guard(), random.Random(seed)
        feed(guard, "old", 200, rng)
        alarms += feed(guard, "new", 2_000, rng, valid=0.95, error=0.03, deletions=0.2, tokens=130) is not None
    assert alarms == 0


def test_a_bad_day_of_the_server_is_not_blamed_on_one_adapter() -> None:
    guard, rng = Guard(), random.Random(1)
    for _ in range(300):
        for name in ("old", "new"):
            assert feed(guard, name, 1, rng, error=0.3, tokens=900) is None


def bad(adapters: AdapterSet, digest: str, turns: int = 60) -> None:
    for _ in range(turns):
        adapters.watch_outcome(Outcome(digest, valid=False))


def test_a_bad_promotion_is_rolled_back(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        adapters.promote("production", b)
        bad(adapters, b)
        state = adapters.registry.alias("production")
        assert (state.route("manager").stable, state.actor, state.version) == (a, "guard", 3)
        assert "invalid" in state.note
        with adapters.resolve("manager", "ana") as lease:
            assert lease.name == a


def test_a_canary_that_was_grown_is_taken_out_whole(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        adapters.canary("production", b, share=0.01)
        adapters.canary("production", b, share=0.1)
        bad(adapters, b)
        route = adapters.registry.alias("production").route("manager")
        assert (route.stable, route.challengers) == (a, ())


def test_an_adapter_that_was_there_all_along_is_reported_not_removed(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        adapters.canary("production", b, share=0.1)
        bad(adapters, a)
        assert adapters.registry.alias("production").version == 3
        assert adapters.registry.alias("production").route("manager").stable is None, "a came with version 1"


def test_the_pipelines_view_of_a_turn_becomes_outcomes(tmp_path: Path) -> None:
    from memkit.adapters.adapter_set import outcomes
    from memkit.errors import BadReply
    from tests.adapters._turns import Call, Turn

    turn: Any = Turn(
        [Call("manager", "A", deletes=2), Call("manager", "A", error=BadReply("x")), Call("extractor", None)]
    )
    by_adapter = {one.adapter: one for one in outcomes(turn, "production")}
    assert by_adapter["A"] == Outcome("A", "production", valid=False, deletions=2, tokens=220)
    assert by_adapter[None].valid
    lied: Any = Turn([Call("manager", "A", served_by="B")])
    assert outcomes(lied, "production")[0].error
    answered: Any = Turn([Call("answerer", "A")])
    assert outcomes(answered, "production") == [Outcome("A", "production", deletions=None, tokens=None)]
    quick, slow = (outcomes(Turn([Call("manager", "A", latency_ms=ms)]), "production") for ms in (1.0, 9e9))
    assert quick == slow, "a busy server is no fault of the adapter"


def test_answers_count_for_errors_and_thin_out_no_deletions() -> None:
    guard, answer = Guard(), Outcome("new", deletions=None)
    breaches = [guard.observe(one) for _ in range(60) for one in (Outcome("new", deletions=1), answer, answer)]
    assert any(breach is not None and breach.metric == "deletions" for breach in breaches)
    failing = Guard()
    found = [failing.observe(Outcome("new", error=True, deletions=None)) for _ in range(40)]
    assert any(breach is not None and breach.metric == "errors" for breach in found)
    assert failing.metrics()["production", "new"]["deletions"] == 0.0
