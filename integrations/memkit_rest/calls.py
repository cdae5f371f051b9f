"""Every call of the service, once: address, request, answer, and the verb behind it. Routing, checking and the OpenAPI
description are made from this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memkit import Memory, __version__
from memkit.errors import InvalidInput
from memkit_rest import spaces, wire
from memkit_rest.wire import Wire, without_none

BASE = "/memkit/v1"


@dataclass(frozen=True, slots=True)
class Offer:
    method: str
    path: str
    name: str
    """Of the operation, in OpenAPI and in clients made from it."""
    does: str
    asked: type[Wire]
    """Fields of the path come from there; of the rest, GET and DELETE take the query, others a JSON body."""
    told: type[Wire]
    act: Callable[[Memory, Any], Wire]
    writes: bool = False
    for_apps: bool = False
    """Not about one user: tokens of users are refused."""
    is_open: bool = False
    """Needs no token."""
    keyed: bool = False
    """Takes an Idempotency-Key."""
    streams: bool = False
    of_spaces: bool = False
    """About a space itself, and who may do what there."""

    @property
    def in_body(self) -> bool:
        return self.method in ("POST", "PATCH")


def _add(memory: Memory, asked: wire.AddRequest, key: str | None = None) -> wire.Added:
    if isinstance(asked.messages, str):
        messages: Any = asked.messages
    else:
        messages = [said.model_dump(exclude_unset=True) for said in asked.messages]
    options = _options(asked, "messages")
    return wire.Added.of(memory.add(messages, idempotency_key=key, **options))


def _add_document(memory: Memory, asked: wire.DocumentRequest) -> wire.Added:
    return wire.Added.of(memory.add_document(asked.text, **_options(asked, "text")))


def _learn(memory: Memory, asked: wire.LearnRequest, key: str | None = None) -> wire.Added:
    return wire.Added.of(memory.learn(asked.steps, idempotency_key=key, **_options(asked, "steps")))


def _search(memory: Memory, asked: wire.SearchRequest) -> wire.HitList:
    if asked.spaces is not None:
        return spaces.search(memory, asked)
    options = _options(asked, "query", "sources")
    return wire.HitList.of(memory.search(asked.query, expand="sources" if asked.sources else None, **options))


def _context(memory: Memory, asked: wire.ContextRequest) -> wire.ContextShown:
    if asked.spaces is not None:
        return spaces.context(memory, asked)
    return wire.ContextShown.of(memory.context(asked.query, **_options(asked, "query")))


def _answer(memory: Memory, asked: wire.AnswerRequest) -> wire.AnswerShown:
    options = _options(asked, "question", "stream")
    return wire.AnswerShown.of(memory.answer(asked.question, **options))


def _list(memory: Memory, asked: wire.ListRequest) -> wire.MemoryPage:
    kinds = None if asked.kind is None else (asked.kind,)
    return wire.MemoryPage.of(memory.list(kinds=kinds, **_options(asked, "kind")))


def _get(memory: Memory, asked: wire.OneRequest) -> wire.MemoryShown:
    return wire.MemoryShown.of(memory.get(asked.id, user_id=_user(asked)))


def _change(memory: Memory, asked: wire.ChangeRequest) -> wire.MemoryShown:
    user = _user(asked)
    if asked.text is None and asked.metadata is None and asked.pinned is None:
        raise InvalidInput("nothing is to be changed", fix="send text, metadata or pinned")
    record = None
    if asked.text is not None or asked.metadata is not None:
        record = memory.update(
            asked.id, asked.text, user_id=user, metadata=asked.metadata, expected_revision=asked.expected_revision
        )
    if asked.pinned is not None:
        record = memory.pin(asked.id, user_id=user, pinned=asked.pinned)
    return wire.MemoryShown.of(record or memory.get(asked.id, user_id=user))


def _delete(memory: Memory, asked: wire.OneRequest) -> wire.OpShown:
    return wire.OpShown.of(memory.delete(asked.id, user_id=_user(asked)))


def _delete_all(memory: Memory, asked: wire.Scoped) -> wire.Count:
    return wire.Count(count=memory.delete_all(user_id=_user(asked), agent_id=asked.agent_id))


def _profile(memory: Memory, asked: wire.Scoped) -> wire.Memories:
    always = memory.profile(user_id=_user(asked), agent_id=asked.agent_id)
    return wire.Memories(memories=[wire.MemoryShown.of(record) for record in always])


def _entities(memory: Memory, asked: wire.Several) -> wire.Entities:
    found = memory.entities(**_options(asked))
    return wire.Entities(entities=[wire.EntityShown.of(one) for one in found])


def _about(memory: Memory, asked: wire.AboutRequest) -> wire.Memories:
    found = memory.about(asked.name, **_options(asked, "name"))
    return wire.Memories(memories=[wire.MemoryShown.of(record) for record in found])


def _history(memory: Memory, asked: wire.HistoryRequest) -> wire.OpList:
    ops = memory.history(user_id=_user(asked), memory_id=asked.memory_id, limit=asked.limit)
    return wire.OpList(ops=[wire.OpShown.of(op) for op in ops])


def _undo(memory: Memory, asked: wire.UndoRequest) -> wire.OpList:
    since: Any = asked.since
    ops = memory.undo(user_id=_user(asked), op_id=asked.op_id, turn_id=asked.trace_id, since=since)
    return wire.OpList(ops=[wire.OpShown.of(op) for op in ops])


def _observe(memory: Memory, asked: wire.ObserveRequest) -> wire.Observed:
    return wire.Observed(memory_ids=list(memory.observe(asked.trace_id, asked.answer, user_id=_user(asked))))


def _feedback(memory: Memory, asked: wire.FeedbackRequest) -> wire.Noted:
    options = _options(asked, "trace_id", "user_id", "agent_id")
    return wire.Noted(feedback_id=memory.feedback(asked.trace_id, user_id=_user(asked), **options))


def _parked(memory: Memory, asked: wire.Scoped) -> wire.ParkedList:
    return wire.ParkedList(parked=[wire.ParkedShown.of(parked) for parked in memory.parked(user_id=_user(asked))])


def _retry(memory: Memory, asked: wire.RetryRequest) -> wire.Count:
    return wire.Count(count=memory.retry(asked.trace_ids, user_id=_user(asked), wait=False))


def _tidy(memory: Memory, asked: wire.TidyRequest) -> wire.TidyShown:
    return wire.TidyShown.of(memory.tidy(user_id=_user(asked), agent_id=asked.agent_id, budget=asked.budget))


def _decisions(memory: Memory, asked: wire.DecisionsRequest) -> wire.DecisionList:
    found = memory.decisions(user_id=_user(asked), trace_id=asked.trace_id, last=asked.last)
    return wire.DecisionList(decisions=[dict(record) for record in found])


def _erase(memory: Memory, asked: wire.EraseRequest) -> wire.Erased:
    parts = without_none(asked.model_dump(include={"turn_id", "memory_id", "session_id"}))
    if bool(parts) == asked.everything:
        raise InvalidInput(
            "it is not said what is to be destroyed",
            fix="name one of turn_id, memory_id and session_id, or say everything: true for all of the user",
        )
    return wire.Erased.of(memory.erase(user_id=_user(asked), **parts))


def _users(memory: Memory, asked: wire.UsersRequest) -> wire.Users:
    names = sorted(memory.users())
    page = [name for name in names if asked.cursor is None or name > asked.cursor][: asked.limit]
    return wire.Users(users=page, cursor=page[-1] if page and page[-1] != names[-1] else None)


def _health(_: Memory, __: wire.Nothing) -> wire.ServiceHealth:
    return wire.ServiceHealth(status="ok", version=__version__)


def _options(asked: wire.Scoped, *beside: str) -> dict[str, Any]:
    """What is passed on by its name; where it is done is settled already."""
    return without_none(asked.model_dump(exclude={"space", "role", "spaces", *beside}))


def _user(asked: wire.Scoped) -> str:
    assert asked.user_id is not None, "the service fills it in"
    return asked.user_id


CALLS = (
    Offer("POST", "/add", "add", "Remember what was said.", wire.AddRequest, wire.Added, _add, writes=True, keyed=True),
    Offer(
        "POST",
        "/documents",
        "addDocument",
        "Make a document findable, or replace the one of its name.",
        wire.DocumentRequest,
        wire.Added,
        _add_document,
        writes=True,
    ),
    Offer(
        "POST",
        "/learn",
        "learn",
        "Learn from an agent's run.",
        wire.LearnRequest,
        wire.Added,
        _learn,
        writes=True,
        keyed=True,
    ),
    Offer("POST", "/search", "search", "The best memories for a query.", wire.SearchRequest, wire.HitList, _search),
    Offer(
        "POST", "/context", "context", "A block to put into a prompt.", wire.ContextRequest, wire.ContextShown, _context
    ),
    Offer(
        "POST",
        "/answer",
        "answer",
        "Answer from memory with the configured model.",
        wire.AnswerRequest,
        wire.AnswerShown,
        _answer,
        streams=True,
    ),
    Offer(
        "POST", "/observe", "observe", "Tell what the app answered.", wire.ObserveRequest, wire.Observed, _observe, True
    ),
    Offer(
        "POST", "/feedback", "feedback", "Rate what a trace led to.", wire.FeedbackRequest, wire.Noted, _feedback, True
    ),
    Offer("GET", "/memories", "list", "Live memories, page by page.", wire.ListRequest, wire.MemoryPage, _list),
    Offer(
        "DELETE", "/memories", "deleteAll", "End every memory of a user.", wire.Scoped, wire.Count, _delete_all, True
    ),
    Offer("GET", "/memories/{id}", "get", "One memory.", wire.OneRequest, wire.MemoryShown, _get),
    Offer(
        "PATCH", "/memories/{id}", "update", "Change or pin it.", wire.ChangeRequest, wire.MemoryShown, _change, True
    ),
    Offer("DELETE", "/memories/{id}", "delete", "End one memory.", wire.OneRequest, wire.OpShown, _delete, True),
    Offer("GET", "/profile", "profile", "What every context carries.", wire.Scoped, wire.Memories, _profile),
    Offer("GET", "/entities", "entities", "Whom and what memories name.", wire.Several, wire.Entities, _entities),
    Offer("GET", "/about", "about", "The memories about one of them.", wire.AboutRequest, wire.Memories, _about),
    Offer("GET", "/history", "history", "Every operation, oldest first.", wire.HistoryRequest, wire.OpList, _history),
    Offer("POST", "/undo", "undo", "Take operations back.", wire.UndoRequest, wire.OpList, _undo, writes=True),
    Offer("GET", "/parked", "parked", "Turns that could not be decided.", wire.Scoped, wire.ParkedList, _parked),
    Offer("POST", "/retry", "retry", "Decide parked turns again.", wire.RetryRequest, wire.Count, _retry, writes=True),
    Offer("POST", "/tidy", "tidy", "Merge, settle, let go.", wire.TidyRequest, wire.TidyShown, _tidy, writes=True),
    Offer(
        "GET", "/decisions", "decisions", "How it was decided.", wire.DecisionsRequest, wire.DecisionList, _decisions
    ),
    Offer("POST", "/erase", "erase", "Destroy. Cannot be undone.", wire.EraseRequest, wire.Erased, _erase, writes=True),
    Offer(
        "GET", "/spaces", "spaces", "Spaces that may be read.", wire.Scoped, spaces.Spaces, spaces.find, of_spaces=True
    ),
    Offer(
        "POST",
        "/spaces",
        "createSpace",
        "A new space.",
        wire.Scoped,
        spaces.Spaces,
        spaces.create,
        True,
        of_spaces=True,
    ),
    Offer("GET", "/grants", "grants", "Who may do what.", wire.Scoped, spaces.Grants, spaces.grants, of_spaces=True),
    Offer(
        "POST", "/grants", "grant", "Allow it.", spaces.GrantRequest, spaces.Grants, spaces.grant, True, of_spaces=True
    ),
    Offer(
        "POST",
        "/revoke",
        "revoke",
        "Take rights back.",
        spaces.RightsRequest,
        spaces.Grants,
        spaces.revoke,
        True,
        of_spaces=True,
    ),
    Offer(
        "POST",
        "/promote",
        "promote",
        "Take a memory into a space.",
        spaces.PromoteRequest,
        wire.MemoryShown,
        spaces.promote,
        True,
        of_spaces=True,
    ),
    Offer(
        "POST",
        "/forget",
        "forget",
        "Destroy it with its copies.",
        spaces.ForgetRequest,
        wire.Erased,
        spaces.forget,
        True,
        of_spaces=True,
    ),
    Offer("GET", "/users", "users", "Who has memories.", wire.UsersRequest, wire.Users, _users, for_apps=True),
    Offer("GET", "/health", "health", "Whether it serves.", wire.Nothing, wire.ServiceHealth, _health, is_open=True),
)
