"""Which embedder a store is opened with. The journal names it, and refuses every other."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.embedders.deferred import DEFAULT_IDENTITY
from memkit.embedders.recorded import Recorded, dimension, name_of, remake
from memkit.errors import EmbedderMismatch, NotAStore
from memkit.journal import Journal
from memkit.seams.clock import RandomIds, SystemClock

if TYPE_CHECKING:
    from memkit.seams.embedder import Embedder

_NAME = "embedder"
_OTHER_WEIGHTS = "its weights are others than those found here: install the version of its package that built the store"


def read_recorded(store: str | Path) -> Recorded | None:
    """The embedder that the store names; None where there is no store yet."""
    try:
        journal = Journal.open(store, clock=SystemClock(), ids=RandomIds(), read_only=True)
    except NotAStore:  # whoever then opens it to write says what is there instead
        return None
    try:
        identity = journal.meta_get(_NAME)
        if identity is None:
            return None
        return Recorded(identity, dimension(identity) or int(journal.meta_get(_dim_key(identity)) or 0))
    finally:
        journal.close()


def embedder_for(store: str | Path, given: str | None, *, embeds: bool) -> Any:
    """`embedder=` for a store that is opened from a command line, where an embedder can only be named. Without a name
    it is the store's own: made again where texts or queries are to be embedded, else known by name only."""
    stored = read_recorded(store)
    if stored is None or (given is None and stored.identity == DEFAULT_IDENTITY):
        return given
    if given is None and not embeds:
        return stored
    if given is None or given == name_of(stored.identity):
        made = remake(stored.identity, asked=given is not None)
        if made is not None:
            return made
    if given is None:
        raise _nameless(stored.identity)
    return given


def own_embedder(journal: Journal) -> Embedder | None:
    """What a store is opened with where no embedder is given: its own, made again. None: it has the default, or none
    yet."""
    stored = journal.meta_get(_NAME)
    if stored is None or stored == DEFAULT_IDENTITY:
        return None
    made = remake(stored)
    if made is None:
        raise mismatch(stored, DEFAULT_IDENTITY, journal.name)
    return made


def check_embedder(journal: Journal, embedder: Embedder) -> None:
    """The first embedder is the store's; another one is refused."""
    known = journal.meta_get(_NAME)
    if known is None:
        name_embedder(journal, embedder)
    elif known != embedder.identity:
        raise mismatch(known, embedder.identity, journal.name)
    else:
        _note_dim(journal, embedder)


def is_named(journal: Journal, embedder: Embedder) -> bool:
    return journal.meta_get(_NAME) == embedder.identity


def name_embedder(journal: Journal, embedder: Embedder) -> None:
    _note_dim(journal, embedder)
    journal.meta_set(_NAME, embedder.identity)


def mismatch(stored: str, ours: str, store: str) -> EmbedderMismatch:
    name, other = name_of(stored), name_of(ours)
    usual = f"embedder={name!r} in Python, --embedder {name} on the command line" if name else "pass it as embedder="
    change = (
        f"memkit doctor {shlex.quote(store)} --reembed --embedder {other}"
        if other
        else "memkit.runtime.reembed.adopt_embedder(path, embedder)"
    )
    own = f"open it with the embedder it was built with ({usual}), which is the usual fix"
    return EmbedderMismatch(
        f"this store was built with the embedder {stored}, not {ours}",
        why="vectors of two embedders cannot be compared",
        fix=f"{_OTHER_WEIGHTS if name and name == other else own}; "
        f"or embed everything anew, for all who use the store: {change}",
        stored=stored,
    )


def _nameless(stored: str) -> EmbedderMismatch:
    name = name_of(stored)
    hosted = name is not None and name.startswith("openai:")
    fix = f"pass --embedder {name}" + (", with OPENAI_BASE_URL where it is a server of your own" if hosted else "")
    if name is not None and not hosted and not name.startswith("minilm"):  # which has a folder to name
        fix = f"{_OTHER_WEIGHTS}; or embed everything anew: memkit doctor STORE --reembed --embedder {name}"
    return EmbedderMismatch(
        f"this embeds text, and the store's embedder {stored} cannot be made from its name",
        why="nothing says at which endpoint it is"
        if hosted
        else "its weights are others than those found here"
        if name
        else "it is a function or an object of the app that made the store",
        fix=(fix if name else "do it from that app")
        + "; what embeds nothing works here (list, history, log, export, undo, erase, import)",
        stored=stored,
    )


def _note_dim(journal: Journal, embedder: Embedder) -> None:
    """Where the identity does not say how long the vectors are, the journal does."""
    identity = embedder.identity
    if dimension(identity) is None and not isinstance(embedder, Recorded):
        key, dim = _dim_key(identity), str(embedder.dim)
        if journal.meta_get(key) != dim:
            journal.meta_set(key, dim)


def _dim_key(identity: str) -> str:
    return f"embedder_dim/{identity}"


def remembering(embedder: Embedder) -> Embedder:
    """A text is embedded once, whether it is searched or projected first."""
    if embedder.cheap or isinstance(embedder, Recorded):
        return embedder
    from memkit.embedders.cached import CachedEmbedder

    return embedder if isinstance(embedder, CachedEmbedder) else CachedEmbedder(embedder)
