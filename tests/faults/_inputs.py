"""Malformed replies, hostile ids, damaged files, and strings that make readers slow."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.errors import BadReply, InvalidInput, MemkitError
from memkit.retrieval import parse_context
from memkit.roles import Extractor
from memkit.roles.loose_json import read_json
from memkit.roles.recalled import strip_recalled
from memkit.text.passages import sentences
from memkit.text.redact import redactor
from memkit.text.requests import asks, asks_to_forget, named_to_forget
from memkit.text.standing import stands
from memkit.text.words import denies, terms
from tests.faults._tally import Tally
from tests.mutators import mutations

_ID_PARTS = (
    *"'\"*%_\\;\t\n(Aaé😀#?&= ",
    *("\u202e", "\u0430", "e\u0301", "\u200b", "\x00", "\ud800", "--", "/*", "*/", "../", "${x}", "{{x}}", "[]", "{}"),
    *("' OR 'a'='a", "' OR 1=1 --", "'; DROP TABLE turns; --", "NULL", "true", "0", "-1", "<script>", "user_id", "$eq"),
    "x" * 500,
    "x" * 520,
)


_TWO = '{"operations": [{"op": "ADD", "text": "Ana has a car."}, {"op": "ADD", "text": "Ana has a dog."}]}'


class _Saying:
    """A model that says one thing, and keeps nothing where it is asked about one fact."""

    reply = ""

    def __call__(self, messages: list[dict[str, str]]) -> str:
        return '{"operations": []}' if "NEW fact" in messages[-1]["content"] else self.reply


def malformed_replies(count: int, seed: int) -> Tally:
    """A turn whose model says anything is applied or parked, and its words are there."""
    tally, saying = Tally(seed), _Saying()
    with tempfile.TemporaryDirectory() as folder:
        limits = {"workers": 0, "reasks": 0}
        split = Memory(Path(folder) / "split", model=saying, mode="split", config=limits)
        fused = Memory(Path(folder) / "fused", model=saying, mode="fused", config=limits)
        for one in mutations(count, seed):
            memory, user, text = split if one.shape.role == "extractor" else fused, f"u{one.number}", "I keep bees."
            if memory is fused:
                saying.reply = _TWO
                memory.add("I have a car and a dog.", user_id=user)
            saying.reply = one.reply
            tally.tried += 1
            what = f"reply {one.number} ({one.mutator}, {one.shape.name})"
            try:
                result = memory.add([text, "And a flat in Oslo."], user_id=user)
                tally.count(result.status)
                state = memory._runtime.journal.intake(result.trace_id)
                if state is None or state.intake.turns[0].text != text or result.status == "pending":
                    tally.broken.append(f"{what}: the turn is {result.status}")
            except Exception as error:
                tally.broken.append(f"{what}: {type(error).__name__}: {error}")
        for memory in (split, fused):
            tally.broken += [f"the doctor finds {one.code}" for one in memory.doctor()]
            memory.close()
    if not (tally.counts.get("applied") and tally.counts.get("parked")):
        tally.broken.append("replies were all applied, or all parked: the mutations do not reach the parser")
    return tally


def make_ids(count: int, rng: random.Random) -> list[str]:
    return list(dict.fromkeys("".join(rng.choices(_ID_PARTS, k=rng.randint(1, 3))) for _ in range(count * 2)))[:count]


def hostile_ids(count: int, seed: int) -> Tally:
    """Every verb with an id made of what breaks filters, paths and quotes: own rows alone."""
    tally, rng = Tally(seed), random.Random(seed)
    ids = make_ids(count, rng)
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "s", config={"workers": 0}) as memory:
        owners: dict[str, str] = {}
        for number, one in enumerate(ids):
            tally.tried += 1
            try:
                memory.add(f"The secret word is canary{number}.", user_id=one, infer=False)
                owners[one] = f"canary{number}."
            except InvalidInput:
                tally.count("refused")
            except Exception as error:
                tally.broken.append(f"id {one!r}: {type(error).__name__}: {error}")
        memory.flush()
        if len(owners) < tally.tried / 2:
            tally.broken.append(f"only {len(owners)} ids were let in: the others were tried at nothing")
        for one, word in owners.items():
            ways: Mapping[str, Callable[[], list[str]]] = {
                "list": lambda one=one: [record.text for record in memory.list(user_id=one)],
                "search": lambda one=one: [hit.text for hit in memory.search("secret word", user_id=one, k=5)],
                "history": lambda one=one: [op.text or "" for op in memory.history(user_id=one)],
                "context": lambda one=one: [
                    item.text for item in parse_context(memory.context("secret word", user_id=one))
                ],
                "filter": lambda one=one: [
                    record.text for record in memory.list(user_id=one, filters={"speaker": {"$in": ["", one]}})
                ],
            }
            for name, ask in ways.items():
                found = ask()
                if len(found) != 1 or word not in found[0]:
                    tally.broken.append(f"id {one!r}, {name}: {found[:2]}")
        gone = [one for place, one in enumerate(owners) if place % 7 == 0]
        for one in gone[:20]:
            memory.erase(user_id=one) if len(one) % 2 else memory.delete_all(user_id=one)
        for one, word in owners.items():
            texts = [record.text for record in memory.list(user_id=one)]
            if (one in gone[:20]) != (not texts) or (texts and word not in texts[0]):
                tally.broken.append(f"id {one!r}: {texts} after others were deleted")
    return tally


# ---- damage --------------------------------------------------------------------------------------------------------


def model(_: list[dict[str, str]]) -> str:
    return '{"operations": [{"op": "ADD", "id": null, "text": "Ana likes tea number one.", "turn": 1}]}'


def open_store(path: Path) -> Memory:
    return Memory(path, model=model, mode="fused", config={"workers": 0})


def make_store(path: Path) -> None:
    with open_store(path) as memory:
        for number in range(12):
            user = ("ana", "bob")[number % 2]
            memory.add(f"The train leaves from platform {number}.", user_id=user, infer=number % 3 > 0)
        memory.search("platform", user_id="ana")
        memory.flush()


def damaged_stores(count: int, seed: int) -> Tally:
    """Any file of a store is damaged anywhere: each verb answers rightly or raises an error of ours, and what is wrong
    is told."""
    tally, rng = Tally(seed), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, copy = Path(folder) / "whole", Path(folder) / "copy"
        make_store(whole)
        with open_store(whole) as memory:
            right = _answers(memory)
        for number in range(count):
            shutil.copytree(whole, copy)
            what = f"round {number}: {_damage(copy, rng)}"
            tally.tried += 1
            try:
                with open_store(copy) as memory:
                    found = _answers(memory)
                    wrong = [one for one, good in zip(found, right, strict=True) if one not in (good, MemkitError)]
                    told = memory.doctor()
                    tally.count("told" if told else "harmless")
                    if wrong and not told:
                        tally.broken.append(f"{what}: a wrong answer, and nothing told")
                    memory.stats()
                    memory.add("I keep bees.", user_id="carl", infer=False)
            except MemkitError:
                tally.count("refused")
            except Exception as error:
                tally.broken.append(f"{what}: foreign {type(error).__name__}: {error}")
            shutil.rmtree(copy)
    if count >= 100 and not all(tally.counts.get(kind) for kind in ("told", "harmless", "refused")):
        tally.broken.append(f"damage comes to one thing alone: {tally.counts}")
    return tally


def _damage(path: Path, rng: random.Random) -> str:
    file = rng.choice(sorted(file for file in path.rglob("*") if file.is_file()))
    raw = bytearray(file.read_bytes())
    at = rng.randrange(len(raw)) if raw else 0
    kind = rng.choice(["flip", "zero", "cut", "gone"])
    match kind:
        case "flip" if raw:
            raw[at] ^= 1 << rng.randrange(8)
        case "zero":
            raw[at : at + 64] = bytes(len(raw[at : at + 64]))
        case _:
            del raw[at:]
    file.write_bytes(raw)
    if kind == "gone":
        file.unlink()
    return f"{kind} {file.relative_to(path)} at {at}"


def _answers(memory: Memory) -> list[Any]:
    """What each verb says; `MemkitError` where it raises an error of ours."""
    asks: list[Callable[[], Any]] = []
    for user in ("ana", "bob"):
        asks += [
            lambda user=user: [record.text for record in memory.list(user_id=user)],
            lambda user=user: sorted(hit.text for hit in memory.search("platform", user_id=user, k=50)),
            lambda user=user: [op.text for op in memory.history(user_id=user)],
            lambda user=user: [one["reply"] for one in memory.decisions(user_id=user)],
        ]
    found: list[Any] = []
    for ask in asks:
        try:
            found.append(ask())
        except MemkitError:
            found.append(MemkitError)
    return found


# ---- time ----------------------------------------------------------------------------------------------------------

_WORST: Mapping[str, Callable[[int], str]] = {
    "[": lambda n: "[" * n,
    '{"a":': lambda n: '{"a":' * (n // 5),
    '"\\': lambda n: '"' + "\\" * (n - 1),
    "a": lambda n: "a" * n,
    "blanks": lambda n: " " * n,
    "lines": lambda n: "\n" * n,
    "please": lambda n: "please " * (n // 7),
    "ok,": lambda n: "ok, " * (n // 4),
    "digits": lambda n: "1234 " * (n // 5),
    "marks": lambda n: "e" + "\u0301" * (n // 2),
    "fences": lambda n: "<<memkit:memories aaaaaaaa>>\n" * (n // 29),
    "@": lambda n: "a.b-c@" * (n // 6),
    "I am": lambda n: "I am allergic to " * (n // 17),
    "about": lambda n: "everything I said about " * (n // 24),
    "fence": lambda n: "```json\n" * (n // 8),
}
_READERS: Mapping[str, Callable[[str], object]] = {
    "read_json": read_json,
    "strip_recalled": strip_recalled,
    "sentences": sentences,
    "terms": terms,
    "denies": denies,
    "asks": asks,
    "asks_to_forget": asks_to_forget,
    "named_to_forget": named_to_forget,
    "stands": stands,
    "redact": redactor("all") or str,
    "extractor": lambda text: _parse(text),
}
_EXTRACTOR = Extractor("", "json")


def _parse(text: str) -> object:
    from tests.roles.test_replies import PROMPTS

    try:
        return _EXTRACTOR.parse(text, PROMPTS["extractor"])
    except BadReply:
        return None


def slow_strings() -> tuple[float, str]:
    """The worst ratio of CPU seconds per kB at 256 kB over those at 16 kB, and who is slow at what. What takes less
    than a few milliseconds is not told apart from noise."""
    worst, name = 0.0, ""
    for reader_name, reader in _READERS.items():
        for string_name, make in _WORST.items():
            small = min(_cpu(reader, make(16_384)) for _ in range(3)) / 16
            large = min(_cpu(reader, make(262_144)) for _ in range(2)) / 256
            ratio = large / max(small, 2e-5)
            if ratio > worst:
                worst, name = ratio, f"{reader_name} of {string_name}: {large * 1e3:.3f} ms per kB"
    return worst, name


def _cpu(reader: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    reader(text)
    return time.process_time() - start
