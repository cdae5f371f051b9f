"""What the manager does now that it did not do before: the choices in two tellings of the panel's talk, compared."""

from __future__ import annotations

from dataclasses import dataclass

from memkit import Memory


@dataclass(frozen=True, slots=True)
class NewHabits:
    kept: tuple[str, ...] = ()
    """Parts of what was said that it left before."""
    left: tuple[str, ...] = ()
    updated: tuple[tuple[str, str], ...] = ()
    """(what stood there, what it says now) where it added a second memory before."""


def find_habits(memory: Memory, before: str = "before-", after: str = "after-") -> NewHabits:
    kept: dict[str, None] = {}
    left: dict[str, None] = {}
    updated: dict[tuple[str, str], None] = {}
    for name in memory.users():
        if not name.startswith(before):
            continue
        old, new = (_clauses(memory, one) for one in (name, after + name.removeprefix(before)))
        for key, option in new.items():
            if key in old and (option == "leave") != (old[key] == "leave"):
                (left if option == "leave" else kept)[key[1]] = None
        known = set(_updates(memory, name))
        updated |= dict.fromkeys(one for one in _updates(memory, after + name.removeprefix(before)) if one not in known)
    return NewHabits(tuple(kept), tuple(left), tuple(updated))


def _clauses(memory: Memory, user_id: str) -> dict[tuple[str, str], str]:
    """(message, part of it) → what became of it."""
    found: dict[tuple[str, str], str] = {}
    for decision in memory.decisions(user_id=user_id, last=10_000):
        for choice in (decision.get("extra") or {}).get("choices", ()):
            if choice["task"] == "clause":
                number, start, end = choice["place"]
                text = decision["turns"][number - 1]["text"]
                found[text, text[start:end]] = choice["option"]
    return found


def _updates(memory: Memory, user_id: str) -> list[tuple[str, str]]:
    return [
        (op.before.text, op.after.text)
        for op in memory.history(user_id=user_id)
        if op.action == "update" and op.before is not None and op.after is not None
    ]
