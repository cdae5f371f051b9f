"""The verbs over HTTP, for apps in any language: `memkit serve --rest`. What it takes and gives is described in
OpenAPI at /openapi.json; beside it stand the addresses that clients of mem0 call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_rest.service import rest_app, serve_rest

__all__ = ["rest_app", "serve_rest"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from memkit_http import need

        need("the REST service", "rest", "starlette", "uvicorn")
        from memkit_rest import service

        return getattr(service, name)
    raise AttributeError(f"module 'memkit_rest' has no attribute {name!r}")
