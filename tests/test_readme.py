"""The README and the guides are run as they stand, the network out of reach: their Python blocks in order, in one
program a page, and their commands; what they print is compared with what the page says it does."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
README, GUIDES = ROOT / "README.md", ROOT / "docs" / "guides"
API = GUIDES / "api.md"
PAGES = [README, *sorted(page for page in GUIDES.glob("*.md") if page != API)]
_BLOCK = re.compile(
    r"(?:with `(?P<file>[\w.]+)`:\n\n)?(?P<skip><!-- skip: [^>]*-->\n)?```(?P<kind>\w+)\n(?P<body>.*?)```\n"
    r"(?:\n```text\n(?P<prints>.*?)```\n)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    kind: str
    body: str
    skipped: bool
    file: str
    prints: str | None
    """What the page says that it prints."""

    @property
    def commands(self) -> list[list[str]]:
        lines = (line.partition(" #")[0].strip() for line in self.body.splitlines())
        return [shlex.split(line) for line in lines if line.startswith(("memkit ", "memkit-train "))]


def blocks(page: Path) -> Iterator[Block]:
    for found in _BLOCK.finditer(page.read_text()):
        yield Block(found["kind"], found["body"], bool(found["skip"]), found["file"] or "", found["prints"])


def run(block: Block, space: dict[str, Any], page: Path) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block.body, page.name, "exec"), space)  # noqa: S102 - that is the test
    return said.getvalue()


def command(words: list[str]) -> tuple[int, str]:
    if words[0] == "memkit":
        from memkit.cli.app import app
    else:
        pytest.importorskip("trl", reason="needs the extra train")
        from memkit_train.cli.app import app
    done = CliRunner().invoke(app, words[1:], prog_name=words[0])
    return done.exit_code, f"{done.output}\n{done.exception or ''}"


def expected(prints: str) -> re.Pattern[str]:
    """`…` stands for any characters of its line."""
    return re.compile("[^\n]*".join(map(re.escape, prints.strip().split("…"))))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    space: dict[str, Any] = {}
    try:
        for block in blocks(page):
            if block.kind == "yaml":
                Path(block.file).write_text(block.body)
            elif block.kind == "python" and not block.skipped:
                said = run(block, space, page).strip()
                assert block.prints is None or expected(block.prints).fullmatch(said), said
                assert block.prints is not None or not said, f"a block prints what the page does not show: {said}"
            elif block.kind == "console":
                for words in block.commands:
                    code, output = command([*words, "--help"] if block.skipped else words)
                    assert code == 0, f"{words}: {output}"
    finally:
        if "memory" in space:
            space["memory"].close()


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, GUIDES / "add.md"], ids=lambda page: page.name)
def test_what_needs_a_model_runs_with_a_stand_in(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of such a block is a memory of its own; the endpoint is a stub, the checkpoint a tiny one."""
    pytest.importorskip("peft", reason="needs the extra local")
    from memkit import Memory
    from tests.stub_server import StubServer
    from tests.tiny_models import tiny_checkpoint

    monkeypatch.chdir(tmp_path)
    local = f"hf:{tiny_checkpoint(tmp_path / 'model')}"
    opened: list[Memory] = []

    def stand_in(path: str, *, model: Any) -> Memory:
        named = model if isinstance(model, dict) else {"default": model}
        meant = {role: local if name.startswith("hf:") else name for role, name in named.items()}
        hosted = any(name.startswith("openai:") for name in meant.values())
        opened.append(Memory(path, model=meant, **({"base_url": api.url, "api_key": "unused"} if hosted else {})))
        return opened[-1]

    (block,) = [
        one
        for one in blocks(page)
        if one.skipped and one.kind == "python" and "model=" in one.body and "Memory(" in one.body
    ]
    with StubServer(reply='{"facts": []}') as api:
        run(block, {"Memory": stand_in}, page)
        for memory in opened:
            assert memory.add("I live in Oslo.", user_id="ana").status in ("applied", "parked")
            memory.close()
    assert len(opened) == 3


def test_the_pages_show_enough_to_judge_by() -> None:
    assert len(PAGES) >= 8
    ran = {page.name: sum(one.kind == "python" and not one.skipped for one in blocks(page)) for page in PAGES}
    assert ran["README.md"] >= 3
    assert sum(ran.values()) >= 20, ran
    assert any(block.prints for block in blocks(README)), "the quickstart prints something"


def test_the_api_page_is_what_the_source_says() -> None:
    from tests.api_page import page

    assert API.read_text() == page(), "python -m tests.api_page"


@pytest.mark.parametrize(
    "page",
    sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"}),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_figures_name_benchmarks_that_exist() -> None:
    from tests.bench.__main__ import names

    named = re.findall(r"python -m tests\.bench ([\w-]+)", README.read_text())
    assert len(named) >= 6
    assert set(named) <= set(names())


def test_every_example_is_listed() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    assert [path.name for path in (ROOT / "examples").glob("*.py") if path.name not in listed] == []
