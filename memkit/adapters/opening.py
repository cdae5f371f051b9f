"""From what users pass as `adapters=` to an `AdapterSet`: where the registry is, and which host serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from memkit.adapters.adapter_set import AdapterSet
from memkit.adapters.hosts.base import AdapterHost
from memkit.adapters.plan import MODEL_ROLES
from memkit.adapters.registry import Registry
from memkit.adapters.shared import SharedAdapters
from memkit.adapters.verify import Serving
from memkit.engine.drive import within
from memkit.errors import InvalidConfig
from memkit.inputs import is_url
from memkit.journal.engine import Engine
from memkit.seams.backbone import Backbone

FOLDER = "adapters"
"""Where a store has its own."""

STORE_SCHEMA = 1
"""Version of what a prompt may be filled with: kinds, columns and scopes of memories."""
_LEARN_FIRST = ("manager", "fused", "extractor", "answerer")
_OPTIONS = ("path", "host", "keep", "drain_s", "poll_s", "merge", "guard", "taints")


def open_registry(store: str | Path) -> Registry:
    """The registry of a store that nobody here has open: in its folder, or in its database with copies on this
    machine."""
    if not is_url(store):
        return Registry(Path(store) / FOLDER)
    from memkit.journal.postgres.opening import open_tables

    engine, place = open_tables(store)
    try:
        return Registry(place / FOLDER, shared=SharedAdapters(engine, owned=True))
    except BaseException:
        engine.close()
        raise


def open_adapters(
    store: Path,
    spec: Any = None,
    *,
    engine: Engine | None = None,
    alias: str,
    backbone: Callable[[], Backbone],
    deadline_s: float,
    prompt_hashes: Callable[[], Mapping[str, str]],
    embedder: str,
) -> AdapterSet:
    """spec: None (`<store>/adapters`), a folder, an `AdapterHost`, or a mapping of `path`, `host` and options of
    `AdapterSet`. Without a host, an in-process model (hf:…) hosts its own adapters. engine: the database that a fleet
    shares its adapters in, where no folder is named. Nothing is loaded yet."""
    options = _options(spec)
    named = options.pop("path", None)
    shared = None if named or engine is None else SharedAdapters(engine)
    given: AdapterHost | None = options.pop("host", None)

    def host() -> tuple[AdapterHost | None, frozenset[str]]:
        return (given, MODEL_ROLES) if given is not None else own_host(backbone())

    serving = Serving(prompt_hashes=prompt_hashes, embedder=embedder, store_schema=STORE_SCHEMA)
    return AdapterSet(
        Path(named or store / FOLDER),
        shared=shared,
        alias=alias,
        host=host,
        serving=serving,
        generate=lambda requests: within(backbone(), deadline_s)(requests),
        **options,
    )


def own_host(backbone: Any) -> tuple[AdapterHost | None, frozenset[str]]:
    """The host inside a backbone that runs its model in this process, and the roles it answers in. Of several such
    models the one that manages memories: it is the one that learns."""
    if hasattr(backbone, "load_adapter"):
        from memkit.adapters.hosts.peft import PeftHost

        return PeftHost(backbone), MODEL_ROLES
    if hasattr(backbone, "load_learned"):
        from memkit.adapters.hosts.small import SmallHost

        return SmallHost(backbone), frozenset({"extractor", "manager", "fused"})
    of = getattr(backbone, "backbone_of", None)
    if of is not None:
        inner = {role: of(role) for role in sorted(MODEL_ROLES)}
        local = [inner[role] for role in _LEARN_FIRST if own_host(inner[role])[0] is not None]
        chosen = local[0] if local else None
        if chosen is not None:
            return own_host(chosen)[0], frozenset(role for role, one in inner.items() if one is chosen)
    return None, frozenset()


def _options(spec: Any) -> dict[str, Any]:
    if spec is None:
        return {}
    if isinstance(spec, str | Path):
        return {"path": spec}
    if isinstance(spec, Mapping):
        options = dict(cast("Mapping[str, Any]", spec))
        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise InvalidConfig(
                f"adapters= has no option {unknown[0]!r}", why=f"it has {', '.join(_OPTIONS)}", fix="correct the name"
            )
        if "host" not in options or isinstance(options["host"], AdapterHost):
            return options
    elif isinstance(spec, AdapterHost):
        return {"host": spec}
    raise InvalidConfig(
        "adapters= is neither a folder nor an adapter host",
        why=f"it is a {type(spec).__name__}",
        fix="pass a folder, memkit.adapters.VLLMHost([...]), or a mapping of path, host and options",
    )
