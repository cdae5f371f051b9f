"""The learned ranker that an alias names. Ranker weights are a value: they need no host, no lease and no drain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from memkit.adapters.manifest import RANKER
from memkit.adapters.plan import Route
from memkit.adapters.registry import Registry
from memkit.adapters.verify import Serving, check_serving, inspect
from memkit.errors import MemkitError

if TYPE_CHECKING:
    from memkit.retrieval import RankerWeights


class Rankers:
    """Looks at the registry's change counter on every call, so a promotion by any process counts from the next search
    on. A ranker that cannot be used leaves the previous one in place."""

    def __init__(self, registry: Registry, alias: str, serving: Serving, failed: Callable[..., None]) -> None:
        self._registry, self._alias, self._serving, self._failed = registry, alias, serving, failed
        self._lock = threading.Lock()
        self._seen: int | None = None
        self._route = Route()
        self._loaded: dict[str, RankerWeights] = {}

    def current(self, user_key: str | None = None) -> RankerWeights | None:
        """None: the built-in weights. With a user, canaries count."""
        with self._lock:
            seen = self._registry.changes()
            if seen != self._seen:
                self._seen = seen
                self._refresh(self._registry.alias(self._alias).route("ranker"))
            digest = self._route.stable if user_key is None else self._route.assign(user_key).digest
            return None if digest is None else self._loaded[digest]

    def _refresh(self, route: Route) -> None:
        try:
            fresh = {digest: self._loaded.get(digest) or self._load(digest) for digest in route.deciding}
        except MemkitError as error:
            self._failed("ranker_refused", why=str(error))
        else:
            self._route, self._loaded = route, fresh

    def _load(self, digest: str) -> RankerWeights:
        from memkit.retrieval import RankerWeights

        verified = inspect(self._registry.path(digest), expected=digest)
        check_serving(verified.manifest, self._serving)
        return RankerWeights.load(verified.path / RANKER)
