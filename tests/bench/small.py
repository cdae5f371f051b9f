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

import numpy as np

from memkit.backbones.small import SmallBackbone
from memkit.backbones.small.backbone import SHIPPED
from memkit.backbones.small.encoder import Encoder, TextPair
from memkit_train.lab.small.build import is_held_out, rows_of
from memkit_train.lab.small.measure import kept_f1, macro_f1
from memkit_train.lab.small.scenes import read_scenes
from memkit_train.rows import ChoiceRow
from tests.bench import _real_sets as sets
from tests.bench._real_managed import changes, overridden
from tests.bench._real_talks import Talk, Tally, share, talks, tally, told
from tests.bench._table import Row

KNOWN = ("en", "de", "fr", "es", "it", "nl", "pt")
"""Languages that the encoder knows, well or a little."""


def run(*, full: bool = False) -> list[Row]:
    rows = [*_held_out(), *_cost()]
    if _is_set("MEMKIT_REAL", rows):
        rows += _changed(full)
    if _is_set("MEMKIT_TALKS", rows):
        found = talks()
        rows += _talks("English", [one for one in found if one.english])
        rows += _talks("other languages", [one for one in found if not one.english])
        rows.append(_junk(found))
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
    held = rows_of([one for one in read_scenes() if is_held_out(one)])
    shares = _shares(held)
    rows = [
        _at_least("held-out scenes: keep or leave, F1", kept_f1(held, shares), 0.85, len(_of(held, "clause"))),
        _at_least(
            "held-out scenes: relation, macro-F1", macro_f1(held, shares, "relation"), 0.80, len(_of(held, "relation"))
        ),
    ]
    for language in sorted({row.language for row in held}):
        at = [place for place, row in enumerate(held) if row.language == language]
        value = kept_f1([held[one] for one in at], [shares[one] for one in at])
        known = language in KNOWN
        bar = ">= 0.65" if known else ""
        name = f"… {language}{'' if known else ', a language that it was not taught'}: keep or leave, F1"
        rows.append(Row(name, value, "", bar, not known or value >= 0.65, f"n={len(at)}"))
    return rows


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
    begun = time.process_time()
    backbone = SmallBackbone()
    with sets.memory("hash", backbone) as store:
        store.add("I moved to Lyon last week, and my sister Ilse stayed in Ghent.", user_id=sets.USER)
        cold = time.process_time() - begun
        begun, turns = time.process_time(), 0
        for number, (one, other) in enumerate(_TWO_CLAUSES * 8):
            store.add(f"{one} {number}, {other}.", user_id=f"u{number % 4}")
            turns += 1
        each = (time.process_time() - begun) / turns
    return [
        Row("first decision after a cold start, CPU", cold, "s", "<= 2", cold <= 2),
        Row(
            "a turn of two clauses, CPU with all that an add does",
            1e3 * each,
            "ms",
            "<= 60",
            each <= 0.06,
            f"n={turns}",
        ),
    ]


_TWO_CLAUSES = (
    ("I started a job at bakery", "we open at six in the morning"),
    ("My brother bought a boat in harbour", "I get sick on boats though"),
    ("The meeting moved to room", "the projector there is broken again"),
    ("We adopted a cat from shelter", "she hides under the sofa all day"),
)


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
