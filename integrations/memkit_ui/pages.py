"""The pages: for each its address, its template, and the question that it answers as one call of `memory.views`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memkit import Memory
from memkit.errors import InvalidInput, MemkitError, NotFound
from memkit.models import JSON
from memkit_http import Declined
from memkit_ui import trainer

PEOPLE = 100
PAGE = 25


@dataclass(frozen=True, slots=True)
class ShownStore:
    """What the pages are made from."""

    memory: Memory
    store: str | Path
    runs: Path | None = None
    """Where `memkit-train` writes its runs."""
    model: str | None = None
    """With which adapters are asked what they would have decided."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The query of an address."""

    query: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.query.get(name, "")

    def need(self, name: str) -> str:
        value = self.query.get(name, "")
        if not value:
            raise Declined(400, f"the address names no {name!r}", fix="go on from the list of users")
        return value

    def number(self, name: str) -> int | None:
        value = self.query.get(name, "")
        if value == "":
            return None
        if not (value.isascii() and value.isdecimal() and len(value) < 19):
            raise Declined(400, f"{name!r} is no number here", fix="go on from the list of users")
        return int(value)


Build = Callable[[ShownStore, PageQuery], JSON]


@dataclass(frozen=True, slots=True)
class UiPage:
    template: str
    title: str
    build: Build


def _users(place: ShownStore, asked: PageQuery) -> JSON:
    found = place.memory.views.people()
    needle, page = asked.text("q").casefold(), asked.number("page") or 0
    shown = [one for one in found if needle in one.user_id.casefold()]
    totals = {
        "users": len(found),
        "memories": sum(one.memories for one in found),
        "turns": sum(one.turns for one in found),
        "parked": sum(one.parked for one in found),
    }
    part = shown[page * PEOPLE : (page + 1) * PEOPLE]
    more = page + 1 if len(shown) > (page + 1) * PEOPLE else None
    return {"people": part, "matching": len(shown), "totals": totals, "q": asked.text("q"), "page": page, "more": more}


def _of_user(place: ShownStore, asked: PageQuery) -> JSON:
    return {"person": place.memory.views.person(asked.need("u"))}


def _memories(place: ShownStore, asked: PageQuery) -> JSON:
    views, user = place.memory.views, asked.need("u")
    step, q = asked.number("step"), asked.text("q")
    seen = views.memories(user, step=step, page=asked.number("page") or 0)
    data = {"seen": seen, "q": q, "hits": None, "problem": "", "page": asked.number("page") or 0}
    if q:
        try:
            as_of = seen.seq if step is not None and step < seen.steps else None
            data["hits"] = list(views.search(user, q, as_of=as_of))
        except MemkitError as error:
            data["problem"] = str(error)
    return _of_user(place, asked) | data


def _memory(place: ShownStore, asked: PageQuery) -> JSON:
    user, name = asked.need("u"), asked.need("id")
    history = place.memory.history(user_id=user, memory_id=name)
    if not history:
        raise NotFound("no such memory of this user", why="it was erased, or belongs to somebody else")
    now = next((one for one in [history[-1].after] if one is not None), None)
    return _of_user(place, asked) | {"id": name, "now": now, "history": list(reversed(history))}


def _said(place: ShownStore, asked: PageQuery) -> JSON:
    views, user, q = place.memory.views, asked.need("u"), asked.text("q")
    why = views.why(user, q) if q else None
    page = None if q else views.turns(user, before=asked.text("before") or None, limit=PAGE)
    return _of_user(place, asked) | {"q": q, "why": why, "page": page}


def _timeline(place: ShownStore, asked: PageQuery) -> JSON:
    user, grep = asked.need("u"), asked.text("q")
    page = place.memory.views.ops(user, before=asked.number("before"), limit=PAGE, grep=grep)
    return _of_user(place, asked) | {"page": page, "q": grep}


def _questions(place: ShownStore, asked: PageQuery) -> JSON:
    user, grep = asked.need("u"), asked.text("q")
    page = place.memory.views.reads(user, before=asked.text("before") or None, limit=PAGE, grep=grep)
    return _of_user(place, asked) | {"page": page, "q": grep}


def _decisions(place: ShownStore, asked: PageQuery) -> JSON:
    user, grep = asked.need("u"), asked.text("q")
    page = place.memory.views.decisions(user, before=asked.text("before") or None, limit=PAGE, grep=grep)
    return _of_user(place, asked) | {"page": page, "q": grep}


def _decision(place: ShownStore, asked: PageQuery) -> JSON:
    user = asked.need("u")
    detail = place.memory.views.decision(user, asked.need("id"))
    intake, beside = detail.decision["trace_id"], asked.text("beside")
    compared = None
    if beside and intake:
        compared = trainer.compare_turn(place.store, place.model, user, intake, beside)
    adapters = [one for one in place.memory.views.adapters() if not one["damaged"]] if intake else []
    asks = trainer.is_there() and place.model is not None and bool(adapters)
    return {"u": user, "detail": detail, "adapters": adapters, "asks": asks, "beside": beside, "compared": compared}


def _answer(place: ShownStore, asked: PageQuery) -> JSON:
    user, name = asked.need("u"), asked.need("id")
    story = place.memory.views.read(user, name)
    credit = trainer.find_credit(place.store, user, name) if asked.text("credit") else None
    return {"u": user, "read": story, "credit": credit, "trains": trainer.is_there()}


def _health(place: ShownStore, _: PageQuery) -> JSON:
    return {"health": place.memory.views.health()}


def _learning(place: ShownStore, _: PageQuery) -> JSON:
    return {"learning": place.memory.views.learning(place.runs)}


def _adapter(place: ShownStore, asked: PageQuery) -> JSON:
    return {"adapter": place.memory.views.adapter(asked.need("digest"))}


def _run(place: ShownStore, asked: PageQuery) -> JSON:
    if place.runs is None:
        raise InvalidInput("no folder of runs is known here", fix="start it with --runs FOLDER")
    return {"run": place.memory.views.run(place.runs, asked.need("name"))}


def _erasure(place: ShownStore, _: PageQuery) -> JSON:
    return {"erasures": place.memory.views.erasures()}


def _sure(place: ShownStore, asked: PageQuery) -> JSON:
    """What is about to be done, before it is."""
    verb = asked.need("do")
    if verb == "erase":
        names = {name: asked.text(name) for name in ("memory", "turn", "session") if asked.text(name)}
        return {"verb": verb, "u": asked.need("u"), "part": names} | _of_user(place, asked)
    if verb not in ("promote", "rollback"):
        raise Declined(404, "there is nothing of that name to confirm")
    alias = asked.text("alias") or "production"
    try:
        state = place.memory.views.alias(alias)
    except MemkitError:
        state = {"alias": alias, "version": 0, "routes": {}, "history": [], "back": None}
    told: JSON = {"verb": verb, "alias": alias, "state": state}
    return told | ({"adapter": place.memory.views.adapter(asked.need("digest"))} if verb == "promote" else {})


PAGES: dict[str, UiPage] = {
    "/": UiPage("users.html", "Users", _users),
    "/user": UiPage("memories.html", "Memories", _memories),
    "/memory": UiPage("memory.html", "A memory", _memory),
    "/said": UiPage("said.html", "Said", _said),
    "/timeline": UiPage("timeline.html", "Timeline", _timeline),
    "/asked": UiPage("asked.html", "Asked", _questions),
    "/decisions": UiPage("decisions.html", "Decisions", _decisions),
    "/decision": UiPage("decision.html", "A decision", _decision),
    "/answer": UiPage("answer.html", "An answer", _answer),
    "/health": UiPage("health.html", "Health", _health),
    "/learning": UiPage("learning.html", "Learning", _learning),
    "/adapter": UiPage("adapter.html", "An adapter", _adapter),
    "/run": UiPage("run.html", "A run", _run),
    "/erasure": UiPage("erasure.html", "Erasure", _erasure),
    "/sure": UiPage("sure.html", "Sure?", _sure),
}
