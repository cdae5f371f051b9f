"""It never raises on words: every text of the real sets through the verbs, and what the parsers cost on long ones.

Set MEMKIT_TALKS, MEMKIT_REAL and MEMKIT_LOCOMO: every string in their files that is more than a word. All go through
`add`, `search`, `context` and filters as an app that changes nothing would call them; some through each other
configuration, too. A turn that is parked for an internal error counts as raised. `--full`: all through each.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.backbones._rules_extract import read
from memkit.embedders import make_embedder
from memkit.models import Bank, Turn
from memkit.retrieval import Query
from memkit.retrieval.query import read_query
from memkit.text.clauses import clauses
from memkit.text.names import find_names
from memkit.text.passages import excerpt, sentences, windows
from memkit.text.redact import redactor
from memkit.text.requests import asks_to_forget, named_to_forget
from memkit.text.standing import stands
from memkit.text.times import time_phrases
from memkit.text.words import denies, terms
from tests.bench._table import Row

LEAST, OF_EACH = 25_000, 1_500
"""Texts that the bar asks for; those that go through each configuration beside the default."""
BANK, K, NAMED, FILTERED = 200, 3, 80, 1_000
"""Texts that one user says; hits; characters of a text that are asked for, and that metadata holds."""
LONG, MOST_MS, ROUNDS = 256 * 1024, 1.0, 3
SETS = ("MEMKIT_TALKS", "MEMKIT_REAL", "MEMKIT_LOCOMO")


def says_it_again(messages: Sequence[Mapping[str, str]]) -> str:
    """A model that gives back the end of what it is asked, which is no reply it could be asked for."""
    return messages[-1]["content"][-200:]


def keeps_all(messages: Sequence[Mapping[str, str]]) -> str:
    """A model that writes down every turn as it is, and answers with it."""
    prompt = messages[-1]["content"]
    _, found, said = prompt.partition("NEW turns:")
    if not found:
        return json.dumps({"memories": [1], "answer": prompt[-80:]})
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": said.strip()[-120:], "turn": 1}]})


CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "minilm": {"embedder": "minilm"},
    "multilingual": {"embedder": "multilingual"},
    "the small manager": {"embedder": "minilm", "model": "small"},
    "a model that keeps all": {"model": keeps_all, "mode": "fused"},
    "a model that makes no sense": {"model": says_it_again, "config": {"reasks": 0}},
    "uncovered words": {"keep_turns": "uncovered"},
    "no words, redacted": {"keep_turns": "none", "redact": "all"},
}


def run(*, full: bool = False) -> list[Row]:
    unset = [name for name in SETS if not os.environ.get(name)]
    if unset:
        return [Row(f"{', '.join(unset)} not set: the texts are left out", None, "", "", True), *_cost([])]
    texts = list(dict.fromkeys(_texts()))
    random.Random(8).shuffle(texts)
    rows = [Row("texts", len(texts), "", f">= {LEAST}", len(texts) >= LEAST)]
    rows.append(_row("as it is", texts, {}))
    for name, options in CONFIGURATIONS.items():
        rows.append(_row(name, texts if full else texts[:OF_EACH], options))
    return [*rows, *_cost(texts)]


# ---- words through the verbs -----------------------------------------------------------------------------------------


def _texts() -> Iterator[str]:
    files = [*_files(os.environ["MEMKIT_TALKS"]), *_files(os.environ["MEMKIT_REAL"])]
    for file in [*files, Path(os.environ["MEMKIT_LOCOMO"])]:
        lines = [file.read_text("utf-8")] if file.suffix == ".json" else file.read_text("utf-8").split("\n")
        for line in filter(None, lines):
            yield from _strings(json.loads(line))


def _files(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("*.jsonl"))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value.split()) > 1 or (len(value) > 1 and not value.isascii()):
            yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _row(name: str, texts: Sequence[str], options: Mapping[str, Any]) -> Row:
    raised = Counter[str]()
    calls = 0
    with tempfile.TemporaryDirectory() as folder, Memory(folder + "/s", **options) as memory:
        for number, text in enumerate(texts):
            for call in _calls(memory, f"u{number // BANK}", text, answers=options.get("model") is keeps_all):
                calls += 1
                try:
                    call()
                except Exception as error:
                    raised[f"{type(error).__name__}: {error}"[:80]] += 1
        raised.update(f"parked: {one.detail}"[:80] for one in memory.parked() if one.reason == "internal_error")
    note = "; ".join(f"{count} × {what}" for what, count in raised.most_common(3)) or f"{calls:,} calls"
    return Row(f"exceptions, {name}", raised.total(), "", "0", not raised, note)


def _calls(memory: Memory, user: str, text: str, *, answers: bool) -> Iterator[Callable[[], object]]:
    yield lambda: memory.add(text, user_id=user, metadata={"said": text[:FILTERED]})
    yield lambda: memory.search(text, user_id=user, k=K)
    yield lambda: memory.search(text[:NAMED], user_id=user, k=K, filters={"metadata.said": text[:FILTERED]})
    yield lambda: memory.context(text, user_id=user, max_tokens=300)
    if answers:
        yield lambda: memory.answer(text, user_id=user)


# ---- what long ones cost ---------------------------------------------------------------------------------------------


def _cost(texts: Sequence[str]) -> Iterator[Row]:
    """The dearest parser of each kind of text. The least of `ROUNDS` versions: what was read is
    remembered, and others use the processor."""
    readers = _readers()
    for kind, make in _kinds(texts).items():
        spent: dict[str, float] = {}
        for name, reader in readers.items():
            spent[name] = min(_cpu_ms(reader, make(number)) for number in range(ROUNDS)) / (LONG / 1024)
        dearest = max(spent, key=lambda name: spent[name])
        value, note = spent[dearest], f"{dearest}; all {len(spent)} together {sum(spent.values()):.2f}"
        yield Row(
            f"the dearest parser on 256 kB, {kind}", value, "CPU-ms per kB", f"<= {MOST_MS}", value <= MOST_MS, note
        )


def _cpu_ms(reader: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    reader(text)
    return (time.process_time() - begun) * 1e3


def _kinds(texts: Sequence[str]) -> Mapping[str, Callable[[int], str]]:
    """Kind → a text of 256 kB, another for each number."""
    latin = [text for text in texts if text.isascii()] or ["I moved to Lyon last May, and my sister stayed in Ghent. "]
    other = [text for text in texts if not text.isascii()] or ["Я переехал в Казань в мае, а сестра осталась. "]
    unspaced = [text for text in texts if len(text) > 12 and " " not in text] or ["昨日は大阪で友達と会いました。"]
    return {
        "English": lambda number: _long(latin, number, " "),
        "other languages": lambda number: _long(other, number, " "),
        "no blanks": lambda number: _long(unspaced, number, ""),
        "digits and marks": lambda number: _long([f"{number}/05/2023, 12:30; 4-5 (May) [a'b] "], number, ""),
        "one word": lambda number: _long([f"x{number}"], number, ""),
    }


def _long(pieces: Sequence[str], number: int, between: str) -> str:
    order, out, size = random.Random(number), list[str](), 0
    while size < LONG:
        out.append(order.choice(pieces))
        size += len(out[-1].encode()) + len(between)
    return between.join(out)


def _readers() -> Mapping[str, Callable[[str], object]]:
    now, embedder, redact = datetime(2026, 5, 4, tzinfo=UTC), make_embedder("hash"), redactor("all")
    assert redact is not None

    def turn(text: str) -> Turn:
        return Turn("t", "i", Bank("u"), 0, "user", text, now)

    return {
        "words": terms,
        "times": lambda text: time_phrases(text, now.date()),
        "sentences": sentences,
        "windows": windows,
        "clauses": clauses,
        "excerpt": lambda text: excerpt(text, {"lyon", "sister"}, 240),
        "negation": denies,
        "names": find_names,
        "what stands": stands,
        "requests to forget": lambda text: (asks_to_forget(text), named_to_forget(text)),
        "redactors": redact,
        "the rules": lambda text: read(turn(text)),
        "a question": lambda text: read_query(Query(text, now=now)),
        "the hash embedder": lambda text: embedder.embed([text]),
    }
