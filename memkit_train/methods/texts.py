"""Decisions that a hosted model wrote, as rows in the target model's vocabulary. There are no log-probs to keep."""

from __future__ import annotations

from collections.abc import Iterable

from memkit_train.methods.run import Setup
from memkit_train.rows import TextRow, TokenRow


def token_rows(rows: Iterable[TokenRow | TextRow], made: Setup) -> list[TokenRow]:
    return [row if isinstance(row, TokenRow) else token_row(row, made) for row in rows]


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
