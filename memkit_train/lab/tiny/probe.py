"""What throw-away probes are asked during training: which shown memory holds what this token says.

To find a memory again, and to see that two values are the same, is what a small model learns last: the reply rewards it
only once everything else works. The probes ask for it where it happens, on every name, predicate and value, and at the
depth where it is needed: which line a token stands in before anything can be looked up by it, and which line is being
read out before the layer that copies from it. Nothing of them is left in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from transformers import PreTrainedTokenizerFast

from memkit_train.lab.tiny.tokenizer import KEY, parse_asking
from memkit_train.lab.worlds import lexicon
from memkit_train.lab.worlds.language import PREDICATES

LINES, FOUND, READ = "lines", "found", "read"
CLASSES = 10


@dataclass(slots=True)
class Places:
    """Tokens of a batch that are asked about, and the number to tell there."""

    rows: list[int] = field(default_factory=list[int])
    columns: list[int] = field(default_factory=list[int])
    numbers: list[int] = field(default_factory=list[int])

    def put(self, row: int, column: int, number: int) -> None:
        self.rows.append(row)
        self.columns.append(column)
        self.numbers.append(number)


@dataclass(slots=True)
class _Shown:
    keys: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(person, predicate) → the first line that says it."""
    values: dict[int, int] = field(default_factory=dict[int, int])
    holds: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """Line → its values."""


class Labels:
    """Which memory holds what a token says. 0: none of those shown.

    lines: every name, predicate and value of a shown memory tells the number of its own line. found: in facts and
    questions, a value tells the line that holds it, a predicate the line that says this of the same person. read: in
    replies, until a value is written, the line among those named that it is read from."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        texts = {token: tokenizer.convert_tokens_to_string([piece]) for piece, token in tokenizer.get_vocab().items()}
        plain = {token: text.strip() for token, text in texts.items()}
        self.keys = {token: (found[1], found[3]) for token, text in plain.items() if (found := KEY.fullmatch(text))}
        self.keys |= {token: found[1:] for token, text in plain.items() if (found := parse_asking(text))}
        """Tokens that are a person with what is said of them."""
        self.names = {token: text for token, text in plain.items() if text in lexicon.PEOPLE}
        self.predicates = {token: text for token, text in plain.items() if text in PREDICATES.values()}
        values = {*lexicon.CITIES, *lexicon.JOBS, *lexicon.FOODS, *lexicon.HOBBIES, *lexicon.PET_NAMES}
        self.values = {token for token, text in plain.items() if text in values}
        self.digits = {token: int(text) for token, text in texts.items() if text in set("123456789")}
        self.handles = {token: int(text) for token, text in plain.items() if text in set("123456789")}
        """In a reply."""
        self.turning = {token for token, text in texts.items() if text in ("\nNEW fact", "\nQuestion (asked on")}
        """Where the shown memories end."""
        self.breaks = {token for token, text in texts.items() if text.endswith("\n")}

    def of(self, prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]]) -> dict[str, Places]:
        out = {LINES: Places(), FOUND: Places(), READ: Places()}
        for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
            cut = next((column for column, token in enumerate(prompt) if token in self.turning), len(prompt))
            if cut == len(prompt):
                continue
            shown = self._shown(row, prompt[:cut], out[LINES])
            name = ""
            for column in range(cut, len(prompt)):
                token = prompt[column]
                if token in self.keys:
                    out[FOUND].put(row, column, shown.keys.get(self.keys[token], 0))
                elif token in self.names:
                    name = self.names[token]
                elif token in self.predicates and name:
                    out[FOUND].put(row, column, shown.keys.get((name, self.predicates[token]), 0))
                elif token in self.values:
                    out[FOUND].put(row, column, shown.values.get(token, 0))
            self._read(row, len(prompt), reply, shown, out[READ])
        return out

    def _shown(self, row: int, prefix: Sequence[int], lines: Places) -> _Shown:
        shown, line, name = _Shown(), 0, ""
        for column, token in enumerate(prefix):
            if token in self.digits and prefix[column - 1] in self.breaks:
                line, name = self.digits[token], ""
                continue
            if not line:
                continue
            if token in self.names:
                name = self.names[token]
                continue
            if token in self.keys:
                shown.keys.setdefault(self.keys[token], line)
            elif token in self.predicates:
                shown.keys.setdefault((name, self.predicates[token]), line)
            elif token in self.values:
                shown.values.setdefault(token, line)
                shown.holds.setdefault(line, set()).add(token)
            else:
                continue
            lines.put(row, column, line)
        return shown

    def _read(self, row: int, start: int, reply: Sequence[int], shown: _Shown, read: Places) -> None:
        """At the position before each token, backwards from every value."""
        named = [self.handles[token] for token in reply if token in self.handles]
        first = next((at for at, token in enumerate(reply) if token in self.handles), len(reply)) + 1
        number: int | None = None
        for at in range(len(reply) - 1, first - 1, -1):
            token = reply[at]
            if token in self.values:
                number = next((line for line in named if token in shown.holds.get(line, ())), 0)
            if number is not None:
                read.put(row, start + at - 1, number)
