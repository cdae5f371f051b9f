"""`embedder=` as users write it → an embedder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from memkit.errors import InvalidConfig
from memkit.seams.embedder import Embedder

EmbedderSpec = str | Embedder | Callable[[list[str]], Any] | None

_FIX = (
    'use "hash", "minilm", "minilm:PATH", "multilingual", "fastembed", "fastembed:NAME", "openai:NAME", a function of '
    "a list of texts, or an Embedder"
)


def make_embedder(spec: EmbedderSpec = None, **options: Any) -> Embedder:
    """None and "hash" are the built-in embedder. `options` go to the embedder that `spec` names (dim, base_url,
    api_key, …). No model is loaded and nothing downloaded before the first text. Models get an in-memory cache
    (`cache_size=0` turns it off)."""
    if isinstance(spec, Embedder):
        _refuse_options(options, "an Embedder instance is ready made")
        return spec
    if spec is None or spec == "hash":
        from memkit.embedders.hash import HashEmbedder

        return _made(HashEmbedder, options)
    size = options.pop("cache_size", 20_000)
    inner = _inner(spec, options)
    if not size:
        return inner
    from memkit.embedders.cached import CachedEmbedder

    return CachedEmbedder(inner, size)


def _inner(spec: str | Callable[[list[str]], Any], options: dict[str, Any]) -> Embedder:
    if callable(spec):
        from memkit.embedders.wrapped import CallableEmbedder

        return _made(CallableEmbedder, options, spec)
    if not isinstance(spec, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidConfig(f"embedder={spec!r} names no embedder", why="it is neither text nor callable", fix=_FIX)
    kind, _, name = spec.partition(":")
    if kind == "minilm":
        from memkit.embedders.minilm import MiniLM

        return _made(MiniLM, options, *([name] if name else []))
    if spec == "multilingual":
        from memkit.embedders.multilingual import Multilingual

        return _made(Multilingual, options)
    if kind == "fastembed":
        from memkit.embedders.fastembed import FastembedEmbedder

        return _made(FastembedEmbedder, options, *([name] if name else []))
    if kind == "openai" and name:
        from memkit.embedders.openai import OpenAIEmbedder

        return _made(OpenAIEmbedder, options, name)
    raise InvalidConfig(f"embedder={spec!r} names no embedder", why="unknown name", fix=_FIX)


def _made(cls: Callable[..., Any], options: dict[str, Any], *args: Any) -> Embedder:
    try:
        return cast(Embedder, cls(*args, **options))
    except TypeError as error:
        raise InvalidConfig(f"the embedder was refused: {error}", why="unknown or missing option", fix=_FIX) from error


def _refuse_options(options: dict[str, Any], why: str) -> None:
    if options:
        raise InvalidConfig(f"unused options: {', '.join(sorted(options))}", why=why, fix="leave them out")
