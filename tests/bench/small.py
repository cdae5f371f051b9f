"""The small manager: its choices on what it never learned from, what it does to facts that change, and what a memory
with it finds again, beside the rules with the same words kept.

Nothing that is measured here was learned from: the shipped weights saw the open part of the project's own corpus, and
neither the talks nor any other set. Set MEMKIT_TALKS, MEMKIT_REAL and MEMKIT_LOCOMO; what is not set is left out, in a
row that says so. `--full` tells FactConsolidation 32k and all of RealMem, too.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.backbone import SHIPPED
from memkit.backbones.small.encoder import Encoder, TextPair
from memkit.backbones.small.pairs import clause_pair
from memkit.backbones.small.shape import RELATION, SURE
from memkit.text.clauses import clauses
from memkit_train.lab.small.build import is_held_out, is_of_other_hand, rows_of
from memkit_train.lab.small.measure import kept_f1, macro_f1
from memkit_train.lab.small.scenes import read_scenes, turn_of
from memkit_train.rows import ChoiceRow
from tests.bench import _real_sets as sets
from tests.bench._real_managed import changes, overridden
from tests.bench._real_talks import Talk, Tally, share, talks, tally, told
from tests.bench._small_served import started, swap_under_load
from tests.bench._table import Row

KNOWN = ("en", "de", "fr", "es", "it", "nl", "pt")
"""Languages that the encoder knows, well or a little."""


def run(*, full: bool = False) -> list[Row]:
    rows = [*_held_out(), *_cost(), *_served()]
    if _is_set("MEMKIT_REAL", rows):
        rows += _changed(full)
    if _is_set("MEMKIT_TALKS", rows):
        found = talks()
        rows += _talks("English", [one for one in found if one.english])
        rows += _talks("other languages", [one for one in found if not one.english])
        rows += [*_turns(found), _junk(found)]
    if _is_set("MEMKIT_LOCOMO", rows):
        rows += _locomo()
    if _is_set("MEMKIT_REAL", rows):
        rows += _realmem(full)
    return rows


def _is_set(name: str, rows: list[Row]) -> bool:
    if os.environ.get(name):
        return True
    rows.append(Row(f"{name} is not set: its rows are left out", None, "", "", True))
    return False


# ---- choices ---------------------------------------------------------------------------------------------------------


def _held_out() -> list[Row]:
    scenes = [one for one in read_scenes() if is_held_out(one)]
    rows = _other_hand(rows_of([one for one in scenes if is_of_other_hand(one)]))
    held = rows_of([one for one in scenes if not is_of_other_hand(one)])
    shares = _shares(held)
    relation = macro_f1(held, shares, "relation")
    note = f"n={len(_of(held, 'relation'))}; taken as unrelated: {_overlooked(held, shares)}"
    rows += [
        _at_least("held-out scenes: keep or leave, F1", kept_f1(held, shares), 0.85, len(_of(held, "clause"))),
        Row("held-out scenes: relation, macro-F1", relation, "", ">= 0.8", relation >= 0.8, note),
    ]
    for language in sorted({row.language for row in held}):
        at = [place for place, row in enumerate(held) if row.language == language]
        value = kept_f1([held[one] for one in at], [shares[one] for one in at])
        known = language in KNOWN
        bar = ">= 0.65" if known else ""
        name = f"… {language}{'' if known else ', a language that it was not taught'}: keep or leave, F1"
        rows.append(Row(name, value, "", bar, not known or value >= 0.65, f"n={len(at)}"))
    return [*rows, _sure([one for one in zip(held, shares, strict=True) if one[0].language not in KNOWN])]


def _overlooked(held: Sequence[ChoiceRow], shares: Sequence[Sequence[float]]) -> str:
    """Of the pairs of each relation."""
    found = [(row.label, max(one) == one[0]) for row, one in zip(held, shares, strict=True) if row.task == "relation"]
    by = {name: [left for label, left in found if label == at] for at, name in enumerate(RELATION) if at}
    return ", ".join(f"{name} {sum(left)} of {len(left)}" for name, left in by.items())


def _other_hand(rows: Sequence[ChoiceRow]) -> list[Row]:
    shares, name = _shares(rows), "scenes of a writer that was never learned from"
    count = len(_of(rows, "clause")), len(_of(rows, "relation"))
    return [
        _at_least(f"{name}: keep or leave, F1", kept_f1(rows, shares), 0.85, count[0]),
        _at_least(f"{name}: relation, macro-F1", macro_f1(rows, shares, "relation"), 0.80, count[1]),
    ]


def _sure(found: Sequence[tuple[ChoiceRow, Sequence[float]]]) -> Row:
    """Of the relations that are acted upon in languages that were not taught."""
    asked = [(row.label, shares) for row, shares in found if row.task == "relation"]
    likely = [(label, max(range(len(one)), key=one.__getitem__), max(one)) for label, one in asked]
    right = [label == at for label, at, share in likely if at and share >= SURE["relation"]]
    value, related = sum(right) / max(len(right), 1), sum(label > 0 for label, _ in asked)
    note = f"coverage: {len(right)} operations, {related} related pairs of {len(asked)}"
    name = "… languages that it was not taught: precision of operations"
    return Row(name, value if right else None, "", ">= 0.95", not right or value >= 0.95, note)


def _shares(rows: Sequence[ChoiceRow]) -> list[list[float]]:
    encoder = Encoder(SHIPPED)
    found: list[list[float]] = []
    for start in range(0, len(rows), 64):
        pairs = [TextPair(row.task, row.first, row.second, row.features) for row in rows[start : start + 64]]  # pyright: ignore[reportArgumentType]
        found += [list(np.exp(one - one.max()) / np.exp(one - one.max()).sum()) for one in encoder.score(pairs)]
    return found


def _of(rows: Sequence[ChoiceRow], task: str) -> list[ChoiceRow]:
    return [row for row in rows if row.task == task]


def _at_least(name: str, value: float, bar: float, count: int) -> Row:
    return Row(name, value, "", f">= {bar}", value >= bar, f"n={count}")


# ---- cost ------------------------------------------------------------------------------------------------------------


def _cost() -> list[Row]:
    with sets.memory("hash", SmallBackbone()) as store:
        store.add("I moved to Lyon last week, and my sister Ilse stayed in Ghent.", user_id=sets.USER)
        begun, turns = time.process_time(), 0
        for number, (one, other) in enumerate(_TWO_CLAUSES * 8):
            store.add(f"{one} {number}, {other}.", user_id=f"u{number % 4}")
            turns += 1
        each = (time.process_time() - begun) / turns
    name = "a turn of two clauses, CPU with all that an add does"
    return [Row(name, 1e3 * each, "ms", "<= 60", each <= 0.06, f"n={turns}")]


_TWO_CLAUSES = (
    ("I started a job at bakery", "we open at six in the morning"),
    ("My brother bought a boat in harbour", "I get sick on boats though"),
    ("The meeting moved to room", "the projector there is broken again"),
    ("We adopted a cat from shelter", "she hides under the sofa all day"),
)


def _served() -> list[Row]:
    (cold, taken), swap = started(), swap_under_load()
    both = f"{swap.by_old} decisions by the old, {swap.by_new} by the new weights"
    wrong = swap.lost + swap.others + (not swap.by_old) + (not swap.by_new)
    return [
        Row("first decision of a fresh process, CPU", cold, "s", "<= 2", cold <= 2, "imports and embedder with it"),
        Row("memory over the embedder alone", taken, "MB", "<= 150", taken <= 150),
        Row("swap under load: turns lost, choices of other weights than logged", wrong, "", "0", not wrong, both),
        Row("… its log played again: scenes that end in another bank", swap.banks, "", "0", not swap.banks),
        Row(
            "… its choices scored again: furthest log-prob",
            swap.apart,
            "",
            "<= 1e-4",
            swap.apart <= 1e-4,
            f"n={swap.choices}",
        ),
    ]


# ---- facts that change -----------------------------------------------------------------------------------------------


def _changed(full: bool) -> list[Row]:
    rows: list[Row] = []
    for size in ("6k", "32k") if full else ("6k",):
        rules, small = overridden(None, size), overridden(SmallBackbone(), size)
        name, note = f"FactConsolidation {size}", f"rules {share(rules.live):.0f}, n={len(small.live)}"
        rows.append(_at_most(f"{name}: overridden facts still live", share(small.live), 25, note))
        note = f"rules {share(rules.lost):.1f} of {len(rules.lost)}, n={len(small.lost)}"
        rows.append(_at_most(f"{name}: current facts ended or overwritten wrongly", share(small.lost), 1, note))
    rules, small = changes(None), changes(SmallBackbone())
    value, note = share(small.on_old), f"rules {share(rules.on_old):.0f}, n={len(small.on_old)}"
    rows.append(Row("HaluMem: an operation on the old memory where shown", value, "%", ">= 45", value >= 45, note))
    note = f"rules {share(rules.on_others):.1f}, n={len(small.on_others)}"
    rows.append(_at_most("HaluMem: operations on other memories", share(small.on_others), 4, note))
    return rows


def _at_most(name: str, value: float, bar: float, note: str) -> Row:
    return Row(name, value, "%", f"<= {bar:g}", value <= bar, note)


# ---- what a memory finds again ---------------------------------------------------------------------------------------


def _talks(name: str, chosen: list[Talk]) -> list[Row]:
    rows: list[Row] = []
    rules, small = (tally(told("minilm", model=one), chosen) for one in (None, SmallBackbone()))
    bars = {"English": (95.0, 87.0, 10.0)}.get(name, (0.0, 0.0, 100.0))
    for what, bar, sign in (("evidence", bars[0], 1), ("gold", bars[1], 1), ("stale", bars[2], -1)):
        ours, theirs = _of_tally(small, what), _of_tally(rules, what)
        value, other = share(ours), share(theirs)
        low, high = _interval(ours, theirs)
        note = f"rules {other:.1f}, difference {value - other:+.1f} [{low:+.1f}, {high:+.1f}], n={len(ours)}"
        text = f"{'>=' if sign > 0 else '<='} {max(bar, other) if sign > 0 else min(bar, other):.1f}"
        ok = sign * value >= sign * other and sign * value >= sign * bar
        rows.append(Row(f"talks, {name}: {_NAMES[what]}", value, "%", text, ok, note))
    return rows


_NAMES = {"evidence": "evidence@10", "gold": "gold in context(300)", "stale": "only stale in it"}


def _of_tally(found: Tally, what: str) -> list[bool]:
    return list(getattr(found, what))


def _interval(ours: Sequence[bool], theirs: Sequence[bool], draws: int = 2_000) -> tuple[float, float]:
    """95 % of the paired difference in points, by bootstrap."""
    order = random.Random(0)
    pairs = [int(a) - int(b) for a, b in zip(ours, theirs, strict=True)]
    means = sorted(100 * sum(order.choices(pairs, k=len(pairs))) / len(pairs) for _ in range(draws))
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def _turns(found: Sequence[Talk]) -> list[Row]:
    """Turns of the talks' four writers: what a question needs is to be kept, chit-chat to be left."""
    backbone, rows = SmallBackbone(), list[Row]()
    for name, english in (("English", True), ("other languages", False)):
        told: list[tuple[bool, bool]] = []
        for talk in (one for one in found if one.english == english):
            needed = {one for question in talk.questions for one in question["evidence"]}
            for turn in talk.turns:
                if turn["role"] == "user" and (turn["id"] in needed) != (turn["id"] in talk.chitchat):
                    said = turn_of(turn["content"], datetime.fromisoformat(turn["at"]))
                    pairs = [clause_pair(said, one.start, one.end) for one in clauses(said.text)]
                    kept = any(np.exp(one[0]) < 0.5 for one in backbone.score("", pairs))
                    told.append((turn["id"] in needed, kept))
        right = sum(wanted and kept for wanted, kept in told)
        value = 2 * right / max(sum(wanted for wanted, _ in told) + sum(kept for _, kept in told), 1)
        rows.append(_at_least(f"talks, {name}: turns kept or left, F1", value, 0.85 if english else 0.65, len(told)))
    return rows


def _junk(found: Sequence[Talk]) -> Row:
    """Facts written from turns that hold nothing worth keeping, of all facts written."""
    idle = written = 0
    for talk in found:
        with sets.memory("hash", SmallBackbone()) as store:
            for turn in talk.turns:
                said = {"role": turn["role"], "content": turn["content"]}
                ops = store.add(said, user_id=sets.USER, session_id=turn["session"], at=turn["at"]).ops
                new = [op for op in ops if op.action in ("add", "update") and op.after and op.after.kind == "fact"]
                written += len(new)
                idle += len(new) if turn["id"] in talk.chitchat else 0
    value = 100 * idle / max(written, 1)
    return _at_most("junk: memories written from chit-chat turns of the talks", value, 5, f"{idle} of {written}")


def _locomo() -> list[Row]:
    rules, small = (sets.locomo(sets.Told("minilm", model=model)) for model in (None, SmallBackbone()))
    return [
        _not_below(f"LoCoMo: {what}", small[key], rules[key])
        for what, key in (("evidence recall@10", "evidence"), ("gold within 400 words", "gold"))
    ]


def _realmem(full: bool) -> list[Row]:
    most = None if full else 1
    rules, small = (sets.realmem(sets.Told("minilm", model=model), most) for model in (None, SmallBackbone()))
    return [
        _not_below(f"RealMem: recall@{what} of the evidence", ours, theirs)
        for what, ours, theirs in ((10, small.ten, rules.ten), (30, small.thirty, rules.thirty))
    ]


def _not_below(name: str, value: float, other: float) -> Row:
    return Row(name, value, "", f">= {other:.3g}", value >= other, "rules and turns: the bar")
