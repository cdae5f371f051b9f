"""The addresses that clients of mem0 call, so that an app moves by changing its base URL.

What differs: `add` answers once it is decided; ids name their user, so they are longer; `search` finds what was said,
too, not only what was drawn from it; deleting a user destroys (`erase`); graph, categories, webhooks, projects,
exports and ratings of single memories are not here, and say so. Options without effect are named in the header
`x-memkit-ignored`."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memkit import Memory
from memkit.errors import NotFound
from memkit.models import MemoryRecord, Op
from memkit.net.tenants import Tenant
from memkit_http import Declined, read_json
from memkit_plug.bound import refuse_others
from memkit_rest.callers import settle_scope

if TYPE_CHECKING:
    from memkit_rest.service import Service

JSON = dict[str, Any]
PREFIXES = ("/v1/", "/v2/", "/v3/", "/api/v1/")
PAGE = 1_000
_SILENT = {"output_format", "version", "async_mode", "api_version", "org_id", "project_id"}
"""Sent by clients of some versions, without meaning here."""
_SCOPE = ("user_id", "agent_id", "run_id", "filters", "page", "page_size")
_WRITTEN = ("messages", "metadata", "infer", "timestamp", "expiration_date", "text", "data", "memories")
_KNOWN = {*_SCOPE, *_WRITTEN, "query", "top_k", "limit", "threshold"}
_ORDERED = {"gt", "gte", "lt", "lte", "ne", "in"}


def routes(service: Service) -> list[Route]:
    def at(path: str, act: Callable[[Memory, Asked], Any], method: str, *, writes: bool = False) -> Route:
        return Route(path, _endpoint(service, act, writes=writes), methods=[method])

    one, everything = "/v1/memories/{id}/", "/v1/memories/"
    return [
        at("/v1/ping/", _ping, "GET"),
        *(at(path, _add, "POST", writes=True) for path in ("/v3/memories/add/", everything)),
        at("/v3/memories/search/", _search, "POST"),
        *(at(f"/v{version}/memories/search/", _search_list, "POST") for version in (1, 2)),
        *(at(path, _list, "POST") for path in ("/v3/memories/", "/v2/memories/")),
        at(everything, _list, "GET"),
        at(everything, _delete_all, "DELETE", writes=True),
        at(one, _get, "GET"),
        at(one, _update, "PUT", writes=True),
        at(one, _delete, "DELETE", writes=True),
        at(one + "history/", _history, "GET"),
        at("/v1/batch/", _update_batch, "PUT", writes=True),
        at("/v1/batch/", _delete_batch, "DELETE", writes=True),
        at("/v1/entities/", _entities, "GET"),
        *(at(f"/v{n}/entities/{{kind}}/{{name:path}}/", _delete_entity, "DELETE", writes=True) for n in (1, 2)),
        *(
            Route(
                f"/v{n}/{{rest:path}}", _endpoint(service, _missing), methods=["GET", "POST", "PUT", "PATCH", "DELETE"]
            )
            for n in (1, 2, 3)
        ),
    ]


class Asked:
    """One call: its caller, and its values from query, body and path, wherever the client put them."""

    def __init__(self, who: Tenant, values: JSON, path: JSON) -> None:
        self.who, self.values, self.path = who, values, path
        self.ignored: set[str] = set()
        self._terms = dict(_terms(values.get("filters")))

    def scope(self) -> JSON:
        """For the verbs: user, agent and, where one is named, session."""
        names = {name: self._named(name) for name in ("user_id", "agent_id", "run_id")}
        if self.who.is_app and names["user_id"] is None:
            raise Declined(400, "the call names no user_id", why="memories are kept for each user", fix="send user_id")
        user, agent = settle_scope(self.who, names["user_id"], names["agent_id"])
        self.ignored |= {name for name in self.values if name not in _KNOWN and name not in _SILENT}
        return {"user_id": user, "agent_id": agent} | ({"session_id": names["run_id"]} if names["run_id"] else {})

    def conditions(self) -> JSON | None:
        """`filters` beside those of the scope, in our words."""
        found: JSON = {}
        for name, value in self._terms.items():
            if name in ("user_id", "agent_id", "run_id"):
                continue
            if name == "metadata" and isinstance(value, dict):
                found |= {f"metadata.{key}": _condition(wanted) for key, wanted in cast(JSON, value).items()}
            elif name in ("created_at", "updated_at"):
                found[name] = {operator: _time(wanted) for operator, wanted in _condition(value).items()}
            else:
                raise Declined(
                    400, f"filters cannot ask for {name[:80]}", fix="created_at, updated_at and metadata can be"
                )
        return found or None

    def whole(self, name: str, usual: int) -> int:
        value = self.values.get(name, usual)
        try:
            found = int(value)
        except (TypeError, ValueError):
            found = 0
        if not 1 <= found <= PAGE:
            raise Declined(400, f"{name} is no whole number from 1 to {PAGE}", fix=f"send {name}={usual}")
        return found

    def _named(self, name: str) -> str | None:
        value = self.values.get(name, self._terms.get(name))
        if value is None or isinstance(value, str):
            if value == "*":
                raise Declined(400, f"{name} cannot be a wildcard", fix="name one")
            return value
        raise Declined(400, f"{name} is no text", fix=f"send {name} as a string")


def _endpoint(service: Service, act: Callable[[Memory, Asked], Any], *, writes: bool = False) -> Any:
    async def answer(request: Request) -> Response:
        who = service.enter(request, writes=writes)
        values: JSON = dict(request.query_params)
        if isinstance(values.get("filters"), str):
            values["filters"] = _parsed(values["filters"])
        asked = Asked(who, values | await read_json(request), dict(request.path_params))
        told = await service.run(lambda: act(service.memory, asked))
        headers = {"x-memkit-ignored": ", ".join(sorted(asked.ignored))[:500]} if asked.ignored else {}
        return JSONResponse(
            told, headers={name: value.encode("ascii", "replace").decode() for name, value in headers.items()}
        )

    return answer


# ---- calls ---------------------------------------------------------------------------------------------------------


def _ping(_: Memory, __: Asked) -> JSON:
    return {"status": "ok", "org_id": "memkit", "project_id": "memkit", "user_email": None}


def _add(memory: Memory, asked: Asked) -> JSON:
    values, scope = asked.values, asked.scope()
    if (said := values.get("messages")) is None:
        raise Declined(400, "messages are missing", fix="send messages")
    added = memory.add(
        said,
        **scope,
        metadata=values.get("metadata"),
        infer=values.get("infer") is not False,
        at=None if values.get("timestamp") is None else _time(values["timestamp"]),
        expires_at=None if values.get("expiration_date") is None else _time(values["expiration_date"]),
    )
    written = [op for op in added.ops if op.action != "noop" and op.memory_id]
    return {
        "results": [
            {"id": id_of(op.bank.user_id, op.memory_id or ""), "memory": op.text, "event": op.action.upper()}
            for op in written
        ],
        "message": added.reason or "",
        "status": {"applied": "SUCCEEDED", "pending": "PENDING", "parked": "FAILED"}[added.status],
        "event_id": added.trace_id,
    }


def _search(memory: Memory, asked: Asked) -> JSON:
    values, scope = asked.values, asked.scope()
    k = asked.whole("top_k", asked.whole("limit", 10))
    least = values.get("threshold")
    hits = memory.search(values.get("query"), **scope, k=k, filters=asked.conditions(), min_score=least)  # type: ignore[arg-type]
    return {"results": [_shown(scope["user_id"], hit.memory) | {"score": hit.score} for hit in hits]}


def _search_list(memory: Memory, asked: Asked) -> Any:
    found = _search(memory, asked)
    return found if asked.values.get("output_format") == "v1.1" else found["results"]


def _list(memory: Memory, asked: Asked) -> JSON:
    scope, page, size = asked.scope(), asked.whole("page", 1), asked.whole("page_size", 100)
    records = _records(memory, scope, asked.conditions())
    shown = records[::-1][(page - 1) * size : page * size]
    return {
        "count": len(records),
        "next": f"?page={page + 1}&page_size={size}" if page * size < len(records) else None,
        "previous": f"?page={page - 1}&page_size={size}" if page > 1 else None,
        "results": [_shown(scope["user_id"], record) for record in shown],
    }


def _get(memory: Memory, asked: Asked) -> JSON:
    user, memory_id = _owned(memory, asked)
    return _shown(user, memory.get(memory_id, user_id=user))


def _update(memory: Memory, asked: Asked) -> JSON:
    user, memory_id = _owned(memory, asked)
    return _changed(memory, user, memory_id, asked.values)


def _delete(memory: Memory, asked: Asked) -> JSON:
    user, memory_id = _owned(memory, asked)
    memory.delete(memory_id, user_id=user)
    return {"message": "Memory deleted successfully!"}


def _history(memory: Memory, asked: Asked) -> list[JSON]:
    user, memory_id = _owned(memory, asked)
    return [_event(op) for op in memory.history(user_id=user, memory_id=memory_id) if op.action != "noop"]


def _delete_all(memory: Memory, asked: Asked) -> JSON:
    scope = asked.scope()
    if "session_id" not in scope and asked.conditions() is None:
        memory.delete_all(**scope)
        return {"message": "Memories deleted successfully!"}
    for record in _records(memory, scope, asked.conditions()):
        memory.delete(record.id, user_id=scope["user_id"])
    return {"message": "Memories deleted successfully!"}


def _update_batch(memory: Memory, asked: Asked) -> JSON:
    each = _batch(memory, asked)
    for user, memory_id, values in each:
        _changed(memory, user, memory_id, values)
    return {"message": f"Successfully updated {len(each)} memories"}


def _delete_batch(memory: Memory, asked: Asked) -> JSON:
    each = _batch(memory, asked)
    for user, memory_id, _ in each:
        memory.delete(memory_id, user_id=user)
    return {"message": f"Successfully deleted {len(each)} memories"}


def _entities(memory: Memory, asked: Asked) -> JSON:
    who = asked.who
    names = [name for name in sorted(memory.users()) if who.is_app or name == who.user_id]
    page, size = asked.whole("page", 1), asked.whole("page_size", 100)
    shown = names[(page - 1) * size : page * size]
    results = [{"id": name, "name": name, "type": "user"} for name in shown]
    return {"count": len(names), "next": None, "previous": None, "results": results}


def _delete_entity(memory: Memory, asked: Asked) -> JSON:
    kind, name = asked.path["kind"], asked.path["name"]
    if kind != "user":
        raise Declined(
            501, f"only users are entities here, not {kind[:20]}s", fix="delete the memories of user and agent"
        )
    user, agent = settle_scope(asked.who, name, None)
    if agent is not None:
        raise Declined(403, "the call reaches beyond the token's agent", fix="use a token of the user")
    if user not in memory.users():
        raise NotFound("no such user", fix="users() names those who have memories")
    memory.erase(user_id=user)
    return {"message": "Entity deleted successfully!"}


def _missing(_: Memory, asked: Asked) -> JSON:
    raise Declined(501, f"{asked.path['rest'][:80]} of mem0 is not here", fix="/openapi.json describes what is")


# ---- shapes --------------------------------------------------------------------------------------------------------


def id_of(user_id: str, memory_id: str) -> str:
    """mem0 asks for a memory by its id alone; ours are looked up in their user's bank, so the id names both."""
    packed = json.dumps([user_id, memory_id], ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def owner_of(given: str) -> tuple[str, str]:
    try:
        found = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) and len(cast("list[Any]", found)) == 2 and all(isinstance(part, str) for part in found):
        return found[0], found[1]
    raise NotFound("no memory has this id", fix="take ids from add, search and get_all")


def _owned(memory: Memory, asked: Asked, given: str | None = None) -> tuple[str, str]:
    user, memory_id = owner_of(asked.path["id"] if given is None else given)
    if not asked.who.is_app and user != asked.who.user_id:
        raise NotFound("no memory has this id", fix="take ids from add, search and get_all")
    refuse_others(memory, asked.who, memory_id=memory_id)
    return user, memory_id


def _shown(user_id: str, record: MemoryRecord) -> JSON:
    return {
        "id": id_of(user_id, record.id),
        "memory": record.text,
        "user_id": user_id,
        "agent_id": None,
        "app_id": None,
        "run_id": record.session_id or None,
        "hash": record.content_hash,
        "metadata": dict(record.metadata) or None,
        "categories": [],
        "created_at": record.created_at and record.created_at.isoformat(),
        "updated_at": record.updated_at and record.updated_at.isoformat(),
        "expiration_date": record.expires_at and record.expires_at.date().isoformat(),
    }


def _event(op: Op) -> JSON:
    after = op.after or op.before
    return {
        "id": op.op_id,
        "memory_id": id_of(op.bank.user_id, op.memory_id or ""),
        "old_memory": op.before.text if op.before else None,
        "new_memory": op.after.text if op.after else None,
        "user_id": op.bank.user_id,
        "event": op.action.upper(),
        "metadata": dict(after.metadata) if after else None,
        "input": None,
        "created_at": op.recorded_at.isoformat(),
        "updated_at": op.recorded_at.isoformat(),
    }


def _changed(memory: Memory, user: str, memory_id: str, values: JSON) -> JSON:
    text = values.get("text", values.get("data"))
    if "expiration_date" in values or "timestamp" in values:
        raise Declined(501, "times of a memory cannot be changed here", fix="add it anew with expiration_date")
    record = memory.update(memory_id, text, user_id=user, metadata=values.get("metadata"))
    return _shown(user, record)


def _batch(memory: Memory, asked: Asked) -> list[tuple[str, str, JSON]]:
    given = asked.values.get("memories")
    if not isinstance(given, list) or len(cast("list[Any]", given)) > PAGE:
        raise Declined(400, f"memories are no list of at most {PAGE}", fix="send memories=[{memory_id, text}]")
    found: list[tuple[str, str, JSON]] = []
    for each in cast("list[Any]", given):
        if not isinstance(each, dict) or not isinstance(cast(JSON, each).get("memory_id"), str):
            raise Declined(400, "one of the memories names no memory_id", fix="send memory_id with each")
        found.append((*_owned(memory, asked, cast(JSON, each)["memory_id"]), cast(JSON, each)))
    for user, memory_id, _ in found:  # all are there, or nothing is changed
        memory.get(memory_id, user_id=user)
    return found


def _records(memory: Memory, scope: JSON, conditions: JSON | None) -> list[MemoryRecord]:
    found: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = memory.list(**scope, limit=PAGE, cursor=cursor, filters=conditions)
        found += page
        if (cursor := page.cursor) is None:
            return found


def _terms(filters: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """What all must hold: `{"user_id": …}`, or `{"AND": [{"user_id": …}, …]}`."""
    if filters is None:
        return
    if not isinstance(filters, dict) or depth > 4:
        raise Declined(400, "filters are no object of conditions", fix='send {"user_id": "…"} or {"AND": […]}')
    for name, value in cast(JSON, filters).items():
        if name == "AND" and isinstance(value, list):
            for each in cast("list[Any]", value):
                yield from _terms(each, depth + 1)
        elif name in ("OR", "NOT", "AND"):
            raise Declined(400, f"filters with {name} are not here", fix="ask once for each, or use AND with a list")
        else:
            yield name, value


def _condition(value: Any) -> JSON:
    if not isinstance(value, Mapping):
        return {"$eq": value}
    operators = cast("Mapping[str, Any]", value)
    if not operators or set(operators) - _ORDERED:
        raise Declined(400, "a filter has an operator that is not here", fix="gt, gte, lt, lte, ne and in are")
    return {f"${name}": wanted for name, wanted in operators.items()}


def _time(value: Any) -> datetime | str:
    """A Unix time, a date (its beginning in UTC), or a time with an offset."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError, ValueError):
            raise Declined(400, "a time lies out of range", fix="send seconds since 1970") from None
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            raise Declined(400, "a time cannot be read", fix="send 2026-01-31 or 2026-01-31T12:00:00Z") from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    raise Declined(400, "a time cannot be read", fix="send 2026-01-31 or 2026-01-31T12:00:00Z")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Declined(400, "filters in the query are not JSON", fix="send them as JSON") from None
