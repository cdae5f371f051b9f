"""The one way by which an alias starts to name an adapter: gates, erased subjects, then the swap (or, in a process
without a model such as the CLI, verification and the move alone; the serving processes load, probe, and take back)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from memkit.adapters.manifest import PROBE, Manifest
from memkit.adapters.plan import AliasState, Arm, Route, Routes, with_challengers, with_shadow, with_stable
from memkit.adapters.registry import ANY, Expected, Registry
from memkit.adapters.swap import Swapper, SwapReport
from memkit.adapters.verify import Serving, check_serving, inspect, read_manifest
from memkit.errors import GateRefused, InvalidInput

TaintPolicy = Literal["refuse", "warn"] | Callable[[str, Sequence[str]], None]
"""What to do with an adapter that learned from an erased user. A callable gets (digest, subjects) and may raise."""
Change = Callable[[Mapping[str, Route]], Routes]


def promote(
    registry: Registry,
    alias: str,
    digest: str,
    *,
    expected: Expected = ANY,
    roles: Sequence[str] | None = None,
    share: float | None = None,
    ungated: bool = False,
    actor: str = "",
    note: str = "",
    taints: TaintPolicy = "refuse",
    serving: Serving | None = None,
    swapper: Swapper | None = None,
) -> SwapReport:
    """Serve `digest` under `alias`, in its roles or some of them: to everybody, or as a canary to a `share` of users.

    Refuses (`GateRefused`) what has not passed its gates, unless `ungated`, which the history records. `expected` is
    compared when the alias moves; without it, with the version that stood when the call began. So of two processes that
    promote at once, one wins and the other gets `StaleAlias`."""
    digest = registry.find(digest)
    before = registry.alias(alias)
    if expected is ANY:
        expected = before.version
    manifest = _manifest(registry, digest, swapper)
    served = _roles(manifest, roles)
    if serving is not None:
        check_serving(manifest, serving)
    _check_gates(manifest, ungated)
    _check_taints(digest, registry.taints(digest), taints)
    if share is None:
        change: Change = lambda routes: with_stable(routes, digest, served)  # noqa: E731
    else:
        change = lambda routes: with_challengers(routes, [Arm(digest, share)], served)  # noqa: E731
    action = "promote" if share is None else "canary"

    def move(proved: bool) -> AliasState:
        return registry.move(
            alias,
            change,
            expected=expected,
            roles=served,
            actor=actor,
            action=action,
            note=note,
            ungated=not manifest.gated,
            proved=proved,
        )

    return _carry_out(swapper, {digest} if manifest.kind == "lora" else set(), move)


def shadow(
    registry: Registry,
    alias: str,
    digest: str | None,
    share: float,
    *,
    roles: Sequence[str] | None = None,
    actor: str = "",
    swapper: Swapper | None = None,
) -> SwapReport:
    """Let `digest` decide a share of turns for comparison; None ends it. It needs no gates: none of it is applied."""
    before = registry.alias(alias)
    if digest is None:
        served: tuple[str, ...] = tuple(before.routes)
    else:
        digest = registry.find(digest)
        served = _roles(_manifest(registry, digest, swapper), roles)

    def move(proved: bool) -> AliasState:
        return registry.move(
            alias,
            lambda routes: with_shadow(routes, digest, share, served),
            expected=before.version,
            actor=actor,
            action="shadow",
            proved=proved and before.proved,
        )

    return _carry_out(swapper, {digest} if digest else set(), move)


def end_canary(registry: Registry, alias: str, *, actor: str = "", swapper: Swapper | None = None) -> SwapReport:
    """Everybody gets the stable adapters again."""
    before = registry.alias(alias)

    def move(proved: bool) -> AliasState:
        return registry.move(
            alias,
            lambda routes: with_challengers(routes, (), tuple(routes)),
            expected=before.version,
            actor=actor,
            action="canary",
            note="ended",
            proved=before.proved,
        )

    return _carry_out(swapper, set(), move)


def rollback(
    registry: Registry,
    alias: str,
    *,
    to: int | None = None,
    expected: Expected = ANY,
    actor: str = "",
    note: str = "",
    swapper: Swapper | None = None,
) -> AliasState:
    """Undo the last change of the alias, or all after version `to`. Where the earlier adapters are still loaded (the
    last generations are kept warm), this touches neither model nor server, and waits for no swap under way."""
    now = registry.alias(alias)
    goal = now.back if to is None else to
    target = None if goal is None else registry.version_of(alias, goal)

    compared = now.version if expected is ANY else expected

    def move(proved: bool, serve: Callable[[AliasState], object] = lambda _: None) -> AliasState:
        return registry.rollback(alias, to=to, expected=compared, actor=actor, note=note, proved=proved, serve=serve)

    if swapper is None or swapper.host is None or target is None:
        return move(False)
    if not swapper.at_once(target):
        return swapper.swap(swapper.effective(target).digests, move).state
    state = move(False, swapper.adopt)
    if swapper.router.serving(alias).version < state.version:  # unloaded at this very moment
        swapper.follow(state)
    return state


def _carry_out(swapper: Swapper | None, digests: set[str], move: Callable[[bool], AliasState]) -> SwapReport:
    """With a host, the alias moves after the probe. Without one, it moves at once and is unproved."""
    if swapper is not None and swapper.host is not None:
        return swapper.swap(digests, move)
    return SwapReport(move(False), {}, (), {})


def _manifest(registry: Registry, digest: str, swapper: Swapper | None) -> Manifest:
    """Of an adapter that is sound. A swap inspects it again before it loads it, so then its claims are enough here."""
    folder = registry.path(digest)
    manifest = read_manifest(folder)
    if swapper is None or swapper.host is None or manifest.kind == "ranker" or manifest.digest != digest:
        return inspect(folder, expected=digest).manifest
    return manifest


def _roles(manifest: Manifest, roles: Sequence[str] | None) -> tuple[str, ...]:
    chosen = tuple(manifest.roles if roles is None else roles)
    odd = sorted(set(chosen) - set(manifest.roles))
    if not chosen or odd:
        raise InvalidInput(
            f"the adapter does not serve {', '.join(odd) if chosen else 'no roles'}",
            why=f"it was trained for {', '.join(manifest.roles)}",
            fix="leave roles= out, or name some of these",
        )
    return chosen


def _check_gates(manifest: Manifest, ungated: bool) -> None:
    if ungated:
        return
    failed = [gate.name for gate in manifest.gates if not gate.passed]
    if failed:
        what, reason = f"gates failed: {', '.join(failed)}", "gates_failed"
    elif not manifest.gates:
        what, reason = "no gate was run", "no_gates"
    elif manifest.kind == "lora" and PROBE not in manifest.files:
        what, reason = "it has no probe, so nothing could show that it is in effect", "no_probe"
    else:
        return
    raise GateRefused(
        f"not promoted: {what}",
        why="only adapters that were shown to be better are taken into service",
        fix="run memkit-train gate, or pass --ungated (recorded in the history)",
        reason=reason,
        failed=failed,
    )


def _check_taints(digest: str, subjects: Sequence[str], policy: TaintPolicy) -> None:
    if not subjects or policy == "warn":
        return
    if callable(policy):
        policy(digest, subjects)
        return
    raise GateRefused(
        f"not promoted: it learned from {len(subjects)} erased user{'s' if len(subjects) > 1 else ''}",
        why="weights may remember what was erased",
        fix="train it again without them, or allow it: memkit adapters promote … --allow-tainted",
        reason="tainted",
    )
