"""The pages of `memkit ui` about one user, as MCP Apps (SEP-1865, protocol 2026-01-26): a host that knows the extension
shows them beside the conversation; others have the tools' results in words. A page is made when a host reads it, is one
file without links, and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp.server.apps import Apps, ResourceCsp
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.mcpserver.resources import FunctionResource

from memkit import __version__
from memkit.errors import InvalidScope, MemkitError
from memkit_mcp.scope import Scope

PAGES = {
    "memories": ("/user", "What is remembered", "All that is remembered of the user now."),
    "said": ("/said", "What was said", "What became of each thing that the user said, and why of some nothing did."),
    "timeline": ("/timeline", "Timeline", "Every change of the memories, before and after."),
    "asked": ("/asked", "What was asked", "Searches, contexts and answers, with their thumbs."),
    "decisions": ("/decisions", "Decisions", "What was said, shown, replied and applied, decision by decision."),
}
_GREETING = f"""<script>
addEventListener("message", function (event) {{
  if (event.source !== parent || !event.data || event.data.id !== 1 || event.data.method) return;
  tell({{method: "ui/notifications/initialized"}});
  new ResizeObserver(function () {{
    tell({{method: "ui/notifications/size-changed", params: {{height: document.documentElement.scrollHeight}}}});
  }}).observe(document.body);
}});
function tell(message) {{ message.jsonrpc = "2.0"; parent.postMessage(message, "*"); }}
tell({{id: 1, method: "ui/initialize", params: {{protocolVersion: "2026-01-26",
  appInfo: {{name: "memkit", version: "{__version__}"}}, appCapabilities: {{}}}}}});
</script>"""
"""Hosts give a page its height once it has greeted them. It sends them nothing that it shows."""


def page_uri(name: str) -> str:
    return f"ui://memkit/{name}"


def offer_pages(scope: Scope) -> Apps:
    apps = Apps()
    # nothing may be loaded or reached: the page has all it shows
    closed = {"ui": {"csp": ResourceCsp(connect_domains=[], resource_domains=[]).model_dump(by_alias=True)}}
    for name, (path, title, about) in PAGES.items():
        resource = FunctionResource.from_function(
            _reader(scope, path), page_uri(name), name=f"page-{name}", title=title, description=about, meta=closed
        )
        apps.add_resource(resource.model_copy(update={"mime_type": "text/html;profile=mcp-app"}))
    return apps


def _reader(scope: Scope, path: str) -> Callable[[], str]:
    def read() -> str:
        from memkit_ui.pages import ShownStore
        from memkit_ui.rendering import Renderer

        try:
            who = scope.tenant
            if who.agent_id is not None:
                raise InvalidScope(
                    "this token speaks for one agent",
                    why="the page would show what other agents keep of the user",
                    fix="use list_memories, or a token of the user",
                )
            if scope.space is not None:
                raise InvalidScope(
                    "a page shows what is remembered of a user, and this server serves a space",
                    fix="use list_memories and search_memory",
                )
            page = Renderer().save(ShownStore(scope.memory, Path("memkit")), path, u=who.user_id)
        except MemkitError as error:
            raise ResourceError(str(error)) from None
        return page.replace("</body>", f"{_GREETING}</body>")

    return read


def show_beside(name: str, apps: Apps | None) -> dict[str, Any]:
    """What a tool says of the page that shows its result."""
    return {} if apps is None else {"meta": {"ui": {"resourceUri": page_uri(name)}}}
