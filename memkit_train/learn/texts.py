"""How the model to be trained reads rows: by its own chat template and tokenizer. What a hosted model wrote is text,
and becomes a row in this vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memkit.backbones.hf.prompting import Prompter
from memkit_train.rows import TextRow, TokenRow


@dataclass(frozen=True, slots=True)
class TokenReader:
    tokenizer: Any
    prompter: Prompter
    vocab_size: int
    max_tokens: int
    """Of prompt and reply together."""
    end: int
    """Token that ends a reply."""
    vocabulary: str
    """Digest of the tokenizer."""

    @classmethod
    def of(cls, tokenizer: Any, vocab_size: int, max_tokens: int, stop_ids: frozenset[int]) -> TokenReader:
        prompter = Prompter(tokenizer)
        end, digest = prompter.end_id(stop_ids), prompter.tokenizer_digest(stop_ids)
        return cls(tokenizer, prompter, vocab_size, max_tokens, end, digest)

    def speaks(self, row: TokenRow) -> bool:
        """Whether the row is in this vocabulary; one that names none may be."""
        return not row.vocabulary or row.vocabulary == self.vocabulary


def token_rows(rows: Iterable[TokenRow | TextRow], reader: TokenReader) -> list[TokenRow]:
    return [row if isinstance(row, TokenRow) else token_row(row, reader) for row in rows]


def repeatable(replay: Iterable[TokenRow | TextRow], reader: TokenReader) -> list[TokenRow]:
    """Those of the rows to be mixed in that this model can read. A run does not hang on the others."""
    return [
        row
        for row in token_rows(replay, reader)
        if reader.speaks(row) and short(row, reader) and knows_tokens(row, reader)
    ]


def short(row: TokenRow, reader: TokenReader) -> bool:
    """Whether the model can read it whole."""
    return len(row.prompt_ids) + len(row.completion_ids) <= reader.max_tokens


def knows_tokens(row: TokenRow, reader: TokenReader) -> bool:
    """Whether all its ids are tokens of this model: an old log does not name its tokenizer."""
    return max(*row.prompt_ids, *row.completion_ids) < reader.vocab_size


def token_row(row: TextRow, reader: TokenReader) -> TokenRow:
    """Prompt by the template that serving uses; the reply as plain text, then what ends a turn."""
    reply = reader.tokenizer(row.completion, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return TokenRow(
        reader.prompter.ids(row.messages),
        (*reply, reader.end),
        weight=row.weight,
        role=row.role,
        reward=row.reward,
        age_days=row.age_days,
        vocabulary=reader.vocabulary,
        user=row.user,
        ref=row.ref,
    )
