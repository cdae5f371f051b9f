"""The registry: immutable adapters in digest-named folders, and aliases in one small SQLite file beside them.

    <root>/<digest>/            an adapter, read-only, complete from the moment it has its name
    <root>/registry.sqlite      aliases and their history, taints
    <root>/.in-use/<digest>     locked by every process that has the adapter loaded
    <root>/.incoming-…          being published; .trash-… being removed

Several processes share it. An adapter appears by a rename, an alias moves in one transaction that compares first, so a
crash at any moment leaves the registry as it was before the step or after it. A fleet keeps all of it in its database
(`shared.py`), and each machine in such a folder what it has fetched.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memkit.adapters._files import copy_durable, sync_folder
from memkit.adapters._inuse import InUse
from memkit.adapters._state import ANY, Expected, RegistryState
from memkit.adapters._tables import FileTables
from memkit.adapters.plan import AliasState, Route, Routes
from memkit.adapters.shared import SharedAdapters
from memkit.errors import AdapterRejected, InvalidConfig, InvalidInput, NotFound
from memkit.inputs import path_of
from memkit.seams.clock import Clock, SystemClock

if TYPE_CHECKING:
    from memkit.adapters.manifest import Manifest

__all__ = ["ANY", "Expected", "GcReport", "RegisteredAdapter", "Registry"]

STATE = "registry.sqlite"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ALIAS = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_STALE_S = 3600.0
"""Leftovers of publishers that died are swept after this time."""


@dataclass(frozen=True, slots=True)
class RegisteredAdapter:
    """An adapter in the registry."""

    digest: str
    path: Path
    kind: str
    roles: tuple[str, ...]
    created_at: str
    gated: bool
    parent: str | None
    bytes: int
    aliases: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()
    """Subjects that were erased after it had learned from them."""
    damaged: str = ""


@dataclass(frozen=True, slots=True)
class GcReport:
    removed: tuple[str, ...]
    kept: Mapping[str, str]
    """Digest → why it stays."""
    freed_bytes: int


class Registry:
    """Thread-safe; any number per folder, in any number of processes."""

    def __init__(self, root: Path | str, *, clock: Clock | None = None, shared: SharedAdapters | None = None) -> None:
        self.root = Path(root)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidConfig(
                f"no adapters can be kept in {self.root}",
                why=error.strerror or "",
                fix="name a folder that this user may write, or leave adapters= out",
            ) from None
        self._clock = clock or SystemClock()
        self._shared, self._fetching = shared, threading.Lock()
        self._tables = shared or FileTables(self.root / STATE)
        self._state = RegistryState(self._tables)
        self.in_use = InUse(self.root / ".in-use")

    # ---- adapters ------------------------------------------------------------------------------------------

    def publish(self, source: Path | str) -> str:
        """Verify a folder and take it in. Returns its digest; publishing the same bytes again changes nothing."""
        from memkit.adapters.manifest import MANIFEST
        from memkit.adapters.verify import inspect

        source = path_of(source, "the folder to publish")
        manifest = inspect(source).manifest
        target = self.root / manifest.digest
        if not target.is_dir():
            with self._incoming(manifest.digest) as staging:
                for name in sorted(manifest.files):
                    copied = copy_durable(source / name, staging / name)
                    if copied != manifest.files[name].model_dump():
                        raise AdapterRejected(
                            f"{name} changed while it was published", fix="publish again", reason="hash_mismatch"
                        )
                copy_durable(source / MANIFEST, staging / MANIFEST)
        inspect(target, expected=manifest.digest)
        if self._shared is not None:
            self._shared.put(target, manifest)
        return manifest.digest

    @contextmanager
    def _incoming(self, digest: str) -> Generator[Path]:
        """A folder to fill. It has its name once it is verified."""
        from memkit.adapters.verify import inspect

        staging = self.root / f".incoming-{secrets.token_hex(8)}"
        staging.mkdir()
        try:
            yield staging
            inspect(staging, expected=digest)
            for file in staging.iterdir():
                file.chmod(0o444)
            sync_folder(staging)
            with suppress(OSError):  # another publisher of the same bytes may have been faster
                os.rename(staging, self.root / digest)
            sync_folder(self.root)
        finally:
            _remove(staging)

    def take_all(self, other: Registry) -> None:
        """Adapters, aliases and taints of another registry; aliases only where this one has none."""
        for digest in other.digests():
            with suppress(AdapterRejected):  # a damaged one serves nobody here either
                self.publish(other.path(digest))
        self._state.copy_from(other._state)

    def path(self, digest: str) -> Path:
        """The folder of an adapter. Digests are looked up, never joined blindly into a path."""
        self._must_exist([digest])
        folder = self.root / digest
        if self._shared is not None and not folder.is_dir():
            with self._fetching, self._incoming(digest) as staging:
                self._shared.fetch(digest, staging)
        return folder

    def manifest(self, digest: str) -> Manifest:
        """What the adapter says of itself; no file of it is fetched for that."""
        from memkit.adapters.verify import parse_manifest, read_manifest

        self._must_exist([digest])
        if self._shared is None or (self.root / digest).is_dir():
            return read_manifest(self.root / digest)
        return parse_manifest(self._shared.manifest(digest), where=digest)

    def find(self, name: str) -> str:
        """A digest, or the beginning of one (at least 6 characters), as people type it."""
        _check_str(name, "an adapter's digest")
        if _DIGEST.fullmatch(name):
            self._must_exist([name])
            return name
        matches = [known for known in self.digests() if len(name) >= 6 and known.startswith(name)]
        if len(matches) != 1:
            raise NotFound(
                f"{name[:64]!r} names {len(matches)} adapters",
                why="a digest, or at least 6 characters from its beginning, names one",
                fix="memkit adapters list shows the digests",
            )
        return matches[0]

    def digests(self) -> list[str]:
        return self._copies() if self._shared is None else self._shared.digests()

    def _copies(self) -> list[str]:
        """What lies in this folder."""
        return sorted(entry.name for entry in os.scandir(self.root) if _DIGEST.fullmatch(entry.name))

    def list_known(self) -> list[RegisteredAdapter]:
        named: dict[str, list[str]] = {}
        for state in self.aliases().values():
            for digest in state.digests:
                named.setdefault(digest, []).append(state.alias)
        taints = self._state.taints()
        return [self._known(d, tuple(named.get(d, ())), tuple(taints.get(d, ()))) for d in self.digests()]

    def _known(self, digest: str, aliases: tuple[str, ...], tainted: tuple[str, ...]) -> RegisteredAdapter:
        folder = self.root / digest
        try:
            manifest = self.manifest(digest)
        except AdapterRejected as error:
            return RegisteredAdapter(
                digest, folder, "?", (), "", False, None, 0, aliases, tainted, str(error.details["reason"])
            )
        size = sum(entry.bytes for entry in manifest.files.values())
        return RegisteredAdapter(
            digest,
            folder,
            manifest.kind,
            manifest.roles,
            manifest.created_at,
            manifest.gated,
            manifest.training.parent,
            size,
            aliases,
            tainted,
            "" if manifest.digest == digest else "other_digest",
        )

    # ---- aliases -------------------------------------------------------------------------------------------

    def alias(self, name: str) -> AliasState:
        """The alias as it stands; version 0 serves the base model everywhere."""
        return self._state.alias(alias_name(name))

    def aliases(self) -> dict[str, AliasState]:
        return self._state.aliases()

    def version_of(self, name: str, version: int) -> AliasState | None:
        return self._state.version(alias_name(name), version)

    def history(self, name: str, limit: int = 100) -> list[AliasState]:
        """Newest first."""
        return self._state.history(alias_name(name), limit)

    def move(
        self,
        name: str,
        change: Callable[[Mapping[str, Route]], Routes],
        *,
        expected: Expected = ANY,
        roles: Iterable[str] = (),
        actor: str = "",
        action: str = "promote",
        note: str = "",
        ungated: bool = False,
        proved: bool = False,
    ) -> AliasState:
        """Compare and swap: read the alias, compare, apply `change` to its routes, write the next version. `expected`
        is a version, or the digest (None: the base model) that is stable in `roles`. Raises `StaleAlias`."""
        return self._state.move(
            alias_name(name),
            change,
            expected=expected,
            roles=tuple(roles),
            actor=actor,
            action=action,
            note=note,
            ungated=ungated,
            proved=proved,
            at=self._clock.now().isoformat(),
            exists=self._must_exist,
        )

    def rollback(
        self,
        name: str,
        *,
        to: int | None = None,
        expected: Expected = ANY,
        actor: str = "",
        note: str = "",
        proved: bool = False,
        serve: Callable[[AliasState], object] = lambda _: None,
    ) -> AliasState:
        """Undo the last change of the alias (or all after version `to`), as a new version. Repeated, it goes further
        back. `serve` is called once the move is committed and before it is flushed to disk, so that a slow disk does
        not keep a bad adapter in service."""
        state = self._state.rollback(
            alias_name(name),
            to=to,
            expected=expected,
            actor=actor,
            note=note,
            proved=proved,
            at=self._clock.now().isoformat(),
            exists=self._must_exist,
        )
        try:
            serve(state)
        finally:
            self._state.flush()
        return state

    def prove(self, name: str, version: int) -> None:
        """Record that a serving process loaded and probed what this version names."""
        self._state.prove(alias_name(name), version)

    def changes(self) -> int:
        """A number that changes when any process changes an alias; cheap enough to poll."""
        return self._state.changes()

    def _must_exist(self, digests: Iterable[str]) -> None:
        for digest in digests:
            _check_str(digest, "an adapter's digest")
            if not _DIGEST.fullmatch(digest) or not self._has(digest):
                raise NotFound(
                    f"no adapter {digest[:64]!r} in this registry",
                    why=f"{self.root} has no such folder" if self._shared is None else "the fleet's store has none",
                    fix="memkit adapters list shows what is there",
                )

    def _has(self, digest: str) -> bool:
        return (self.root / digest).is_dir() if self._shared is None else self._shared.has(digest)

    # ---- erased subjects -----------------------------------------------------------------------------------

    def taint(self, subject: str, only: Iterable[str] | None = None) -> list[str]:
        """Mark every adapter that learned from this (opaque) subject, or of those only some. Returns their digests."""
        hit: list[str] = []
        for digest in self.digests() if only is None else only:
            with suppress(AdapterRejected):
                data = self.manifest(digest).data
                if data is not None and subject in data.subjects:
                    hit.append(digest)
        self._state.taint(hit, subject, self._clock.now().isoformat())
        return hit

    def taints(self, digest: str) -> list[str]:
        return self._state.taints().get(digest, [])

    # ---- garbage -------------------------------------------------------------------------------------------

    def gc(self, *, keep: int = 2, min_age_s: float = 86_400.0, dry_run: bool = False) -> GcReport:
        """Remove adapters that nothing names: no alias, none of the last `keep` generations that rollback could return
        to, no process that has it loaded, and not published within `min_age_s`."""
        removed: list[str] = []
        kept: dict[str, str] = {}
        freed = 0
        for digest in self.digests():
            with self._state.exclusive() as tx:
                why = self._kept_because(digest, keep, min_age_s)
                if why:
                    kept[digest] = why
                    continue
                freed += sum(entry.bytes for entry in self.manifest(digest).files.values())
                removed.append(digest)
                if dry_run:
                    continue
                if self._shared is not None:
                    self._shared.remove(tx, digest)
                trash = self._set_aside(digest)
            self._throw_away(digest, trash)
        if not dry_run:
            self._sweep()
        return GcReport(tuple(removed), kept, freed)

    def _set_aside(self, digest: str) -> Path:
        trash = self.root / f".trash-{secrets.token_hex(8)}"
        with nullcontext() if self._shared is None else suppress(FileNotFoundError):
            os.rename(self.root / digest, trash)
        return trash

    def _throw_away(self, digest: str, trash: Path) -> None:
        _remove(trash)
        self.in_use.forget(digest)

    def _kept_because(self, digest: str, keep: int, min_age_s: float) -> str:
        for state in self._state.aliases().values():
            if digest in state.digests:
                return f"alias {state.alias} names it"
            for generation in self._generations(state, keep):
                if digest in generation.digests:
                    return f"{state.alias} can roll back to it"
        if self.in_use.is_held(digest):
            return "a process has it loaded"
        if self._age_s(digest) < min_age_s:
            return "it was published a short while ago"
        return ""

    def _age_s(self, digest: str) -> float:
        if self._shared is not None:
            return self._shared.age_s(digest)
        return time.time() - (self.root / digest).stat().st_mtime

    def _generations(self, state: AliasState, keep: int) -> list[AliasState]:
        out: list[AliasState] = []
        at = state.back
        while at is not None and len(out) < keep:
            found = self._state.version(state.alias, at)
            if found is None:
                break
            out.append(found)
            at = found.back
        return out

    def warm(self, state: AliasState, keep: int) -> frozenset[str]:
        """What should stay loaded so that rollback needs no disk: the adapters of the last `keep` generations, this one
        included."""
        generations = [state, *self._generations(state, max(0, keep - 1))]
        return frozenset(digest for one in generations for digest in one.digests)

    def _sweep(self) -> None:
        """What nobody finished or needs: also copies of what the fleet has removed."""
        for digest in set(self._copies()) - set(self.digests()):
            if not self.in_use.is_held(digest):
                self._throw_away(digest, self._set_aside(digest))
        for entry in os.scandir(self.root):
            leftover = entry.name.startswith((".incoming-", ".trash-"))
            if leftover and time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE_S:
                _remove(Path(entry.path))

    def close(self) -> None:
        self.in_use.close()
        self._tables.close()


def alias_name(name: str) -> str:
    _check_str(name, "an alias")
    if not _ALIAS.fullmatch(name):
        raise InvalidInput(
            f"{name[:64]!r} is no alias",
            why="aliases are lower-case letters, digits, - and _, at most 64",
            fix="use a name such as production or canary",
        )
    return name


def _check_str(name: object, what: str) -> None:
    if not isinstance(name, str):
        raise InvalidInput(f"{what} is a str, not {type(name).__name__}", fix="memkit adapters list shows both")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
