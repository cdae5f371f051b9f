"""`memkit ui`: a store as a person sees it. Needs `pip install "memkit[ui]"`.

Pages are made on the server; one stylesheet, one small script that no page needs, nothing from other hosts. Looking
changes nothing; what changes something is a form that carries a seal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_ui.app import ui_app
    from memkit_ui.serving import serve_ui

__all__ = ["serve_ui", "ui_app"]

_HOMES = {"serve_ui": "memkit_ui.serving", "ui_app": "memkit_ui.app"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'memkit_ui' has no attribute {name!r}")
