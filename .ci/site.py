"""What turns the repository's Markdown into a site: a few pages from outside docs/ join it, links to them are put
right, and a link to any other file of the repository becomes its path. A link that leads nowhere fails the build."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
JOINING = {
    "README.md": "overview.md",
    "examples/README.md": "examples.md",
    "tests/bench/RESULTS.md": "results.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""File of the repository → page of the site."""
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*(?:\n[^\]\n]*)?)\]\((?P<to>[^)\s]+)\)")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def on_config(config: Any, **_: Any) -> Any:
    """Guides that the navigation does not order stand at the end; decisions are in the order of their numbers."""
    parts = {name: pages for part in config.nav if isinstance(part, dict) for name, pages in part.items()}
    for name, folder in (("Guides", "guides"), ("Decisions", "decisions")):
        found = [f"{folder}/{path.name}" for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
        parts[name].extend(page for page in found if page not in parts[name])
    return config


def on_files(files: Files, config: Any, **_: Any) -> Files:
    for source, page in JOINING.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    origin = {target: source for source, target in JOINING.items()}
    here = origin.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def put_right(found: re.Match[str]) -> str:
        text, to = found["text"], found["to"]
        if re.match(r"[a-z]+:|#", to):
            return found[0]
        path, _, anchor = to.partition("#")
        source = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        if not (ROOT / source).exists():
            raise PluginError(f"{here} links to {to}, and there is no {source}")
        target = source.removeprefix("docs/") if source.startswith("docs/") else JOINING.get(source)
        if target is None or not (ROOT / source).is_file():
            return text if source in text else f"{text} (`{source}`)"
        relative = posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")
        return f"[{text}]({relative}{'#' + anchor if anchor else ''})"

    parts = _CODE.split(markdown)
    return "".join(part if n % 2 else _LINK.sub(put_right, part) for n, part in enumerate(parts))
