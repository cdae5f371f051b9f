"""Shadow mode: candidates answer the same prompts, nothing of it is applied, both decisions are kept and compared."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memkit.adapters.shadow import ShadowLog, ShadowPair, report
from memkit.errors import ModelTimeout
from memkit.seams.backbone import GenReply, GenRequest, Replies
from tests.adapters._make import FakeHost, adapter
from tests.adapters._sets import serving
from tests.adapters._turns import Call, Turn

ONE = ShadowPair("2026", "ana", "production", "manager", "d_1", "A", "B", ("ADD a dog",), ("ADD a dog",))


def turn(*manager_replies: str) -> Any:
    calls = [Call("extractor", None, "1 Ana has a dog named Buddy.")]
    return Turn([*calls, *(Call("manager", "A", text, decision_id=f"d_{n}") for n, text in enumerate(manager_replies))])


def test_agreement_is_about_meaning() -> None:
    assert replace(ONE, candidate_ops=("ADD A dog.",)).agrees
    assert replace(ONE, live_ops=("ADD a", "ADD b"), candidate_ops=("ADD b", "ADD a")).agrees
    assert not replace(ONE, candidate_ops=("ADD two dogs",)).agrees
    assert replace(ONE, candidate_ops=("ADD two dogs",)).same_actions
    assert not replace(ONE, error="BadReply").agrees


def test_a_report_counts_and_shows_the_newest_disagreements() -> None:
    other = replace(ONE, candidate_ops=("NOOP",))
    (made,) = report([ONE, other, replace(other, decision_id="d_2"), ONE], examples=1)
    assert (made.decisions, made.agreement, made.same_actions) == (4, 0.5, 0.5)
    assert [one.decision_id for one in made.disagreements] == ["d_2"]
    (shown,) = made.to_json()["disagreements"]
    assert (shown["live"], shown["candidate"], shown["error"]) == (["ADD a dog"], ["NOOP"], "")


def test_candidates_decide_a_share_of_turns_and_are_never_applied(tmp_path: Path) -> None:
    asked: list[str | None] = []

    def generate(requests: Sequence[GenRequest]) -> Replies:
        asked.extend(request.adapter for request in requests)
        return [GenReply("ADD", request.adapter) for request in requests]

    with serving(tmp_path / "store", FakeHost(), generate=generate) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        adapters.shadow("production", b, share=0.5)
        with adapters.resolve("manager", "ana") as lease:
            assert lease.name == a, "a shadow serves nobody"
        for n in range(60):
            adapters.observe(turn("ADD" if n % 3 else "NOOP"))
        (made,) = adapters.shadow_report()
        assert set(asked) == {b}
        assert 15 < made.decisions == len(asked) < 45
        assert 0.3 < made.agreement < 0.95
        assert made.by_role.keys() == {"manager"}, "the candidate does not extract"
        assert adapters.router.leases(b) == 0

        assert adapters.forget("ana") == made.decisions
        assert adapters.shadow_report() == []
        adapters.shadow("production", None)
        adapters.observe(turn("ADD"))
        assert adapters.shadow_report() == []


def test_a_failing_or_slow_candidate_never_disturbs_the_turn(tmp_path: Path) -> None:
    gate = threading.Event()

    def generate(requests: Sequence[GenRequest]) -> Replies:
        gate.wait(10)
        return [ModelTimeout("too slow") for _ in requests]

    with serving(tmp_path / "store", FakeHost(), generate=generate) as adapters:
        b = adapters.publish(adapter(tmp_path / "b", seed=2))
        adapters.shadow("production", b, share=1.0)
        for _ in range(100):
            adapters.observe(turn("ADD"))
        assert adapters._shadow is not None
        assert adapters._shadow.dropped >= 100 - 66, "a busy model is not queued upon without end"
        gate.set()
        (made,) = adapters.shadow_report()
        assert made.invalid == 1.0
        assert made.disagreements[0].error == "ModelTimeout"
        assert adapters.router.leases(b) == 0


def test_a_candidate_that_was_not_really_asked_is_no_agreement(tmp_path: Path) -> None:
    with serving(
        tmp_path / "store", FakeHost(), generate=lambda requests: [GenReply("ADD", None) for _ in requests]
    ) as adapters:
        b = adapters.publish(adapter(tmp_path / "b", seed=2))
        adapters.shadow("production", b, share=1.0)
        adapters.observe(turn("ADD"))
        assert adapters.shadow_report()[0].disagreements[0].error == "another adapter answered"


def test_shadow_needs_no_gates_but_a_sound_adapter(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        b = adapters.publish(adapter(tmp_path / "b", gates=[]))
        assert adapters.shadow("production", b, share=0.1).state.route("manager").shadow == b


def test_what_was_recorded_of_a_user_is_destroyed(tmp_path: Path) -> None:
    log = ShadowLog(tmp_path / "shadow.sqlite")
    secret = "canary-7f3a"
    for n in range(50):
        log.write(
            replace(ONE, user_id="bob" if n % 2 else "ana", live_ops=(f"ADD {secret} {n}" if n % 2 else "ADD x",))
        )
    assert log.forget("bob") == 25
    assert len(log.read()) == 25
    assert not any(secret.encode() in file.read_bytes() for file in tmp_path.iterdir())
