"""Decisions that a hosted model wrote, as rows in the target model's vocabulary. There are no log-probs to keep."""

from __future__ import annotations

from collections.abc import Iterable

from memkit_train.methods.run import Setup, short
from memkit_train.rows import TextRow, TokenRow


def token_rows(rows: Iterable[TokenRow | TextRow], made: Setup) -> list[TokenRow]:
    return [row if isinstance(row, TokenRow) else token_row(row, made) for row in rows]


def repeatable(replay: Iterable[TokenRow | TextRow], made: Setup) -> list[TokenRow]:
    """Those of the rows to be mixed in that this model can read. A run does not hang on the others."""
    return [
        row for row in token_rows(replay, made)
        if row.vocabulary in ("", made.vocabulary) and short(row, made) and known(row, made)
    ]  # fmt: skip


def known(row: TokenRow, made: Setup) -> bool:
    """Whether all its ids are tokens of this model: an old log does not name its tokenizer."""
    return max(*row.prompt_ids, *row.completion_ids) < made.vocab_size


def token_row(row: TextRow, made: Setup) -> TokenRow:
    """Prompt by the template that serving uses; the reply as plain text, then the end token."""
    reply = made.tokenizer(row.completion, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return TokenRow(
        made.prompter.ids(row.messages),
        (*reply, made.tokenizer.eos_token_id),
        weight=row.weight,
        role=row.role,
        reward=row.reward,
        state_key=row.state_key,
        age_days=row.age_days,
        vocabulary=made.vocabulary,
        user=row.user,
        ref=row.ref,
    )
