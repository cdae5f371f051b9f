"""Code that no command, public name or test reaches: `python -m tests.unreached` lists it.

Reached is what is named (as a name, an attribute, a string or a keyword) in reached code. At the start that is what
modules do when they are imported, what is exported or decorated, what the tests and the examples name, and what Python
itself calls. Names stand for all things of that name, so the list errs towards silence.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("memkit", "memkit_train", "integrations")

_Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_QUIET = """property dataclass staticmethod classmethod contextmanager asynccontextmanager cache lru_cache
cached_property no_grad overload override wraps runtime_checkable setter"""
"""Decorators that hand a function to nobody who would call it."""
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Found:
    """One function, method or class, and the words in its own code (those of its inner definitions apart)."""

    name: str
    where: str
    words: set[str]
    inner: list[Found] = field(default_factory=list)
    called: bool = False
    """By somebody else: a decorator took it, or it overrides a method of a framework's class."""


def _words(nodes: list[ast.AST]) -> set[str]:
    found: set[str] = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found |= {*node.name.split("."), node.asname or ""}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            found |= set(_WORD.findall(node.value))
        nodes += [child for child in ast.iter_child_nodes(node) if not isinstance(child, _Definition)]
    return found


def _definitions(owner: ast.AST, path: Path, method: bool = False, foreign: bool = False) -> Iterator[Found]:
    nodes = list(ast.iter_child_nodes(owner))
    while nodes:
        node = nodes.pop()
        if isinstance(node, _Definition):
            own: list[ast.AST] = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _Definition)]
            if ast.get_docstring(node) is not None:
                own.remove(node.body[0])
            one = Found(node.name, f"{path.relative_to(ROOT)}:{node.lineno}", _words(own))
            one.called = (method and foreign) or not _plain(node)
            one.inner = list(_definitions(node, path, isinstance(node, ast.ClassDef), _is_foreign(node)))
            yield one
        else:
            nodes += list(ast.iter_child_nodes(node))


def _is_foreign(node: ast.AST) -> bool:
    """Whether a class builds on one that is not ours."""
    if not isinstance(node, ast.ClassDef):
        return False
    bases = {
        part.id if isinstance(part, ast.Name) else part.attr
        for base in node.bases
        for part in ast.walk(base)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    return bool(
        bases - _ours() - {"Protocol", "Enum", "StrEnum", "Generic", "NamedTuple", "TypedDict", "ABC", "Exception"}
    )


def _files(package: str) -> list[Path]:
    """What a distribution of its own tests itself with is no code of the house."""
    return sorted(path for path in (ROOT / package).rglob("*.py") if path.parent.name != "tests")


@cache
def _ours() -> set[str]:
    return {
        node.name
        for package in PACKAGES
        for path in _files(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }


def _plain(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    heads = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return all(
        (head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "")) in _QUIET.split() for head in heads
    )


def unreached() -> list[str]:
    waiting: list[Found] = []
    named: set[str] = set()
    for package in PACKAGES:
        for path in _files(package):
            module = ast.parse(path.read_text())
            body: list[ast.AST] = [
                node for node in module.body if not isinstance(node, (*_Definition, ast.Import, ast.ImportFrom))
            ]
            named |= _words(body)
            waiting += _definitions(module, path)
    for folder in ("tests", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            module = ast.parse(path.read_text())
            named |= _words(list(ast.walk(module)))
    named |= set(_WORD.findall((ROOT / "pyproject.toml").read_text()))
    while True:
        now = [one for one in waiting if _reached(one, named)]
        if not now:
            break
        waiting = [one for one in waiting if one not in now]
        for one in now:
            named |= one.words
            waiting += one.inner
    return sorted(f"{one.where} {one.name}" for one in waiting)


def _reached(one: Found, named: set[str]) -> bool:
    return one.name in named or one.name.startswith("__") or one.called


if __name__ == "__main__":
    left = unreached()
    print("\n".join(left) or "all code is reached")
    sys.exit(bool(left))
