"""The swap procedure: order, what each failure leaves behind, rollback, following other processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memkit.adapters import AdapterSet, Probe, ProbeCase, Registry, promote
from memkit.adapters.swap import STEPS
from memkit.errors import GateRefused, HostFull, MemkitError, NotFound, ProbeFailed, StaleAlias
from tests.adapters._make import FakeHost, adapter, log_probs, ranker
from tests.adapters._sets import serving


def name_of(adapters: AdapterSet, user: str = "ana") -> str | None:
    with adapters.resolve("manager", user) as lease:
        return lease.name


def eventually(check: object, timeout_s: float = 5.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if check():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


def test_a_swap_takes_its_steps_in_order(tmp_path: Path) -> None:
    steps: list[str] = []
    with serving(tmp_path / "store", FakeHost(), keep=1, on_step=steps.append, poll_s=60) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        steps.clear()
        report = adapters.promote("production", b, expected=a)
        assert tuple(steps) == STEPS
        assert report.unloaded == (a,)
        assert report.probes[b] is not None
        assert name_of(adapters) == b


@pytest.mark.parametrize(("spoil", "error"), [("load", HostFull), ("ignored", ProbeFailed), ("drift", ProbeFailed)])
def test_a_failure_leaves_alias_and_host_as_they_were(spoil: str, error: type[MemkitError], tmp_path: Path) -> None:
    host = FakeHost()
    with serving(tmp_path / "store", host) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        host.spoil = spoil
        with pytest.raises(error):
            adapters.promote("production", b)
        assert (adapters.registry.alias("production").version, name_of(adapters)) == (1, a)
        assert set(host.loaded) == {a}
        assert not adapters.registry.in_use.is_held(b)


def test_a_probe_of_another_adapter_does_not_pass(tmp_path: Path) -> None:
    """Same base, same shapes, wrong weights: nothing but behaviour tells."""
    case = ProbeCase(prompt_ids=(1, 2, 3), token_ids=(4, 5), logprobs=tuple(log_probs(b"another", (4, 5))))
    with serving(tmp_path / "store", FakeHost()) as adapters:
        digest = adapters.publish(adapter(tmp_path / "a", probe=Probe(cases=(case,), tolerance=0.1)))
        with pytest.raises(ProbeFailed) as failed:
            adapters.promote("production", digest)
        assert failed.value.details["reason"] == "unlike_trainer"


def test_rollback_is_immediate_while_warm_and_does_not_wait_for_a_swap(tmp_path: Path) -> None:
    host = FakeHost()
    with serving(tmp_path / "store", host) as adapters:
        a, b, c = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2, 3))
        adapters.promote("production", a)
        adapters.promote("production", b)
        entered, go_on = threading.Event(), threading.Event()

        def slow(artifact: object, load: object = host.load) -> object:
            entered.set()
            go_on.wait(10)
            return load(artifact)  # type: ignore[operator]

        host.load = slow  # type: ignore[method-assign, assignment]
        failed: list[BaseException] = []

        def promote_c() -> None:
            try:
                adapters.promote("production", c)
            except StaleAlias as error:
                failed.append(error)

        thread = threading.Thread(target=promote_c)
        thread.start()
        assert entered.wait(10)
        adapters.rollback("production")
        assert name_of(adapters) == a
        go_on.set()
        thread.join(10)
        assert len(failed) == 1, "the swap was overtaken"
        assert name_of(adapters) == a


def test_rollback_to_what_was_unloaded_loads_and_probes_it_again(tmp_path: Path) -> None:
    host = FakeHost()
    with serving(tmp_path / "store", host, keep=1) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        adapters.promote("production", b)
        assert set(host.loaded) == {b}
        adapters.rollback("production")
        assert name_of(adapters) == a
        assert host.calls.count(("load", a)) == 2


def test_a_leased_adapter_is_unloaded_only_after_the_lease(tmp_path: Path) -> None:
    host = FakeHost()
    with serving(tmp_path / "store", host, keep=1, drain_s=0.05) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        lease = adapters.resolve("manager", "ana")
        assert adapters.promote("production", b).draining == (a,)
        assert set(host.loaded) == {a, b}
        lease.close()
        assert eventually(lambda: set(host.loaded) == {b})


def test_a_long_lease_delays_no_other_swap(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost(), keep=1, drain_s=20.0) as adapters:
        a, b, c = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2, 3))
        adapters.promote("production", a)
        lease = adapters.resolve("manager", "ana")
        waiting = threading.Thread(target=adapters.promote, args=("production", b))
        waiting.start()
        assert eventually(lambda: name_of(adapters) == b)
        elsewhere = Registry(tmp_path / "store")
        promote(elsewhere, "production", c)
        assert eventually(lambda: name_of(adapters) == c, 2.0)
        lease.close()
        waiting.join(10)
        elsewhere.close()


def test_warm_adapters_make_room_on_a_full_host(tmp_path: Path) -> None:
    host = FakeHost(max_adapters=2)
    with serving(tmp_path / "store", host) as adapters:
        digests = [adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2, 3)]
        for digest in digests:
            adapters.promote("production", digest)
        assert set(host.loaded) == set(digests[1:])


# ---- gates -----------------------------------------------------------------------------------------------------


def test_promotion_refuses_what_passed_no_gate_unless_told_and_records_it(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        none = adapters.publish(adapter(tmp_path / "a", gates=[]))
        failed = adapters.publish(
            adapter(tmp_path / "b", seed=2, gates=[{"name": "safety", "passed": False}, {"name": "x", "passed": True}])
        )
        blind = adapters.publish(adapter(tmp_path / "c", seed=3, probe=None))
        for digest, reason in ((none, "no_gates"), (failed, "gates_failed"), (blind, "no_probe")):
            with pytest.raises(GateRefused) as refused:
                adapters.promote("production", digest)
            assert refused.value.details["reason"] == reason
        assert adapters.registry.alias("production").version == 0
        state = adapters.promote("production", failed, ungated=True, actor="ana", note="demo").state
        assert (state.ungated, state.actor, state.note) == (True, "ana", "demo")


def test_an_adapter_that_learned_from_an_erased_user_is_not_promoted(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        digest = adapters.publish(adapter(tmp_path / "a", data={"store_id": "s", "subjects": ["u_1"]}))
        adapters.taint("u_1")
        with pytest.raises(GateRefused, match="erased"):
            adapters.promote("production", digest)


# ---- several processes -----------------------------------------------------------------------------------------


def test_a_promotion_elsewhere_is_picked_up_within_a_second(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost(), poll_s=0.25) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        elsewhere = Registry(tmp_path / "store")
        assert not promote(elsewhere, "production", b).state.proved
        assert eventually(lambda: name_of(adapters) == b, 1.0)
        assert eventually(lambda: elsewhere.alias("production").proved)
        elsewhere.rollback("production")
        assert eventually(lambda: name_of(adapters) == a, 1.0)
        elsewhere.close()


def test_an_unproved_promotion_that_fails_its_probe_is_taken_back(tmp_path: Path) -> None:
    host = FakeHost()
    with serving(tmp_path / "store", host) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
        host.spoil = "drift"
        elsewhere = Registry(tmp_path / "store")
        promote(elsewhere, "production", b)
        assert eventually(lambda: elsewhere.alias("production").version == 3)
        assert name_of(adapters) == a
        assert "taken back" in elsewhere.alias("production").note
        assert eventually(lambda: [event["event"] for event in adapters.events] == ["not_served"])
        elsewhere.close()


def test_a_proved_promotion_that_fails_only_here_stays_and_an_earlier_one_serves(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as first:
        a, b = (first.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        first.promote("production", a)
        first.promote("production", b)
    broken = FakeHost()
    load = broken.load

    def no_b(artifact: object) -> object:
        if artifact.name == b:  # type: ignore[attr-defined]
            raise HostFull("out of memory")
        return load(artifact)  # type: ignore[arg-type]

    broken.load = no_b  # type: ignore[method-assign, assignment]
    with serving(tmp_path / "store", broken) as second:
        assert name_of(second) == a
        assert second.registry.alias("production").route("manager").stable == b


def test_two_sets_that_promote_at_once_one_wins(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as one, serving(tmp_path / "store", FakeHost()) as two:
        digests = [one.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2)]
        barrier, results = threading.Barrier(2), []

        def run(adapters: AdapterSet, digest: str) -> None:
            barrier.wait()
            try:
                results.append(adapters.promote("production", digest, expected=0).state.version)
            except StaleAlias as error:
                results.append(("stale", error.details["version"]))

        threads = [threading.Thread(target=run, args=pair) for pair in zip((one, two), digests, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results, key=str) == [("stale", 1), 1]


def test_a_shared_server_keeps_what_another_process_uses(tmp_path: Path) -> None:
    host = FakeHost(shared=True)
    with serving(tmp_path / "store", host, keep=1) as one, serving(tmp_path / "store", host, poll_s=60) as two:
        a, b = (one.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        one.promote("production", a)
        two.start()
        one.promote("production", b)
        assert a in host.loaded, "two still serves it"
        assert name_of(two) == a


CHILD = """
import os, signal, sys
from pathlib import Path
from tests.adapters._make import FakeHost
from tests.adapters._sets import serving
root, digest, fatal = sys.argv[1:]
def on_step(step):
    if step == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
adapters = serving(Path(root), FakeHost(), keep=1, poll_s=60)
adapters.start()
adapters._swapper._on_step = on_step
adapters.promote("production", digest)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("step", [*STEPS, "end"])
def test_after_kill_9_the_alias_names_an_adapter_that_passed_its_probe(step: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving(store, FakeHost()) as adapters:
        a, b = (adapters.publish(adapter(tmp_path / f"a{seed}", seed=seed)) for seed in (1, 2))
        adapters.promote("production", a)
    child = subprocess.run([sys.executable, "-c", CHILD, str(store), b, step], check=False, cwd=os.getcwd())
    assert child.returncode == -signal.SIGKILL
    with serving(store, FakeHost()) as adapters:
        state = adapters.registry.alias("production")
        assert state.proved
        assert state.route("manager").stable == (a if STEPS.index(step) <= 4 else b) if step != "end" else b
        assert name_of(adapters) == state.route("manager").stable
        assert all(not why for _, why in adapters.verify())


@pytest.mark.parametrize("when", range(10))
def test_after_kill_9_while_publishing_nothing_half_done_is_visible(when: int, tmp_path: Path) -> None:
    source = adapter(tmp_path / "a")
    code = f"""
import os, signal, sys
calls = 0
def hook(event, args):
    global calls
    if event in ("os.mkdir", "os.rename", "os.chmod", "open") and "store" in str(args[0]) and ".incoming" in str(args):
        calls += 1
        if calls > {when} * 4:
            os.kill(os.getpid(), signal.SIGKILL)
from memkit.adapters import Registry
registry = Registry({str(tmp_path / "store")!r})
sys.addaudithook(hook)
registry.publish({str(source)!r})
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    registry = Registry(tmp_path / "store")
    for known in registry.list_known():
        assert not known.damaged
    digest = registry.publish(source)
    assert registry.digests() == [digest]
    registry.close()


# ---- rankers ---------------------------------------------------------------------------------------------------


def test_rankers_are_promoted_and_rolled_back_like_adapters_without_a_host(tmp_path: Path) -> None:
    with serving(tmp_path / "store", None) as adapters:
        assert adapters.ranker() is None
        first, second = (adapters.publish(ranker(tmp_path / f"r{n}", words=n / 10)) for n in (1, 2))
        adapters.promote("production", first)
        assert dict(adapters.ranker().values)["words"] == 0.1  # type: ignore[union-attr]
        elsewhere = Registry(tmp_path / "store")
        promote(elsewhere, "production", second)
        assert dict(adapters.ranker().values)["words"] == 0.2  # type: ignore[union-attr]
        elsewhere.rollback("production")
        assert dict(adapters.ranker().values)["words"] == 0.1  # type: ignore[union-attr]
        elsewhere.close()


def test_a_ranker_canary_is_sticky_by_user(tmp_path: Path) -> None:
    with serving(tmp_path / "store", None) as adapters:
        digest = adapters.publish(ranker(tmp_path / "r", words=0.9))
        adapters.canary("production", digest, share=0.3)
        served = {user: adapters.ranker(user) is not None for user in map(str, range(500))}
        assert 0.2 < sum(served.values()) / 500 < 0.4
        assert served == {user: adapters.ranker(user) is not None for user in served}


def test_a_manager_adapter_and_a_ranker_share_an_alias(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        lora, weights = adapters.publish(adapter(tmp_path / "a")), adapters.publish(ranker(tmp_path / "r"))
        adapters.promote("production", lora)
        adapters.promote("production", weights)
        assert name_of(adapters) == lora
        assert adapters.ranker() is not None
        adapters.rollback("production")
        assert name_of(adapters) == lora
        assert adapters.ranker() is None


def test_promoting_by_a_wrong_name_is_an_error(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters, pytest.raises(NotFound):
        adapters.promote("production", "abcdef")


def test_history_is_json_free_of_content(tmp_path: Path) -> None:
    with serving(tmp_path / "store", FakeHost()) as adapters:
        adapters.promote("production", adapters.publish(adapter(tmp_path / "a")), actor="ci")
        (state,) = adapters.history()
        assert json.loads(json.dumps({role: route.to_json() for role, route in state.routes.items()}))
        assert state.actor == "ci"
