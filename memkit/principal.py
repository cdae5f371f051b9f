"""`memory.principal("ana")`: calls made as somebody, in the spaces where that somebody has grants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from memkit.errors import InvalidInput, InvalidScope
from memkit.inputs import Admitted, Message, aware, scope_id, text_of, whole_number, wrong_verb
from memkit.models import SPACE, Kind, MemoryRecord
from memkit.results import RIGHTS, ContextBlock, EraseReceipt, Grant, Hits, Right
from memkit.runtime import erasure, rights, shared
from memkit.runtime.open_bank import OpenBank, SpaceBank, sign
from memkit.runtime.read_request import ReadRequest
from memkit.runtime.rights import Caller
from memkit.user import UserMemory

if TYPE_CHECKING:
    from memkit.memory import Memory
    from memkit.runtime.runtime import Runtime

_NEEDS: dict[str, Right] = {
    "search": "read",
    "context": "read",
    "answer": "read",
    "get": "read",
    "list": "read",
    "profile": "read",
    "entities": "read",
    "about": "read",
    "history": "read",
    "decisions": "read",
    "observe": "read",
    "add": "write",
    "add_document": "write",
    "learn": "write",
    "pin": "write",
    "delete": "write",
    "delete_all": "write",
    "undo": "write",
    "feedback": "write",
    "parked": "write",
    "retry": "write",
    "tidy": "write",
}
"""The right that each verb of a space asks for."""
_SAYS = ("add", "add_document", "learn")


class Principal:
    """Made by `memory.principal(...)`. Whoever is named there calls, and the app vouches for it."""

    def __init__(self, memory: Memory, alive: Callable[[], Runtime], user_id: str, roles: Iterable[str]) -> None:
        if isinstance(roles, str):
            raise InvalidInput("roles must be a list of names", fix=f"pass roles=[{roles!r}]")
        self._memory, self._alive = memory, alive
        self._who = Caller(scope_id(user_id, "user_id"), frozenset(scope_id(one, "a role") for one in roles))

    @property
    def user_id(self) -> str:
        return self._who.user_id

    @property
    def own(self) -> UserMemory:
        """The verbs on the principal's own memories: `memory.user(...)` of its name."""
        return self._memory.user(self._who.user_id)

    def space(self, name: str) -> SpaceMemory:
        """The verbs in a space, as this principal. Each call is checked when it is made."""
        return SpaceMemory(self._memory, self._alive, self._who, scope_id(name, "the space"))

    def create_space(self, name: str) -> SpaceMemory:
        """A new space, in which this principal has every right and nobody else any."""
        space = self.space(name)
        rights.create_space(self._alive(), self._who, space.name)
        return space

    def spaces(self, right: Right = "read") -> list[str]:
        """Names of the spaces where this principal may do that."""
        (checked,) = rights.checked_rights([right])
        return rights.find_spaces(self._alive(), self._who, checked)

    def search(
        self,
        query: str,
        *,
        spaces: Sequence[str] | None = None,
        k: int = 10,
        kinds: Sequence[Kind] | None = None,
        filters: Mapping[str, Any] | None = None,
        min_score: float | None = None,
    ) -> Hits:
        """The k best of the principal's own memories and of every space that may be read, or of the spaces named. It
        leaves no trace."""
        return self._alive().asking.search(self._ask(query, spaces, k, kinds, filters, min_score))

    def context(
        self,
        query: str,
        *,
        spaces: Sequence[str] | None = None,
        max_tokens: int = 800,
        k: int = 60,
        kinds: Sequence[Kind] | None = None,
        filters: Mapping[str, Any] | None = None,
        min_score: float | None = None,
    ) -> ContextBlock:
        """A block for a prompt, of the same memories."""
        budget = whole_number(max_tokens, "max_tokens", 1, 1_000_000)
        return self._alive().asking.context(self._ask(query, spaces, k, kinds, filters, min_score), budget)

    def _ask(self, query: str, spaces: Sequence[str] | None, k: int, *more: Any) -> ReadRequest:
        runtime, who = self._alive(), self._who
        words = runtime.redact_text(text_of(query, "the query", runtime.config.max_message_bytes))
        kinds, filters, least = more
        ask = ReadRequest.of(
            words, who.user_id, None, whole_number(k, "k", 1, runtime.config.max_k), kinds, None, filters
        )
        if spaces is None:
            owners = [who.user_id, *(SPACE + name for name in rights.find_spaces(runtime, who, "read"))]
        elif isinstance(spaces, str) or not spaces:
            raise InvalidInput("spaces must be a list of names", fix="pass spaces=['team-a'], or leave it out for all")
        else:
            named = dict.fromkeys(scope_id(name, "a space") for name in spaces)
            owners = [str(rights.admit(runtime, who, "read", name)) for name in named]
        return replace(ask, owners=tuple(owners), min_score=least)

    def __repr__(self) -> str:
        return f"Principal({self.user_id!r})"

    def __getattr__(self, name: str) -> Any:
        raise wrong_verb(name, "Principal")


class SpaceMemory:
    """Made by `principal.space(...)`. The verbs of a `Memory` in one space, as one principal: without user_id and
    agent_id, and refused by `NotAllowed` where no grant allows them; and these."""

    def __init__(self, memory: Memory, alive: Callable[[], Runtime], who: Caller, name: str) -> None:
        self._memory, self._alive, self._who, self.name = memory, alive, who, name

    @property
    def user_id(self) -> str:
        """As whom it is called."""
        return self._who.user_id

    def bank(self) -> OpenBank:
        """As `Memory.bank`, of the space. Reading needs "read", a commit "write"."""
        return SpaceBank(self._alive(), self._who, self.name)

    def grant(
        self, *given: Right, to: str | None = None, role: str | None = None, until: datetime | str | None = None
    ) -> None:
        """Allow a user, or whoever calls in a role: "read", "write", "share", "forget". A right that was granted
        before lasts until the new time. Needs "share", and the rights that are given."""
        whom, ends = _whom(to, role), None if until is None else aware(until, "until")
        grants = [
            Grant(self.name, one, whom, to is None, ends, self._who.user_id) for one in rights.checked_rights(given)
        ]
        rights.grant(self._alive(), self._who, self.name, grants)

    def revoke(self, *taken: Right, to: str | None = None, role: str | None = None) -> None:
        """Take rights back, or all of them where none is named. Needs "share"; one's own are given up without."""
        found = rights.checked_rights(taken or RIGHTS)
        rights.revoke(self._alive(), self._who, self.name, found, _whom(to, role), to is None)

    def grants(self) -> list[Grant]:
        """Who may do what here, by now. Needs "read"."""
        runtime = self._alive()
        rights.admit(runtime, self._who, "read", self.name)
        now = runtime.clock.now()
        return [one for one in rights.list_grants(runtime.journal, self.name) if one.holds(now)]

    def promote(self, id: str, *, space: str | None = None) -> MemoryRecord:
        """Take a memory of one's own into this space, or one of another space, where one may share. The copy lives by
        itself; whoever erases or forgets the memory ends the copy. Needs "write"."""
        into, runtime = self._admit("write"), self._alive()
        source = self._who.user_id
        if space is not None:
            source = str(rights.admit(runtime, self._who, "share", scope_id(space, "space")))
        return shared.promote(runtime, self._who, into, source, scope_id(id, "id"))

    def forget(self, id: str | None = None, *, words: str | None = None) -> EraseReceipt:
        """Destroy a memory, or all that say these words, with the turns that they were drawn from: here, in every copy,
        and in what was drawn from them. Needs "forget", but for what one said or promoted oneself."""
        if (id is None) == (words is None):
            raise InvalidInput("it is not said what is to be forgotten", fix="pass the id of a memory, or words='…'")
        runtime = self._alive()
        runtime.traces.flush()
        memory = None if id is None else scope_id(id, "id")
        said = None if words is None else text_of(words, "words", runtime.config.max_message_bytes)
        part = shared.choose_forgotten(runtime, self._who, self.name, memory, said)
        return erasure.erase_part(runtime, SPACE + self.name, part)

    def erase(self) -> EraseReceipt:
        """Destroy the space: its memories, every copy of them, its grants. Needs "forget" and "share"."""
        self._admit("share")
        return erasure.erase_user(self._alive(), str(self._admit("forget")))

    def update(
        self,
        id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        expected_revision: int | None = None,
    ) -> MemoryRecord:
        """As `Memory.update`; by whom it was said stays."""
        owner = self._admit("write")
        if metadata is not None:
            metadata = _said_by(self._memory.get(id, user_id=owner).metadata.get("by", ""), metadata)
        return self._memory.update(id, text, user_id=owner, metadata=metadata, expected_revision=expected_revision)

    def _admit(self, right: Right) -> Admitted:
        return rights.admit(self._alive(), self._who, right, self.name)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _NEEDS:
            raise wrong_verb(name, "SpaceMemory")
        verb = getattr(self._memory, name)

        @functools.wraps(verb)
        def bound(*args: Any, **kwargs: Any) -> Any:
            if {"user_id", "agent_id"} & kwargs.keys():
                raise InvalidScope(f"{name}() is bound to its space already", fix="leave user_id and agent_id out")
            owner = self._admit(_NEEDS[name])
            if name in _SAYS:
                kwargs["metadata"] = _said_by(self._who.user_id, kwargs.get("metadata"))
            if name == "add" and args:
                args = (_named(self._who.user_id, args[0]), *args[1:])
            elif name == "add" and "messages" in kwargs:
                kwargs["messages"] = _named(self._who.user_id, kwargs["messages"])
            return verb(*args, **kwargs, user_id=owner)

        return bound

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *sorted(_NEEDS)]

    def __repr__(self) -> str:
        return f"SpaceMemory({self.name!r}, as {self._who.user_id!r})"


class InThreads:
    """The awaitable twin of a `Principal` or a `SpaceMemory`."""

    def __init__(self, run: Callable[..., Any], calls: Principal | SpaceMemory | UserMemory) -> None:
        self._run, self._calls = run, calls

    @property
    def sync(self) -> Any:
        """The same with blocking verbs, for code that runs in threads of its own."""
        return self._calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._calls, name)
        if name == "space":
            return lambda space: InThreads(self._run, found(space))
        if isinstance(found, UserMemory):
            return InThreads(self._run, found)
        if not callable(found):
            return found

        @functools.wraps(found)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            result = await self._run(found, *args, **kwargs)
            return InThreads(self._run, result) if isinstance(result, SpaceMemory) else result

        return awaited

    def __repr__(self) -> str:
        return repr(self._calls)


def _whom(to: str | None, role: str | None) -> str:
    if (to is None) == (role is None):
        raise InvalidInput("it is not said whom it is for", fix="pass to='ben' for a user, or role='legal'")
    return scope_id(role, "role") if to is None else scope_id(to, "to")


def _named(user_id: str, said: Any) -> Any:
    """Where several speak, "my dog" is somebody's: what a user says without a name is said by the caller."""
    if isinstance(said, str):
        return Message("user", said, user_id)
    if isinstance(said, Message) and said.role.lower() == "user" and not said.name:
        return replace(said, name=user_id)
    if isinstance(said, Mapping):
        told = cast("Mapping[str, Any]", said)
        return {**told, "name": user_id} if told.get("role") == "user" and not told.get("name") else told
    if isinstance(said, Sequence) and not isinstance(said, bytes):
        return [_named(user_id, one) for one in cast("Sequence[Any]", said)]
    return said


def _said_by(user_id: str, metadata: Any) -> Any:
    if metadata is None or isinstance(metadata, Mapping):
        return sign(cast("Mapping[str, Any] | None", metadata), user_id)
    return metadata  # which the verb refuses
