"""What an alias names: per role a stable adapter, challengers with their share of users, and a shadow. Pure values.

A user is assigned by hashing, not by a stored table: the same user gets the same arm in every process and after every
restart, for as long as the experiment runs. Assignment is per *user* because banks carry over from session to session:
what one adapter wrote, the next session reads, so a split by session would credit one arm with the other's memories.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memkit.errors import InvalidInput
from memkit.models import JSON

MODEL_ROLES = frozenset({"extractor", "manager", "answerer", "fused"})
"""The roles that a LoRA serves. The fifth, "ranker", is served by weights that are a value, not by a model."""


@dataclass(frozen=True, slots=True)
class Arm:
    """`digest` None is the base model."""

    digest: str | None
    share: float


@dataclass(frozen=True, slots=True)
class Route:
    """How one role is served. `challengers` take their shares of all users; the rest get `stable`."""

    stable: str | None = None
    challengers: tuple[Arm, ...] = ()
    shadow: str | None = None
    shadow_share: float = 0.0

    @property
    def deciding(self) -> frozenset[str]:
        """Adapters whose decisions are applied."""
        return frozenset(name for name in (self.stable, *(arm.digest for arm in self.challengers)) if name is not None)

    @property
    def digests(self) -> frozenset[str]:
        named = (self.stable, self.shadow, *(arm.digest for arm in self.challengers))
        return frozenset(name for name in named if name is not None)

    def assign(self, user_key: str) -> Arm:
        """The user's arm, with the probability that a user gets it (the propensity). Challengers lie at the low end of
        the hash, so that growing a share keeps every user who already has it."""
        point, start = _point(self._salt, user_key), 0.0
        for arm in self.challengers:
            start += arm.share
            if point < start:
                return arm
        return Arm(self.stable, 1.0 - sum(arm.share for arm in self.challengers))

    @property
    def _salt(self) -> str:
        """New experiments draw new users; changing the shares of one does not."""
        return ",".join(arm.digest or "base" for arm in self.challengers)

    def to_json(self) -> JSON:
        return {
            "stable": self.stable,
            "challengers": [[arm.digest, arm.share] for arm in self.challengers],
            "shadow": self.shadow,
            "shadow_share": self.shadow_share,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Route:
        arms = tuple(Arm(digest, float(share)) for digest, share in raw["challengers"])
        return cls(raw["stable"], arms, raw["shadow"], float(raw["shadow_share"]))


@dataclass(frozen=True, slots=True)
class AliasState:
    """An alias at one version. Versions only grow; a rollback is a new version with an old plan."""

    alias: str
    version: int = 0
    routes: Mapping[str, Route] = field(default_factory=dict[str, Route])
    back: int | None = None
    """The version whose plan `rollback` restores."""
    proved: bool = False
    """A process that serves it has loaded and probed every adapter in it."""
    actor: str = ""
    action: str = ""
    note: str = ""
    ungated: bool = False
    at: str = ""

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(name for route in self.routes.values() for name in route.digests)

    @property
    def deciding(self) -> frozenset[str]:
        return frozenset(name for route in self.routes.values() for name in route.deciding)

    def route(self, role: str) -> Route:
        return self.routes.get(role, _BASE)


_BASE = Route()
Routes = Mapping[str, Route]


def _point(salt: str, user_key: str) -> float:
    """A number in [0, 1) that depends on the experiment and the user alone."""
    raw = hashlib.sha256(f"{salt}\x00{user_key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(raw[:7], "big") / 2.0**56


def with_stable(routes: Routes, digest: str | None, roles: Sequence[str]) -> dict[str, Route]:
    """Serve `digest` to everybody; it ends experiments of these roles, and a shadow that was itself."""
    out = dict(routes)
    for role in roles:
        old = out.get(role, _BASE)
        shadow = (None, 0.0) if old.shadow == digest else (old.shadow, old.shadow_share)
        out[role] = Route(digest, (), *shadow)
    return out


def with_challengers(routes: Routes, arms: Sequence[Arm], roles: Sequence[str]) -> dict[str, Route]:
    total = sum(arm.share for arm in arms)
    if any(not 0 < arm.share <= 1 for arm in arms) or total > 1 + 1e-9:
        raise InvalidInput(
            "shares of users lie between 0 and 1 and add up to at most 1", fix="canary(..., share=0.05) is five percent"
        )
    out = dict(routes)
    for role in roles:
        old = out.get(role, _BASE)
        kept = tuple(arm for arm in arms if arm.digest != old.stable)
        out[role] = Route(old.stable, kept, old.shadow, old.shadow_share)
    return out


def with_shadow(routes: Routes, digest: str | None, share: float, roles: Sequence[str]) -> dict[str, Route]:
    if not 0 <= share <= 1:
        raise InvalidInput("the share of shadowed turns lies between 0 and 1", fix="shadow(..., share=0.1)")
    out = dict(routes)
    for role in roles:
        old = out.get(role, _BASE)
        out[role] = Route(old.stable, old.challengers, digest, share if digest else 0.0)
    return out
