"""`python -m tests.api_page` writes docs/guides/api.md from the signatures and docstrings of what users call.
A test compares the two."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memkit import Config, Memory, errors, results
from memkit.adapters import AdapterSet, GuardPolicy, VLLMHost
from memkit.models import MemoryRecord, Op, Turn
from memkit.ops import GuardLimits
from memkit.principal import Principal, SpaceMemory
from memkit.upkeep import Upkeep

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "api.md"
_HEAD = """# The API

Made from the source by `python -m tests.api_page`; a test keeps it true. `AsyncMemory` has the same verbs, awaitable;
`memory.user("ana")` has those that take a `user_id`, without it.
"""
_ADAPTERS = (
    "publish",
    "promote",
    "canary",
    "shadow",
    "rollback",
    "list",
    "serving",
    "history",
    "verify",
    "shadow_report",
    "gc",
)


def page() -> str:
    parts = [_HEAD, "## Memory\n", _call(Memory, "__init__", "Memory"), _as_it_is(Memory.__init__)]
    for owner, shown in ((Memory, "memory"), (Upkeep, "memory"), (Principal, "principal"), (SpaceMemory, "space")):
        if shown != "memory":
            parts += [f"## {shown.capitalize()}\n", _text(owner)]
        for name, member in vars(owner).items():
            if not name.startswith("_") and inspect.isfunction(member):
                parts += [f"### {shown}.{name}\n", _call(owner, name, name), _text(member)]
    parts.append("## memory.adapters\n")
    for name in _ADAPTERS:
        parts += [f"### memory.adapters.{name}\n", _call(AdapterSet, name, name), _text(getattr(AdapterSet, name))]
    parts += ["### memkit.adapters.VLLMHost\n", _call(VLLMHost, "__init__", "VLLMHost"), _text(VLLMHost)]
    parts.append("## What the verbs return\n")
    values = [one for one in vars(results).values() if inspect.isclass(one) and one.__module__ == results.__name__]
    for value in (*values, MemoryRecord, Op, Turn):
        parts += [f"### {value.__name__}\n", _text(value), _fields(value)]
    parts.append('## Limits\n\n`Memory(..., config={"candidates": 8})`; `adapters={"guard": GuardPolicy(...)}`.\n')
    for value in (Config, GuardLimits, GuardPolicy):
        parts += [f"### {value.__name__}\n", _text(value), _fields(value)]
    parts += ["## Errors\n", _as_it_is(errors)]
    return "\n".join(part for part in parts if part)


def _call(owner: type, name: str, shown: str) -> str:
    node = _node(owner, name)
    words = list(_arguments(node.args))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and name != "__init__" else ""
    call = f"{shown}({', '.join(words)}){returns}"
    if len(call) > 110:
        lines = textwrap.wrap(", ".join(word.replace(" ", "\0") for word in words), 106)
        call = "\n    ".join([f"{shown}(", *lines]).replace("\0", " ") + f"\n){returns}"
    return f"```text\n{call}\n```\n"


def _arguments(given: ast.arguments) -> Iterator[str]:
    """As they are written, without self."""
    places = given.args[1:]
    for arg, default in zip(places, [None] * (len(places) - len(given.defaults)) + given.defaults, strict=True):
        yield _argument(arg, default)
    if given.vararg or given.kwonlyargs:
        yield f"*{_argument(given.vararg, None) if given.vararg else ''}"
    for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(arg, default)
    if given.kwarg:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(arg.annotation)}" if arg.annotation else ""
    return f"{arg.arg}{kind}" + (f" = {ast.unparse(default)}" if default is not None else "")


def _node(owner: type, name: str) -> Any:
    body = _tree(owner).body
    return next(one for one in body if isinstance(one, ast.FunctionDef) and one.name == name)


def _tree(owner: type) -> ast.ClassDef:
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(found, ast.ClassDef)
    return found


def _as_it_is(value: Any) -> str:
    return f"```text\n{inspect.cleandoc(value.__doc__ or '')}\n```\n"


def _text(value: Any) -> str:
    text = inspect.cleandoc(value.__doc__ or "")
    return "" if not text or text.startswith(f"{getattr(value, '__name__', '')}(") else text.replace("<", "&lt;") + "\n"


def _fields(value: type) -> str:
    lines: list[str] = []
    body = _tree(value).body
    for at, node in enumerate(body):
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            after = body[at + 1] if at + 1 < len(body) else None
            said = ast.literal_eval(after.value) if _is_text(after) else ""  # type: ignore[union-attr]
            default = f" = {ast.unparse(node.value)}" if isinstance(node.value, ast.Constant) else ""
            about = f": {' '.join(said.split())}" if said else ""
            lines.append(f"- `{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{default}`{about}")
    return "\n".join([*lines, ""]) if lines else ""


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
