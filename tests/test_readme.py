"""The README is run as it stands: its Python blocks, in order, in one program, with the network out of reach."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(r"(?P<skip><!-- skip: [^>]*-->\n)?```python\n(?P<code>.*?)```", re.DOTALL)


def test_every_python_block_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [found["code"] for found in _BLOCK.finditer(README.read_text()) if not found["skip"]]
    assert len(blocks) >= 3
    space: dict[str, object] = {}
    for code in blocks:
        exec(compile(code, "README.md", "exec"), space)  # noqa: S102 - that is the test
    space["memory"].close()  # type: ignore[attr-defined]
    said = capsys.readouterr().out
    assert "User adopted a dog named Buddy and another dog named Scout." in said
    assert "Oslo" in said
