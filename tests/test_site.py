"""The documentation as a site: built strictly, every link leads somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow
_LOADS = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=[\"']?([^\s\"'>]+)|<link\b[^>]*?\bhref=[\"']?([^\s\"'>]+)"
)
_LINK = re.compile(r"<a\b[^>]*?\bhref=[\"']?([^\s\"'>]+)")


def test_the_site_builds_strictly_and_asks_no_other_host(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ".ci/mkdocs.yml", "-d", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=540, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        html = page.read_text(encoding="utf-8")
        loads = [one or other for one, other in _LOADS.findall(html)]
        assert [one for one in loads if re.match(r"(?:[a-z]+:)?//", one)] == [], page.name
        if page.name == "404.html":
            continue
        for to in (*loads, *_LINK.findall(html)):
            path = to.partition("#")[0].partition("?")[0]
            if path and not re.match(r"[a-z]+:", path):
                assert (page.parent / path).exists(), f"{page.name} links to {to}"
    styles = "".join(page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.css"))
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", styles)
