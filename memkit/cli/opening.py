"""How a command opens the store that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memkit.errors import NotAStore
from memkit.inputs import is_url
from memkit.journal import Journal
from memkit.memory import Memory
from memkit.runtime import store_embedder
from memkit.seams.clock import RandomIds, SystemClock

_BEGIN = "check --store, or begin one with `memkit add`"


def is_there(store: str) -> bool:
    """Whether something lies at this address, a store or not."""
    if not is_url(store):
        return Path(store).exists()
    try:
        there(store)
    except NotAStore:
        return False
    return True


def there(store: str) -> None:
    """Only what adds to a store may begin one: a mistyped address is an error, not an empty store."""
    if is_url(store):
        try:
            _look_at(store).close()
        except NotAStore as error:
            raise NotAStore(error.what, why=error.why, fix=_BEGIN) from None
    elif not (Path(store) / "memkit.json").exists():
        raise NotAStore(f"there is no store at {store}", fix=_BEGIN)


def _look_at(store: str) -> Journal:
    return Journal.open(store, clock=SystemClock(), ids=RandomIds(), read_only=True)


def open_store(
    store: str,
    model: str | None = None,
    base_url: str | None = None,
    embedder: str | None = None,
    *,
    create: bool = False,
    embeds: bool = False,
    redact: str | None = None,
) -> Memory:
    """What embeds nothing works for every store, whatever its embedder is: no model is loaded."""
    if not create:
        there(store)
    options: dict[str, Any] = {"base_url": base_url} if base_url else {}
    chosen = store_embedder.embedder_for(store, embedder, embeds=embeds)
    # Turns that the app accepted are the app's to decide, with its own model: looking at a store decides nothing.
    return Memory(store, model=model, embedder=chosen, redact=redact, config={"workers": 0}, **options)
