"""What every HTTP server of memkit stands on: an app that answers only to its own name, takes bodies of a limited size,
and says what went wrong as the library does. No pages, no routes of its own.

    at = bind("127.0.0.1", 8789)
    app = make_app(routes, door=Door.at("127.0.0.1", at.getsockname()[1]))
    listen(app, at)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_http.app import MAX_BODY_BYTES, Guarded, make_app, show_problem
    from memkit_http.door import Door
    from memkit_http.problems import Declined, problem_of, status_of
    from memkit_http.reading import read_form, read_json, tenant_of
    from memkit_http.serving import announce, bind, listen, need
    from memkit_http.session import BrowserSession

__all__ = [
    "MAX_BODY_BYTES",
    "BrowserSession",
    "Declined",
    "Door",
    "Guarded",
    "announce",
    "bind",
    "listen",
    "make_app",
    "need",
    "problem_of",
    "read_form",
    "read_json",
    "show_problem",
    "status_of",
    "tenant_of",
]

_HOMES = {
    "Declined": "memkit_http.problems",
    "Door": "memkit_http.door",
    "Guarded": "memkit_http.app",
    "MAX_BODY_BYTES": "memkit_http.app",
    "BrowserSession": "memkit_http.session",
    "announce": "memkit_http.serving",
    "bind": "memkit_http.serving",
    "listen": "memkit_http.serving",
    "make_app": "memkit_http.app",
    "need": "memkit_http.serving",
    "problem_of": "memkit_http.problems",
    "read_form": "memkit_http.reading",
    "read_json": "memkit_http.reading",
    "show_problem": "memkit_http.app",
    "status_of": "memkit_http.problems",
    "tenant_of": "memkit_http.reading",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'memkit_http' has no attribute {name!r}")
