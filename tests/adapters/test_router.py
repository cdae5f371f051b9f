"""Who gets which adapter, with which probability, and that a leased adapter stays."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.adapters import Router
from memkit.adapters.plan import AliasState, Arm, Route, with_challengers, with_stable
from memkit.errors import InvalidInput

A, B, C = "a" * 64, "b" * 64, "c" * 64


def router(route: Route, version: int = 1) -> Router:
    made = Router()
    for digest in route.digests:
        made.note_loaded(digest)
    assert made.adopt(AliasState("production", version, {"manager": route}))
    return made


def test_without_an_alias_the_base_model_serves() -> None:
    with Router().resolve("manager", "ana") as lease:
        assert (lease.name, lease.version, lease.propensity) == (None, 0, 1.0)


def test_roles_that_an_adapter_does_not_serve_get_the_base() -> None:
    with router(Route(A)).resolve_all(("manager", "answerer"), "ana") as leases:
        assert {role: lease.name for role, lease in leases.items()} == {"manager": A, "answerer": None}


@given(st.text(min_size=1), st.floats(0.01, 0.5), st.floats(0.0, 0.5))
def test_growing_a_canary_keeps_its_users(user: str, share: float, more: float) -> None:
    small = Route(A, (Arm(B, share),)).assign(user)
    large = Route(A, (Arm(B, share + more),)).assign(user)
    assert not (small.digest == B and large.digest == A)


def test_a_user_keeps_the_adapter_and_shares_are_kept() -> None:
    route = Route(A, (Arm(B, 0.1), Arm(C, 0.3)))
    served = router(route)
    names: Counter[str | None] = Counter()
    for n in range(10_000):
        with served.resolve("manager", f"user-{n}") as lease:
            names[lease.name] += 1
            assert lease.propensity == pytest.approx({A: 0.6, B: 0.1, C: 0.3}[lease.name or ""])
            assert served.resolve("manager", f"user-{n}").name == lease.name
    for name, share in ((A, 0.6), (B, 0.1), (C, 0.3)):
        assert names[name] / 10_000 == pytest.approx(share, abs=4 * (share * (1 - share) / 10_000) ** 0.5)


def test_a_new_experiment_draws_new_users() -> None:
    users = [f"user-{n}" for n in range(2_000)]
    first = {user for user in users if Route(A, (Arm(B, 0.1),)).assign(user).digest == B}
    second = {user for user in users if Route(A, (Arm(C, 0.1),)).assign(user).digest == C}
    assert len(first & second) < len(first) / 3


def test_shares_must_be_shares() -> None:
    with pytest.raises(InvalidInput):
        with_challengers({}, [Arm(B, 0.7), Arm(C, 0.7)], ("manager",))


def test_promoting_the_canary_ends_the_experiment() -> None:
    routes = with_challengers({"manager": Route(A)}, [Arm(B, 0.1)], ("manager",))
    assert with_stable(routes, B, ("manager",))["manager"] == Route(B)


def test_a_leased_adapter_is_not_retired_until_the_lease_closes() -> None:
    served = router(Route(A))
    lease = served.resolve("manager", "ana")
    served.note_loaded(B)
    served.adopt(AliasState("production", 2, {"manager": Route(B)}))
    assert served.idle(frozenset()) == [A]
    assert not served.drain([A], 0.01)
    assert not served.retire(A)

    threading.Timer(0.1, lease.close).start()
    assert served.drain([A], 600.0)
    assert served.retire(A)
    assert served.residents == {B}


def test_what_is_served_or_retired_cannot_be_unloaded_or_adopted() -> None:
    served = router(Route(A))
    assert not served.retire(A)
    assert not served.adopt(AliasState("production", 2, {"manager": Route(B)}))
    served.note_loaded(B)
    assert served.adopt(AliasState("production", 3, {"manager": Route(B)}))
    assert not served.adopt(AliasState("production", 2, {"manager": Route(A)}))
    assert served.serving("production").version == 3


def test_no_request_sees_half_of_a_switch() -> None:
    served = Router()
    for digest in (A, B):
        served.note_loaded(digest)
    stop = threading.Event()

    def switch() -> None:
        version = 1
        while not stop.is_set():
            digest = (A, B)[version % 2]
            served.adopt(AliasState("production", version, {"manager": Route(digest), "answerer": Route(digest)}))
            version += 1

    def look(_: int) -> int:
        mixed = 0
        for _ in range(2_000):
            with served.resolve_all(("manager", "answerer"), "ana") as leases:
                mixed += leases["manager"].name != leases["answerer"].name
                mixed += leases["manager"].version != leases["answerer"].version
        return mixed

    thread = threading.Thread(target=switch)
    thread.start()
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(look, range(4))) == 0
    stop.set()
    thread.join()
    assert served.leases(A) == served.leases(B) == 0


def test_closing_a_lease_twice_counts_once() -> None:
    served = router(Route(A))
    first, second = served.resolve("manager", "ana"), served.resolve("manager", "bob")
    first.close()
    first.close()
    assert served.leases(A) == 1
    second.close()


def simulate(assign_by: str, *, seed: int = 0, users: int = 100_000, share: float = 0.1) -> tuple[float, float, float]:
    """Four sessions per user. A session's reward rests on the bank as the sessions before left it: each session under
    the candidate leaves 0.02 more for all that follow (carry-over), and is itself worth 0.01 more. Returns the true
    difference between serving everybody with the candidate and with the stable adapter, the estimate from the logged
    propensities, and its standard error, clustered by user."""
    route = Route(A, (Arm(B, share),))
    rng = np.random.default_rng(seed)
    sessions = 4
    keys = np.empty((users, sessions), dtype=bool)
    propensity = np.empty((users, sessions))
    for user in range(users):
        for session in range(sessions):
            if session and assign_by == "user":
                keys[user, session], propensity[user, session] = keys[user, 0], propensity[user, 0]
                continue
            arm = route.assign(f"user-{seed}-{user}" if assign_by == "user" else f"user-{seed}-{user}/{session}")
            keys[user, session], propensity[user, session] = arm.digest == B, arm.share
    own = rng.normal(0.5, 0.2, size=(users, 1))
    carried = 0.02 * (np.cumsum(keys, axis=1) - keys)
    reward = own + carried + 0.01 * keys + rng.normal(0, 0.1, size=(users, sessions))
    truth = 0.01 + 0.02 * (sessions - 1) / 2
    weight = np.where(keys, 1.0, -1.0) / propensity
    per_user = (weight * (reward - reward.mean())).mean(axis=1)
    return truth, float(per_user.mean()), float(per_user.std() / users**0.5)


def test_logged_propensities_recover_the_true_difference_despite_carry_over() -> None:
    off: list[float] = []
    for seed in range(5):
        truth, estimate, error = simulate("user", seed=seed)
        assert estimate > 1.96 * error, "precise enough to tell the candidate from the stable adapter"
        off.append((estimate - truth) / error)
    assert sum(abs(one) < 1.96 for one in off) >= 4, "95 % intervals that hold the true difference"
    assert abs(sum(off)) / len(off) ** 0.5 < 2.6, "no bias over the five"


def test_a_split_by_session_would_be_biased() -> None:
    truth, estimate, error = simulate("session")
    assert estimate < truth - 3 * error
