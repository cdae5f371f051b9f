"""Logged token ids through trainers that take text: a tokenizer whose text *is* the ids.

TRL's KTO and DPO trainers tokenise prompts and completions themselves. Text made from logged ids and tokenised again
may give other ids, and the model would be trained on what it never wrote. So they are handed conversations such as
`<17><4>` and this tokenizer, which reads them back exactly; its template only joins them. Nothing private is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

JOIN = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def id_tokenizer(vocab_size: int, *, pad_id: int, end_id: int) -> Any:
    inner = Tokenizer(WordLevel({spelled([index]): index for index in range(vocab_size)}, unk_token=spelled([pad_id])))
    inner.pre_tokenizer = Split(Regex(r"<\d+>"), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, chat_template=JOIN, pad_token=spelled([pad_id]), eos_token=spelled([end_id])
    )


def spelled(ids: Sequence[int]) -> str:
    return "".join(f"<{index}>" for index in ids)


def asked(prompt_ids: Sequence[int]) -> list[dict[str, str]]:
    return [{"role": "user", "content": spelled(prompt_ids)}]


def replied(completion_ids: Sequence[int]) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": spelled(completion_ids)}]
