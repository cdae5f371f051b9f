"""What a person may change from a page. Each is one verb of `Memory`, called by a form that carried the seal."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping

from memkit.adapters import promotion
from memkit_http import Declined
from memkit_ui.pages import ShownStore
from memkit_ui.showing import link

Form = Mapping[str, str]
Done = tuple[str, str]
"""(where to go on, what was done, in words)."""


def _undo(place: ShownStore, form: Form) -> Done:
    ops = place.memory.undo(user_id=form["u"], op_id=form["op_id"])
    return link("/timeline", u=form["u"]), f"Taken back: {len(ops)} operation{'s' if len(ops) != 1 else ''} written."


def _correct(place: ShownStore, form: Form) -> Done:
    place.memory.update(form["id"], form["text"], user_id=form["u"], expected_revision=int(form["revision"]))
    return link("/memory", u=form["u"], id=form["id"]), "Corrected. The earlier text stays in its history."


def _pin(place: ShownStore, form: Form) -> Done:
    pinned = form["pinned"] == "1"
    place.memory.pin(form["id"], user_id=form["u"], pinned=pinned)
    told = "Pinned: every context carries it." if pinned else "Let go: it is found like any other again."
    return link("/user", u=form["u"]), told


def _forget(place: ShownStore, form: Form) -> Done:
    place.memory.delete(form["id"], user_id=form["u"])
    return link("/timeline", u=form["u"]), "Forgotten. Undo brings it back; only erasing destroys it."


def _retry(place: ShownStore, form: Form) -> Done:
    """The app decides it, with its own model: nothing is decided here."""
    count = place.memory.retry([form["trace_id"]], user_id=form["u"], wait=False)
    return link("/health"), "It waits for the app to decide it again." if count else "It is not parked any more."


def _rate(place: ShownStore, form: Form) -> Done:
    place.memory.feedback(form["trace_id"], user_id=form["u"], label=form["label"])
    return link("/answer", u=form["u"], id=form["trace_id"]), "Noted: it is what the next training learns from."


def _promote(place: ShownStore, form: Form) -> Done:
    """As `memkit adapters promote` does: the processes that serve load and prove it, or take it back."""
    registry = place.memory.adapters.registry
    done = promotion.promote(
        registry, form["alias"], form["digest"], expected=int(form["version"]), actor=_actor(), note="from memkit ui"
    )
    return link("/learning"), f"{form['alias']} is at version {done.state.version} and names {form['digest'][:12]}."


def _roll_back(place: ShownStore, form: Form) -> Done:
    registry = place.memory.adapters.registry
    state = promotion.rollback(
        registry, form["alias"], expected=int(form["version"]), actor=_actor(), note="from memkit ui"
    )
    return link("/learning"), f"Rolled back: {form['alias']} is at version {state.version}."


def _erase(place: ShownStore, form: Form) -> Done:
    if form["typed"] != form["u"]:
        raise Declined(400, "what was typed is not the id of the user", fix="type it letter by letter, or leave it")
    parts = {f"{name}_id": form[name] for name in ("memory", "turn", "session") if form.get(name)}
    receipt = place.memory.erase(user_id=form["u"], **parts)
    rows = sum(receipt.counts.values())
    return link("/erasure"), f"Erased: {rows} rows. The receipt is the first one below."


DOINGS: dict[str, tuple[Callable[[ShownStore, Form], Done], tuple[str, ...]]] = {
    "undo": (_undo, ("u", "op_id")),
    "correct": (_correct, ("u", "id", "text", "revision")),
    "pin": (_pin, ("u", "id", "pinned")),
    "forget": (_forget, ("u", "id")),
    "retry": (_retry, ("u", "trace_id")),
    "rate": (_rate, ("u", "trace_id", "label")),
    "promote": (_promote, ("alias", "digest", "version")),
    "rollback": (_roll_back, ("alias", "version")),
    "erase": (_erase, ("u", "typed")),
}
_NUMBERS = ("revision", "version")


def do(place: ShownStore, verb: str, form: Form) -> Done:
    if verb not in DOINGS:
        raise Declined(404, "there is nothing of that name to do")
    call, needed = DOINGS[verb]
    lacking = [name for name in needed if name not in form]
    wrong = [name for name in _NUMBERS if name in form and not (form[name].isascii() and form[name].isdecimal())]
    if lacking or wrong:
        raise Declined(400, f"the form lacks {', '.join(lacking + wrong)}", fix="load the page again")
    return call(place, form)


def _actor() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "memkit ui"
