"""How well choices are made on what was held out."""

from __future__ import annotations

from collections.abc import Sequence

from memkit.backbones.small.shape import OPTIONS
from memkit_train.rows import ChoiceRow

Shares = Sequence[Sequence[float]]


def kept_f1(rows: Sequence[ChoiceRow], shares: Shares) -> float:
    """Of keeping (standing counts as kept) against leaving."""
    told = [(row.label > 0, one[0] < 0.5) for row, one in zip(rows, shares, strict=True) if row.task == "clause"]
    return _f1(told)


def macro_f1(rows: Sequence[ChoiceRow], shares: Shares, task: str) -> float:
    """Mean over the options that occur."""
    found = [(row.label, max(range(len(one)), key=one.__getitem__)) for row, one in _of(rows, shares, task)]
    options = sorted({label for label, _ in found})
    return sum(_f1([(label == at, chosen == at) for label, chosen in found]) for at in options) / max(len(options), 1)


def table(rows: Sequence[ChoiceRow], shares: Shares) -> list[str]:
    lines = [_line("all", rows, shares)]
    for language in sorted({row.language for row in rows}):
        places = [at for at, row in enumerate(rows) if row.language == language]
        lines.append(_line(language, [rows[at] for at in places], [shares[at] for at in places]))
    found = [(row.label, max(range(len(one)), key=one.__getitem__)) for row, one in _of(rows, shares, "relation")]
    for at, option in enumerate(OPTIONS["relation"]):
        right = sum(label == chosen == at for label, chosen in found)
        asked, taken = sum(label == at for label, _ in found), sum(chosen == at for _, chosen in found)
        lines.append(f"  {option}: recall {right}/{asked}, precision {right}/{taken}")
    return lines


def _line(name: str, rows: Sequence[ChoiceRow], shares: Shares) -> str:
    clauses = sum(row.task == "clause" for row in rows)
    return (
        f"{name}: keep F1 {kept_f1(rows, shares):.3f} of {clauses}, "
        f"relation macro-F1 {macro_f1(rows, shares, 'relation'):.3f} of {len(rows) - clauses}"
    )


def _of(rows: Sequence[ChoiceRow], shares: Shares, task: str) -> list[tuple[ChoiceRow, Sequence[float]]]:
    return [(row, one) for row, one in zip(rows, shares, strict=True) if row.task == task]


def _f1(told: Sequence[tuple[bool, bool]]) -> float:
    right = sum(wanted and taken for wanted, taken in told)
    return 2 * right / max(sum(wanted for wanted, _ in told) + sum(taken for _, taken in told), 1)
