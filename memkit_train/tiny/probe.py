"""What a throw-away probe is asked during training: which shown memory holds what this token says.

To find a memory again, and to see that two values are the same, is what a small model learns last: the reply rewards it
only once everything else works. The probe asks for it where it happens, on every name, predicate and value, and pulled
it forward from never (in the time there is) to the first minutes. Nothing of it is left in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerFast

from memkit_train.tiny.tokenizer import KEY, asked
from memkit_train.worlds import lexicon
from memkit_train.worlds.language import PREDICATES


class Labels:
    """For the probe: which memory holds what a token says. 0: none of those shown.

    Lines: every name, predicate and value tells the number of its own line. Facts and questions: a value tells the line
    that holds it, a predicate the line that says this of the same person."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        texts = {token: tokenizer.convert_tokens_to_string([piece]) for piece, token in tokenizer.get_vocab().items()}
        plain = {token: text.strip() for token, text in texts.items()}
        self.keys = {token: (found[1], found[3]) for token, text in plain.items() if (found := KEY.fullmatch(text))}
        self.keys |= {token: found[1:] for token, text in plain.items() if (found := asked(text))}
        """Tokens that are a person with what is said of them."""
        self.names = {token: text for token, text in plain.items() if text in lexicon.PEOPLE}
        self.predicates = {token: text for token, text in plain.items() if text in PREDICATES.values()}
        values = {*lexicon.CITIES, *lexicon.JOBS, *lexicon.FOODS, *lexicon.HOBBIES, *lexicon.PET_NAMES}
        self.values = {token for token, text in plain.items() if text in values}
        self.digits = {token: int(text) for token, text in texts.items() if text in set("123456789")}
        self.turning = {token for token, text in texts.items() if text in ("\nNEW fact", "\nQuestion (asked on")}
        """Where the shown memories end."""
        self.breaks = {token for token, text in texts.items() if text.endswith("\n")}

    def turn(self, prompt: Sequence[int]) -> int:
        """The column where the shown memories end; the prompt's length where none are shown."""
        return next((column for column, token in enumerate(prompt) if token in self.turning), len(prompt))

    def of(self, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rows, columns and the number to tell there."""
        out: list[tuple[int, int, int]] = []
        for row, prompt in enumerate(prompts):
            cut = self.turn(prompt)
            if cut == len(prompt):
                continue
            keys, values = self._lines(row, prompt[:cut], out)
            name = ""
            for column in range(cut, len(prompt)):
                token = prompt[column]
                if token in self.keys:
                    out.append((row, column, keys.get(self.keys[token], 0)))
                elif token in self.names:
                    name = self.names[token]
                elif token in self.predicates and name:
                    out.append((row, column, keys.get((name, self.predicates[token]), 0)))
                elif token in self.values:
                    out.append((row, column, values.get(token, 0)))
        table = torch.tensor(out or [(0, 0, 0)], dtype=torch.long)  # nothing named anything: one harmless row
        return table[:, 0], table[:, 1], table[:, 2]

    def _lines(
        self, index: int, prefix: Sequence[int], out: list[tuple[int, int, int]]
    ) -> tuple[dict[tuple[str, str], int], dict[int, int]]:
        keys: dict[tuple[str, str], int] = {}
        values: dict[int, int] = {}
        line, name = 0, ""
        for column, token in enumerate(prefix):
            if token in self.digits and prefix[column - 1] in self.breaks:
                line, name = self.digits[token], ""
            elif not line:
                continue
            elif token in self.keys:
                keys.setdefault(self.keys[token], line)
                out.append((index, column, line))
            elif token in self.names:
                name = self.names[token]
            elif token in self.predicates:
                keys.setdefault((name, self.predicates[token]), line)
                out.append((index, column, line))
            elif token in self.values:
                values.setdefault(token, line)
                out.append((index, column, line))
        return keys, values
