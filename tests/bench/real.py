"""Real words: what a memory without a model finds again of what people said, beside the same turns stored raw, BM25
and mem0.

Set MEMKIT_TALKS (the folder of the talks) and MEMKIT_LOCOMO; what is not set is left out, in a row that says so.
Evidence counts as found only where the served text holds the turn's words or a gold form. What changes what was said
before is `real-changes`; whether anything raises, `real-texts`; what was ended, `real-canaries`; cost, `real-load`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import _real_rivals as rivals
from tests.bench import _real_sets as sets
from tests.bench._peer import PeerMissing
from tests.bench._real_talks import System, Talk, Tally, auc, precision, share, talks, tally, told
from tests.bench._table import Row
from tests.memory.test_standing import ASKED

EMBEDDERS = ("hash", "minilm", "multilingual")
MESSAGES = Path(__file__).parents[1] / "data" / "messages.json"


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    if is_set("MEMKIT_TALKS", rows):
        found = talks()
        rows += _talks("English", [one for one in found if one.english], (95, 86, 15))
        rows += _talks("other languages", [one for one in found if not one.english], (90, 84, None))
        rows += [_first_messages(found), _standing(found)]
    rows += [_messages("hash", 31), _messages("minilm", 36), _messages("multilingual", 36)]
    if is_set("MEMKIT_LOCOMO", rows):
        rows += _locomo()
    place = sets.rank_at_the_end_of_a_long_turn("hash")
    rows.append(Row("a fact at the end of a turn of 4,000 tokens: its rank", place, "", "<= 3", place <= 3))
    lost = sets.displaced("hash")
    rows.append(Row("facts of the user that planted turns displace, of 40", lost, "", "0", lost == 0))
    return rows


def is_set(name: str, rows: list[Row]) -> bool:
    if os.environ.get(name):
        return True
    rows.append(Row(f"{name} is not set: its rows are left out", None, "", "", True))
    return False


def missing(name: str, why: PeerMissing | OSError) -> Row:
    return Row(f"{name}: could not be asked", None, "", "reported", True, str(why)[:120])


# ---- talks -----------------------------------------------------------------------------------------------------------


def _talks(name: str, chosen: list[Talk], bars: tuple[int, int, int | None]) -> list[Row]:
    rows: list[Row] = []
    tallies: dict[str, Tally] = {}
    for system, run in _systems().items():
        try:
            found = tallies[system] = tally(run, chosen)
        except (PeerMissing, OSError) as error:
            rows.append(missing(f"talks, {name}, {system}", error))
            continue
        is_judged = system == "default, minilm"
        values = (share(found.evidence), share(found.gold), share(found.stale))
        for what, value, bar, sign in zip(
            ("evidence@10", "gold in context(300)", "only stale in it"), values, bars, (1, 1, -1), strict=True
        ):
            text = "" if bar is None or not is_judged else f"{'>=' if sign > 0 else '<='} {bar}"
            ok = not text or bar is None or sign * value >= sign * bar
            rows.append(Row(f"talks, {name}, {system}: {what}", value, "%", text, ok, f"n={len(found.evidence)}"))
        apart = auc(found.answered, found.empty)
        text = ">= .75" if is_judged and name == "English" else ""
        rows.append(Row(f"talks, {name}, {system}: abstain AUC", apart, "", text, not text or apart >= 0.75))
        if system not in rivals.NAMES:
            rows += _precision(f"talks, {name}, {system}", found, is_judged)
    rows += [_not_below(name, f"default, {one}", tallies, (f"raw, {one}", rivals.BM25)) for one in EMBEDDERS]
    if name != "English":
        rows += [_by_language(one, tallies) for one in ("minilm", "multilingual")]
    return rows


def _systems() -> Mapping[str, System]:
    out = {name: rivals.told_to(name) for name in rivals.NAMES}
    for embedder in EMBEDDERS:
        out[f"raw, {embedder}"] = told(embedder, infer=False)
        out[f"default, {embedder}"] = told(embedder)
    return out


def _not_below(name: str, ours: str, tallies: Mapping[str, Tally], others: Sequence[str]) -> Row:
    """By how many questions the worst row falls below what stands beside it."""
    worst, where = 0, "n=3 rows beside " + " and ".join(others)
    for other in others:
        one, beside = tallies[ours], tallies[other]
        for what, less in (
            ("evidence", sum(beside.evidence) - sum(one.evidence)),
            ("gold", sum(beside.gold) - sum(one.gold)),
            ("only stale", sum(one.stale) - sum(beside.stale)),
        ):
            if less > worst:
                worst, where = less, f"{what}, beside {other}"
    return Row(f"talks, {name}, {ours}: most questions below raw turns or BM25", worst, "", "0", worst == 0, where)


def _by_language(embedder: str, tallies: Mapping[str, Tally]) -> Row:
    """Each talk has a language of its own."""
    ours, raw = (tallies[f"{how}, {embedder}"].misses for how in ("default", "raw"))
    missed, before = (Counter(key for line in lines for key in _misses(line)) for lines in (ours, raw))
    below = {key: missed[key] - before[key] for key in missed if missed[key] > before[key]}
    worst, where = (
        max(below.values(), default=0),
        ", ".join(f"{talk} {what} {by}" for (talk, what), by in below.items()),
    )
    name = f"talks, default, {embedder}: most questions by which a language is below its raw row"
    return Row(name, worst, "", "<= 1", worst <= 1, where or "none is below")


def _misses(line: str) -> list[tuple[str, str]]:
    talk, _, *what = line.split()
    return [(talk, one) for one in what]


def _precision(name: str, found: Tally, is_judged: bool) -> list[Row]:
    rows: list[Row] = []
    for what, spent in (
        ("a question that nothing answers", found.tokens_for_nothing),
        ("a question about what was never spoken of", found.tokens_for_others),
    ):
        tokens = sum(spent) / max(len(spent), 1)
        bar = "<= 40" if is_judged else ""
        rows.append(Row(f"{name}: tokens for {what}", tokens, "", bar, not bar or tokens <= 40, f"n={len(spent)}"))
    right, least = precision(found.hits)
    bar, note = ">= .75" if is_judged else "", f"min_score={least:.3f}"
    rows.append(Row(f"{name}: precision at a recall of .85", right, "", bar, not bar or right >= 0.75, note))
    idle, bar = 100 * found.idle_words / max(found.words, 1), "<= 3" if is_judged else ""
    rows.append(Row(f"{name}: served words of idle turns", idle, "%", bar, not bar or idle <= 3))
    memory = 100 * sum(found.memory) / max(len(found.memory), 1)
    bar = ">= 75" if is_judged else ""
    rows.append(Row(f"{name}: share of a block that is memory", memory, "%", bar, not bar or memory >= 75))
    return rows


# ---- messages ------------------------------------------------------------------------------------------------------


def _standing(found: list[Talk]) -> Row:
    """What always matters, in the context of what it bears on, a whole talk of somebody else later."""
    lost: list[str] = []
    with sets.memory("minilm") as store:
        for number, ((said, asked, held), talk) in enumerate(zip(ASKED, found, strict=False)):
            store.add(said, user_id=f"u{number}")
            for turn in talk.turns:
                store.add({"role": turn["role"], "content": turn["content"]}, user_id=f"u{number}")
            lost += [] if held in store.context(asked, user_id=f"u{number}", max_tokens=300) else [said]
    present = 100 * (1 - len(lost) / len(ASKED))
    note = "; ".join(lost) or f"n={len(ASKED)}"
    return Row("standing facts in the contexts that they bear on", present, "%", ">= 95", present >= 95, note)


def _first_messages(found: list[Talk]) -> Row:
    """The first message of each language's talks, asked for by its own first words, at once."""
    lost: list[str] = []
    for talk in found:
        first = next(turn for turn in talk.turns if turn["role"] == "user")
        with sets.memory("hash") as store:
            store.add({"role": "user", "content": first["content"]}, user_id=sets.USER, wait=False)
            asked = next(one["question"] for one in talk.questions)
            hits = store.search(asked, user_id=sets.USER, k=1)
            lost += [] if hits and hits[0].text in first["content"] else [talk.name]
    bar = f"{len(found)} of {len(found)}"
    return Row("first messages that are found at once", len(found) - len(lost), "", bar, not lost, " ".join(lost))


def _messages(embedder: str, least: int) -> Row:
    """The messages of `tests/data/messages.json`: the three best hits hold what was asked, and nothing that is gone."""
    right: list[bool] = []
    people = json.loads(MESSAGES.read_text("utf-8"))["people"]
    for person in people:
        with sets.memory(embedder) as store:
            for message in person["messages"]:
                store.add(message["said"], user_id=sets.USER)
            for one in person["questions"]:
                hits = store.search(one["asked"], user_id=sets.USER, k=3)
                found = "\n".join(hit.text for hit in hits).casefold()
                has = all(word.casefold() in found for word in one["gold"])
                right.append(has and not any(gone.casefold() in found for gone in person["gone"]))
    said = sum(len(person["messages"]) for person in people)
    name = f"{said} messages as people type them, {embedder}: answered of {len(right)} questions"
    return Row(name, sum(right), "", f">= {least}", sum(right) >= least)


# ---- LoCoMo --------------------------------------------------------------------------------------------------------


def _locomo() -> list[Row]:
    rows: list[Row] = []
    for name in rivals.NAMES:
        try:
            rows += _as_locomo(name, sets.locomo(sets.Told(name, infer=False)))
        except (PeerMissing, OSError) as error:
            rows.append(missing(f"LoCoMo, {name}", error))
    for embedder in EMBEDDERS:
        raw = sets.locomo(sets.Told(embedder, infer=False))
        rows += _as_locomo(f"raw, {embedder}", raw)
        rows += _as_locomo(f"default, {embedder}", sets.locomo(sets.Told(embedder)), raw)
    return rows


def _as_locomo(name: str, found: Mapping[str, float], raw: Mapping[str, float] | None = None) -> list[Row]:
    rows: list[Row] = []
    for what, key, more in (("evidence recall@10", "evidence", 0), ("gold within 400 words", "gold", 3)):
        bar = "" if raw is None else f">= raw{f' + {more}' if more else ''}"
        ok, note = raw is None or found[key] >= raw[key] + more, f"n={found['n']:.0f}"
        rows.append(Row(f"LoCoMo, {name}: {what}", found[key], "%", bar, ok, note))
    return rows
