"""Aliases and their history: the compare-and-swap.

Every version of every alias is kept as one row; the newest row of an alias is the alias.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from memkit.adapters._tables import RegistryTables, TableTx
from memkit.adapters.plan import AliasState, Route, Routes
from memkit.errors import AdapterError, StaleAlias
from memkit.models import to_json


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()
"""Whatever the alias names now."""
Expected = int | str | None | _Any


class RegistryState:
    def __init__(self, tables: RegistryTables) -> None:
        self._tables = tables
        self.exclusive, self.flush, self.changes = tables.exclusive, tables.flush, tables.changes

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._tables.all(query, *values)

    # ---- reading -------------------------------------------------------------------------------------------

    def alias(self, name: str) -> AliasState:
        rows = self._rows("SELECT * FROM versions WHERE alias = ? ORDER BY version DESC LIMIT 1", name)
        return _state(rows[0]) if rows else AliasState(name)

    def aliases(self) -> dict[str, AliasState]:
        rows = self._rows(
            "SELECT * FROM versions AS v WHERE version = "
            "(SELECT MAX(version) FROM versions AS w WHERE w.alias = v.alias)"
        )
        return {row[0]: _state(row) for row in rows}

    def version(self, name: str, version: int) -> AliasState | None:
        if version == 0:
            return AliasState(name, proved=True)
        rows = self._rows("SELECT * FROM versions WHERE alias = ? AND version = ?", name, version)
        return _state(rows[0]) if rows else None

    def history(self, name: str, limit: int) -> list[AliasState]:
        rows = self._rows("SELECT * FROM versions WHERE alias = ? ORDER BY version DESC LIMIT ?", name, limit)
        return [_state(row) for row in rows]

    # ---- moving --------------------------------------------------------------------------------------------

    def move(
        self,
        name: str,
        change: Callable[[Mapping[str, Route]], Routes],
        *,
        expected: Expected,
        roles: Sequence[str],
        actor: str,
        action: str,
        note: str,
        ungated: bool,
        proved: bool,
        at: str,
        exists: Callable[[Iterable[str]], None],
    ) -> AliasState:
        with self.exclusive() as tx:
            now = self.alias(name)
            _compare(now, expected, roles)
            routes = dict(change(now.routes))
            state = AliasState(name, now.version + 1, routes, now.version, proved, actor, action, note, ungated, at)
            exists(state.digests)
            _write(tx, state)
        return state

    def rollback(
        self,
        name: str,
        *,
        to: int | None,
        expected: Expected,
        actor: str,
        note: str,
        proved: bool,
        at: str,
        exists: Callable[[Iterable[str]], None],
    ) -> AliasState:
        """Not flushed: the caller switches first, and then calls `flush`."""
        with self.exclusive(flush=False) as tx:
            now = self.alias(name)
            _compare(now, expected, tuple(now.routes))
            target = now.back if to is None else to
            back = None if target is None or target >= now.version else self.version(name, target)
            if back is None:
                raise AdapterError(
                    f"alias {name} has nothing to roll back to",
                    why="it never named anything else" if to is None else f"it has no earlier version {to}",
                    fix="promote another adapter instead",
                    reason="no_previous",
                )
            exists(back.digests)
            state = AliasState(
                name,
                now.version + 1,
                back.routes,
                back.back,
                back.proved or proved,
                actor,
                "rollback",
                note,
                back.ungated,
                at,
            )
            _write(tx, state)
        return state

    def prove(self, name: str, version: int) -> None:
        with self.exclusive() as tx:
            tx.run("UPDATE versions SET proved = 1 WHERE alias = ? AND version = ?", (name, version))

    # ---- taints --------------------------------------------------------------------------------------------

    def taint(self, digests: Sequence[str], subject: str, at: str) -> None:
        with self.exclusive() as tx:
            tx.many(
                "INSERT INTO taints VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(digest, subject, at) for digest in digests],
            )

    def taints(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for digest, subject in self._rows("SELECT digest, subject FROM taints ORDER BY digest, subject"):
            out.setdefault(digest, []).append(subject)
        return out

    def copy_from(self, other: RegistryState) -> None:
        """Every version and taint of another registry, where this one has none."""
        states = [state for name in other.aliases() for state in reversed(other.history(name, 1 << 30))]
        taints = other._rows("SELECT digest, subject, at FROM taints")
        with self.exclusive() as tx:
            if not self.aliases():
                for state in states:
                    _write(tx, state)
            tx.many("INSERT INTO taints VALUES (?, ?, ?) ON CONFLICT DO NOTHING", taints)


def _compare(now: AliasState, expected: Expected, roles: Sequence[str]) -> None:
    if isinstance(expected, _Any):
        return
    if isinstance(expected, int):
        if now.version == expected:
            return
    elif all(now.route(role).stable == expected for role in roles or tuple(now.routes) or ("manager",)):
        return
    serving = {role: route.stable for role, route in now.routes.items()}
    raise StaleAlias(
        f"alias {now.alias} moved: it is at version {now.version}",
        why=f"expected {expected!r}; it was changed by {now.actor or 'nobody'} ({now.action or 'never set'})",
        fix="look at it again (memkit adapters list), then promote with expected= its current version",
        alias=now.alias,
        version=now.version,
        serving=serving,
    )


def _write(tx: TableTx, state: AliasState) -> None:
    routes = to_json({role: route.to_json() for role, route in state.routes.items()})
    tx.run(
        "INSERT INTO versions VALUES (?,?,?,?,?,?,?,?,?,?)",
        (
            state.alias,
            state.version,
            routes,
            state.back,
            int(state.proved),
            state.actor,
            state.action,
            state.note,
            int(state.ungated),
            state.at,
        ),
    )


def _state(row: tuple[Any, ...]) -> AliasState:
    alias, version, routes, back, proved, actor, action, note, ungated, at = row
    parsed = {role: Route.from_json(raw) for role, raw in json.loads(routes).items()}
    return AliasState(alias, version, parsed, back, bool(proved), actor, action, note, bool(ungated), at)
