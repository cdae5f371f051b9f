"""Real words: what a memory without a model finds again of what people said, beside raw turns and BM25.

Set MEMKIT_TALKS (the folder of the talks), MEMKIT_REAL and MEMKIT_LOCOMO; what is not set is left out, in a row that
says so. Evidence counts as found only where the served text holds the turn's words or a gold form. `--full` tells all
of RealMem instead of one persona, and FactConsolidation 32k.
"""

from __future__ import annotations

import os

from tests.bench import _real_sets as sets
from tests.bench._real_talks import System, Talk, Tally, auc, bm25, precision, share, talks, tally, told
from tests.bench._real_updates import halumem, perfect
from tests.bench._table import Row
from tests.memory.test_standing import ASKED

EMBEDDERS = ("hash", "minilm")


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    if _is_set("MEMKIT_TALKS", rows):
        found = talks()
        rows += _talks("English", [one for one in found if one.english], (95, 86, 15))
        rows += _talks("other languages", [one for one in found if not one.english], (90, 84, None))
        rows += [_first_messages(found), _standing(found)]
    if _is_set("MEMKIT_LOCOMO", rows):
        rows += _locomo()
    if _is_set("MEMKIT_REAL", rows):
        for size in ("6k", "32k") if full else ("6k",):
            rows += _facts(size)
        rows += _realmem(None if full else 1)
        rows += _halumem()
    place = sets.rank_at_the_end_of_a_long_turn("hash")
    rows.append(Row("a fact at the end of a turn of 4,000 tokens: its rank", place, "", "<= 3", place <= 3))
    lost = sets.displaced("hash")
    rows.append(Row("facts of the user that planted turns displace, of 40", lost, "", "0", lost == 0))
    return rows


def _is_set(name: str, rows: list[Row]) -> bool:
    if os.environ.get(name):
        return True
    rows.append(Row(f"{name} is not set: its rows are left out", None, "", "", True))
    return False


def _talks(name: str, chosen: list[Talk], bars: tuple[int, int, int | None]) -> list[Row]:
    rows: list[Row] = []
    systems: dict[str, System] = {"BM25": bm25}
    for embedder in EMBEDDERS:
        systems[f"raw, {embedder}"] = told(embedder, infer=False)
        systems[f"default, {embedder}"] = told(embedder)
    for system, run in systems.items():
        found = tally(run, chosen)
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
        if system != "BM25":
            rows += _precision(f"talks, {name}, {system}", found, is_judged)
    return rows


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


def _locomo() -> list[Row]:
    rows: list[Row] = []
    for embedder in EMBEDDERS:
        found = sets.locomo(embedder)
        raw, ours = found["raw"], found["default"]
        note = f"raw {raw['evidence']:.3f}, n={ours['n']:.0f}"
        is_ok = ours["evidence"] >= raw["evidence"]
        rows.append(Row(f"LoCoMo, {embedder}: evidence recall@10", ours["evidence"], "", ">= raw", is_ok, note))
        note, bar = f"raw {raw['gold']:.1f}", raw["gold"] + 3
        is_ok = ours["gold"] >= bar
        rows.append(Row(f"LoCoMo, {embedder}: gold within 400 words", ours["gold"], "%", ">= raw + 3", is_ok, note))
    return rows


def _facts(size: str) -> list[Row]:
    rows: list[Row] = []
    for embedder in EMBEDDERS:
        found = sets.facts(embedder, size)
        raw, ours = found["raw"], found["default"]
        name = f"FactConsolidation {size}, {embedder}"
        rows.append(Row(f"{name}: never findable", ours["never"], "%", "0", ours["never"] == 0))
        note = f"raw {raw['first']:.0f}"
        rows.append(Row(f"{name}: gold first", ours["first"], "%", ">= 88", ours["first"] >= 88, note))
        note = f"raw {raw['five']:.0f}"
        rows.append(Row(f"{name}: gold in the first five", ours["five"], "%", ">= 99", ours["five"] >= 99, note))
    return rows


def _halumem() -> list[Row]:
    rows: list[Row] = []
    for embedder in EMBEDDERS:
        found = {"raw": halumem(embedder, infer=False), "default": halumem(embedder)}
        if embedder == "hash":
            found["facts of a perfect manager"] = perfect(embedder, "logged")
            found["these facts and turns"] = perfect(embedder, "all")
        for system, seen in found.items():
            values = (share(seen.above), share(seen.evidence), share(seen.stale))
            note = f"n={len(seen.above)}, {len(seen.evidence)}"
            is_judged = (system, embedder) == ("default", "minilm")
            for what, value, bar, sign in zip(
                ("new above old", "evidence@10", "old first"), values, (95, 75, 4), (1, 1, -1), strict=True
            ):
                text = f"{'>=' if sign > 0 else '<='} {bar}" if is_judged else ""
                ok = not text or sign * value >= sign * bar
                rows.append(Row(f"HaluMem, {system}, {embedder}: {what}", value, "%", text, ok, note))
        if embedder == "hash":
            *alone, both = (share(one.evidence) for one in list(found.values())[1:])
            gain, name = both - max(alone), "HaluMem, hash: evidence@10, facts and turns over the better of them alone"
            rows.append(Row(name, gain, "points", ">= 0", gain >= 0))
    return rows


def _realmem(most: int | None) -> list[Row]:
    rows: list[Row] = []
    found = sets.realmem("minilm", most)
    raw, ours = found["raw"], found["default"]
    for what, key in (("10", "ten"), ("30", "thirty")):
        note, bar = f"raw {raw[key]:.1f}, n={ours['n']:.0f}", raw[key] + 4
        rows.append(
            Row(f"RealMem, minilm: evidence recall@{what}", ours[key], "%", ">= raw + 4", ours[key] >= bar, note)
        )
    return rows
