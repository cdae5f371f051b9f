"""`memory.user("ana")`: the same verbs, bound to a scope."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from memkit.errors import InvalidScope
from memkit.inputs import wrong_verb

_WITH_AGENT = frozenset(
    {"add", "add_document", "learn", "search", "context", "answer", "list", "delete_all", "profile", "trainable"}
    | {"entities", "about", "tidy", "bank"}
)
_SCOPED = _WITH_AGENT | {
    "get",
    "update",
    "pin",
    "delete",
    "undo",
    "history",
    "decisions",
    "observe",
    "feedback",
    "parked",
    "retry",
    "erase",
    "export",
}


class UserMemory:
    """Every verb of a `Memory` (or `AsyncMemory`) that takes a user_id, without it."""

    def __init__(self, memory: object, user_id: str, agent_id: str | None = None) -> None:
        self._memory, self.user_id, self.agent_id = memory, user_id, agent_id

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _SCOPED:
            raise wrong_verb(name, "UserMemory")
        scope: dict[str, Any] = {"user_id": self.user_id}
        if self.agent_id is not None and name in _WITH_AGENT:
            scope["agent_id"] = self.agent_id
        verb = getattr(self._memory, name)

        @functools.wraps(verb)
        def bound(*args: Any, **kwargs: Any) -> Any:
            if scope.keys() & kwargs.keys():  # arguments may come from a model's tool call
                raise InvalidScope(
                    f"{name}() is bound to its scope already",
                    why="this view is of one user",
                    fix="leave user_id and agent_id out, or use memory.user(...) of the other scope",
                )
            return verb(*args, **kwargs, **scope)

        return bound

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *sorted(_SCOPED)]

    def __repr__(self) -> str:
        return f"UserMemory({self.user_id!r})"
