"""A store as it is after a while: many users, some of whom nothing became of, some whose words try to run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memkit import Memory
from memkit.errors import ModelUnavailable

HOSTILE = (
    "<script>document.title='owned'</script>",
    "</script></textarea></title><img src=x onerror=\"document.title='owned'\">",
    "\u202eevil txt.exe\u2066 <b>bold</b> {{ 7*7 }} {% raw %}",
    "javascript:document.title='owned' \" onmouseover=\"document.title='owned'\" '",
)
_THINGS = ("kayak", "tent", "cello", "bicycle", "telescope", "stove", "camera", "piano", "drone", "sewing machine")
_TOWNS = ("Oslo", "Bergen", "Lyon", "Porto", "Graz", "Cork", "Turin", "Ghent", "Malmö", "Brno")
_SMALL = ("lol ok whatever", "Hi there! How are you today?", "thanks, bye", "What do you think about it?")
BEGAN = datetime(2026, 9, 1, 9, tzinfo=UTC)


def lines(user: int, count: int) -> Iterator[str]:
    """What one user says."""
    for n in range(count):
        town, thing = _TOWNS[(user + n // 10) % 10], _THINGS[(user * 3 + n) % 10]
        yield (
            f"I live in {town}."
            if n == 0
            else f"I moved to {town} last week."
            if n % 10 == 0
            else f"I bought a {thing} number {n} for {10 + n} euros."
            if n % 3 == 1
            else f"My friend Kim{n} from {town} likes the {thing}."
            if n % 3 == 2
            else _SMALL[(user + n) % 4]
        )


def fill(path: Path, users: int, turns: int) -> Path:
    """The last user is hostile, the first one parked once, rated twice and never served after."""
    with Memory(path, config={"max_message_bytes": 2_000_000}) as memory:
        for user in range(users):
            name = f"user-{user:03d}"
            for n, text in enumerate(lines(user, turns)):
                at = BEGAN + timedelta(days=n, minutes=user)
                memory.add(text, user_id=name, at=at, session_id=f"day {n}")
            hits = memory.search("where do I live?", user_id=name)
            memory.observe(hits.trace_id, f"You live in {_TOWNS[user % 10]}.", user_id=name)
            memory.feedback(hits.trace_id, user_id=name, label="down" if user % 3 else "up")
        for text in HOSTILE:
            memory.add(f"I own a boat called {text}.", user_id=text, session_id=text, infer=False)
        memory.add("word " * 200_000, user_id="a million letters", infer=False)
        memory.search(HOSTILE[0], user_id=HOSTILE[0])

    def away(_: object) -> str:
        raise ModelUnavailable("the model is away")

    with Memory(path, model=away) as memory:
        memory.add("I keep bees behind the house.", user_id="user-000", at=BEGAN)
    return path


def publish_two(store: Path, work: Path) -> list[str]:
    """Two adapters of the small manager in the store's registry: as it ships, and one that leaves everything."""
    from safetensors.numpy import load_file, save_file

    from memkit.adapters.hosts.small import as_case
    from memkit.adapters.manifest import build_adapter
    from memkit.adapters.probe import Probe, ProbeCase, write_probe
    from memkit.adapters.registry import Registry
    from memkit.backbones.small import SmallBackbone
    from memkit.backbones.small.backbone import SHIPPED
    from memkit.backbones.small.encoder import TextPair
    from memkit.backbones.small.features import OF_CLAUSE

    digests: list[str] = []
    registry = Registry(store / "adapters")
    for shift in (1.0, 8.0):
        folder = work / f"adapter-{shift:g}"
        source = folder / "source"
        shutil.copytree(SHIPPED, source)
        heads = load_file(source / "heads.safetensors")
        heads["clause.outer.bias"] = heads["clause.outer.bias"] + [shift, 0, 0]
        save_file({name: value.astype("float32") for name, value in heads.items()}, source / "heads.safetensors")
        backbone = SmallBackbone(weights=source)
        pairs = [TextPair("clause", text, text, [0.0] * OF_CLAUSE) for text in ("I live in Oslo.", "lol ok")]
        cases = tuple(
            ProbeCase(prompt_ids=as_case(pair), token_ids=(0, 1), logprobs=(min(one[0], 0), min(one[1], 0)))
            for pair, one in zip(pairs, backbone.score("", pairs), strict=True)
        )
        write_probe(source, Probe(cases=cases))
        manifest = {
            "kind": "lora",
            "created_at": f"2026-11-2{len(digests)}T00:00:00Z",
            "roles": ["extractor", "manager"],
            "base": {"id": backbone.identity, "digest": backbone.base_digest},
            "text": {"tokenizer_digest": "minilm", "template_digest": "none", "prompt_hashes": {}},
            "gates": [{"name": "utility", "passed": True, "value": 0.12, "bar": "lower end of the interval > 0"}],
        }
        build_adapter(source, folder / "built", manifest)
        digests.append(registry.publish(folder / "built"))
    registry.close()
    return digests


def run_record(folder: Path, digest: str) -> None:
    """A run as `memkit-train` leaves it, in short."""
    folder.mkdir(parents=True)
    checks = [
        {"name": "utility", "passed": True, "bar": "> 0", "why": "+0.12 [0.04, 0.2]"},
        {"name": "growth", "passed": False, "bar": "≤ 1.2", "why": "1.31"},
    ]
    actions = {"candidate": {"add": 40, "update": 22, "noop": 38}, "parent": {"add": 60, "update": 5, "noop": 35}}
    record = {
        "started_at": "2026-11-21T03:00:00+00:00",
        "outcome": "published",
        "digest": digest,
        "stages": {
            "collect": {"counts": {"users": 200, "labels": 200, "rows": 640}},
            "evaluate": {"verdict": {"outcome": "passed", "checks": checks}, "actions": actions},
        },
    }
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
