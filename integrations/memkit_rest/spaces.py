"""Spaces over the service: the user of a call is as whom it is made, and each call is checked under its verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from memkit import Memory
from memkit.errors import InvalidInput
from memkit.net.tenants import Tenant
from memkit.principal import Principal, SpaceMemory
from memkit_http import Declined
from memkit_rest import wire
from memkit_rest.wire import Named, Scoped, Wire, without_none

_ACROSS = {"k", "kinds", "filters", "min_score", "max_tokens"}
"""What a read over several banks takes."""
Right = Literal["read", "write", "share", "forget"]


class InSpace:
    """A space with the verbs as the calls make them: with a user, who is the principal."""

    def __init__(self, memory: Memory, asked: Scoped) -> None:
        self._space = _space(memory, asked)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def act(*args: Any, user_id: str, agent_id: str | None = None, **options: Any) -> Any:
            if agent_id is not None:
                raise InvalidInput("a space has no agents", fix="leave agent_id out")
            if name == "erase" and options:
                raise InvalidInput("a part of a space is forgotten, not erased", fix="POST /forget with its id")
            return getattr(self._space, name)(*args, **options)

        return act


def refuse_in_spaces(who: Tenant, asked: Scoped, *, of_spaces: bool) -> None:
    """An app says in which role its user calls; a token of one agent reaches no space."""
    reaches = of_spaces or asked.space is not None or getattr(asked, "spaces", None) is not None
    if reaches and who.agent_id is not None:
        raise Declined(403, "the call reaches beyond the token's agent", fix="use a token of the user")
    if asked.role is not None and not who.is_app:
        raise Declined(403, "a user's token names no role", fix="leave role out, or use an app's token")
    if asked.role is not None and not reaches:
        raise Declined(400, "a role counts in spaces alone", fix="send space, or leave role out")


class Spaces(Wire):
    spaces: list[str]


class RightsRequest(Scoped):
    rights: list[Right] = Field(description="Of a revocation: all where none is named.")
    to: str | None = Field(None, description="A user.")
    to_role: str | None = Field(None, description="Or whoever calls in a role.")


class GrantRequest(RightsRequest):
    until: str | None = None


class PromoteRequest(Scoped):
    id: Named
    from_space: str | None = Field(None, description="Else it is the user's own.")


class ForgetRequest(Scoped):
    id: str | None = None
    words: str | None = Field(None, description="All that say these words.")


class GrantShown(Wire):
    right: Right
    to: str
    is_role: bool
    until: str | None


class Grants(Wire):
    grants: list[GrantShown]


def find(memory: Memory, asked: Scoped) -> Spaces:
    return Spaces(spaces=_principal(memory, asked).spaces())


def create(memory: Memory, asked: Scoped) -> Spaces:
    return Spaces(spaces=[_principal(memory, asked).create_space(_name(asked)).name])


def grants(memory: Memory, asked: Scoped) -> Grants:
    found = [(one, one.until and one.until.isoformat()) for one in _space(memory, asked).grants()]
    return Grants(
        grants=[GrantShown(right=one.right, to=one.to, is_role=one.is_role, until=until) for one, until in found]
    )


def grant(memory: Memory, asked: GrantRequest) -> Grants:
    _space(memory, asked).grant(*asked.rights, to=asked.to, role=asked.to_role, until=asked.until)
    return _left(memory, asked)


def revoke(memory: Memory, asked: RightsRequest) -> Grants:
    _space(memory, asked).revoke(*asked.rights, to=asked.to, role=asked.to_role)
    return _left(memory, asked)


def promote(memory: Memory, asked: PromoteRequest) -> wire.MemoryShown:
    return wire.MemoryShown.of(_space(memory, asked).promote(asked.id, space=asked.from_space))


def forget(memory: Memory, asked: ForgetRequest) -> wire.Erased:
    return wire.Erased.of(_space(memory, asked).forget(asked.id, words=asked.words))


def search(memory: Memory, asked: wire.SearchRequest) -> wire.HitList:
    found = _principal(memory, asked).search(asked.query, spaces=asked.spaces or None, **_across(asked))
    return wire.HitList.of(found)


def context(memory: Memory, asked: wire.ContextRequest) -> wire.ContextShown:
    block = _principal(memory, asked).context(asked.query, spaces=asked.spaces or None, **_across(asked))
    return wire.ContextShown.of(block)


def _across(asked: Scoped) -> dict[str, Any]:
    given = without_none(asked.model_dump(exclude={"query", "user_id", "spaces", "role"}, exclude_unset=True))
    if beyond := sorted(given.keys() - _ACROSS):
        raise InvalidInput(f"a read over several spaces takes no {beyond[0]}", fix="leave it out, or name one space")
    return given


def _principal(memory: Memory, asked: Scoped) -> Principal:
    assert asked.user_id is not None, "the service fills it in"
    return memory.principal(asked.user_id, roles=[] if asked.role is None else [asked.role])


def _space(memory: Memory, asked: Scoped) -> SpaceMemory:
    return _principal(memory, asked).space(_name(asked))


def _name(asked: Scoped) -> str:
    if asked.space is None:
        raise InvalidInput("the call names no space", fix="send space")
    return asked.space


def _left(memory: Memory, asked: Scoped) -> Grants:
    """Who may do what by now: told to those who may read."""
    return grants(memory, asked) if _name(asked) in _principal(memory, asked).spaces() else Grants(grants=[])
