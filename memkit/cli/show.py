"""How results look: rich on a terminal, plain lines elsewhere, JSON where asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from memkit.errors import EmbedderMismatch, GateRefused, InvalidInput, MemkitError, NotAStore, NotFound
from memkit.models import WORDS_NOT_KEPT, MemoryRecord, Op, to_json

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False)

_ACTION_STYLE = {"add": "green", "update": "yellow", "delete": "red", "noop": "dim"}


def exit_code(error: MemkitError) -> int:
    if isinstance(error, GateRefused):
        return 3
    return 2 if isinstance(error, InvalidInput | NotFound | NotAStore | EmbedderMismatch) else 1


def fail(error: MemkitError) -> int:
    """One error, in words, on stderr."""
    if "--json" in sys.argv:
        sys.stderr.write(json.dumps({"error": type(error).__name__, "message": str(error)}, ensure_ascii=False) + "\n")
    else:
        err.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}", soft_wrap=True)
    return exit_code(error)


def plain(value: Any) -> Any:
    """Results as JSON values."""
    if isinstance(value, MemoryRecord | Op):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def as_json(value: Any) -> None:
    sys.stdout.write(to_json(plain(value)) + "\n")


def when(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def visible(text: str) -> str:
    """Text safe to print, in one line: control and direction characters are shown, not obeyed."""
    line = text.replace("\r\n", "\n").replace("\n", " ↵ ")
    return escape("".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in line))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """On a terminal, columns that fit it; elsewhere a line per row, its cells between tabs, never folded or cut."""
    if not sys.stdout.isatty():
        lines = [title] if title else []
        lines += ["\t".join(columns)] if any(columns) else []
        lines += ["\t".join(Text.from_markup(cell).plain.replace("\n", "; ") for cell in row) for row in rows]
        sys.stdout.write("".join(line + "\n" for line in lines))
        return
    view = Table(title=title or None, title_justify="left", header_style="bold", show_lines=False, pad_edge=False)
    for name in columns:
        view.add_column(name, overflow="fold")
    for row in rows:
        view.add_row(*row)
    out.print(view)


def memories(records: Sequence[MemoryRecord], title: str = "") -> None:
    rows = [
        [record.id, visible(record.text), record.kind, visible(record.speaker), when(record.at), str(record.revision)]
        for record in records
    ]
    table(title, ["id", "memory", "kind", "speaker", "said", "rev"], rows)


def action(op: Op) -> str:
    return f"[{_ACTION_STYLE[op.action]}]{op.action.upper()}[/]"


def change(op: Op) -> str:
    """What an op did, in one line."""
    before = visible(op.before.text) if op.before else ""
    after = visible(op.after.text) if op.after else ""
    if op.action == "update" and before != after:
        return f"{before} [dim]→[/] {after}"
    if op.action == "delete":
        return f"[strike]{before}[/]"
    note = WORDS_NOT_KEPT if op.text == WORDS_NOT_KEPT else "nothing to remember"
    return after or before or f"[dim]{note}[/]"


def history(ops: Sequence[Op], title: str = "") -> None:
    rows = [[str(op.seq), when(op.at), action(op), change(op), op.cause, op.op_id] for op in ops]
    table(title, ["seq", "said", "op", "what changed", "cause", "op id"], rows)
