"""Memory for clients of the OpenAI and Anthropic APIs, in one line, and a proxy for apps in any language.

    from memkit_openai import wrap
    client = wrap(OpenAI(), memory, user_id="ana")

Memories go into the request only, never into the app's own history, and what the user says is learned after the reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_openai.proxy import proxy_app
    from memkit_openai.serving import serve_proxy
    from memkit_openai.wrapping import trace_id, wrap

__all__ = ["proxy_app", "serve_proxy", "trace_id", "wrap"]

_HOMES = {
    "proxy_app": "memkit_openai.proxy",
    "serve_proxy": "memkit_openai.serving",
    "trace_id": "memkit_openai.wrapping",
    "wrap": "memkit_openai.wrapping",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'memkit_openai' has no attribute {name!r}")
