"""How a command opens the store that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memkit.errors import NotAStore
from memkit.memory import Memory
from memkit.runtime import store_embedder


def there(store: Path) -> None:
    if not (store / "memkit.json").exists():
        raise NotAStore(f"there is no store at {store}", fix="check --store, or begin one with `memkit add`")


def open_store(
    store: Path,
    model: str | None = None,
    base_url: str | None = None,
    embedder: str | None = None,
    *,
    create: bool = False,
    embeds: bool = False,
    redact: str | None = None,
) -> Memory:
    """Only what adds to a store may begin one: a mistyped path is an error, not an empty store. What embeds nothing
    works for every store, whatever its embedder is: no model is loaded."""
    if not create:
        there(store)
    options: dict[str, Any] = {"base_url": base_url} if base_url else {}
    chosen = store_embedder.embedder_for(store, embedder, embeds=embeds)
    # Turns that the app accepted are the app's to decide, with its own model: looking at a store decides nothing.
    return Memory(store, model=model, embedder=chosen, redact=redact, config={"workers": 0}, **options)
