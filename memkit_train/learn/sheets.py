"""Rows that begin alike, on one sheet: what they share is read once.

Eight replies to one prompt repeat nine hundred tokens eight times, and all decisions of a role begin with the same
instructions; next to nothing of that carries loss. On a sheet the rows' tokens form a tree. A token sees what stands
before it in its own rows, at the positions that it has there, so every log-prob and every gradient is that of the rows
one by one (to rounding), for about a sixth of the tokens.

    sheets = lay_out(rows, tokens=8192, scored=800)
    sheet.ids, sheet.positions, sheet.visible()      what the model is given, as one sequence
    sheet.paths[row]                                 where the row's tokens stand on it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import torch

from memkit_train.rows import Row

LONGEST = 2048
"""Tokens of a sheet, unless one row has more: attention between rows that do not see each other is computed in vain."""


@dataclass(slots=True)
class Sheet:
    rows: list[Row] = field(default_factory=list[Row])
    ids: list[int] = field(default_factory=list[int])
    positions: list[int] = field(default_factory=list[int])
    paths: list[list[int]] = field(default_factory=list[list[int]])
    scored: int = 0
    """Tokens with loss, each row's for itself."""
    _blocks: list[tuple[int, list[int]]] = field(default_factory=list[tuple[int, list[int]]])
    """Where the tokens begin that a row brought along, and what they hang on."""

    def count_shared(self, row: Row) -> int:
        """How many of the row's tokens stand here already."""
        if not self.rows:
            return 0
        pairs = zip(_tokens(self.rows[-1]), _tokens(row), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def add(self, row: Row) -> None:
        """Rows come in the order of their tokens, so that a row shares most with the one before it."""
        known = self.count_shared(row)
        path, start = (self.paths[-1][:known] if known else []), len(self.ids)
        fresh = _tokens(row)[known:]
        self.ids += fresh
        self.positions += range(known, known + len(fresh))
        self._blocks.append((start, path))
        self.paths.append([*path, *range(start, start + len(fresh))])
        self.rows.append(row)
        self.scored += len(row.completion_ids)

    def visible(self) -> torch.Tensor:
        """Queries × keys."""
        size = len(self.ids)
        seen = torch.zeros(size, size, dtype=torch.bool)
        ends = [start for start, _ in self._blocks[1:]] + [size]
        for (start, path), end in zip(self._blocks, ends, strict=True):
            seen[start:end, path] = True
            seen[start:end, start:end] = torch.ones(end - start, end - start, dtype=torch.bool).tril()
        return seen


def lay_out(rows: Sequence[Row], *, tokens: int, scored: int, most: int | None = None) -> list[Sheet]:
    """Each row once. A sheet has at most so many `tokens`, `scored` ones and (`most`) rows; a larger row goes alone."""
    sheets: list[Sheet] = []
    for row in sorted(rows, key=_tokens):
        sheet = sheets[-1] if sheets else None
        if sheet is None or not (
            len(sheet.ids) + row.tokens - sheet.count_shared(row) <= min(tokens, LONGEST)
            and sheet.scored + len(row.completion_ids) <= scored
            and (most is None or len(sheet.rows) < most)
        ):
            sheets.append(sheet := Sheet())
        sheet.add(row)
    return sheets


def _tokens(row: Row) -> tuple[int, ...]:
    return (*row.prompt_ids, *row.completion_ids)
