"""Rows as files that others load: TRL (conversational SFT, KTO, DPO), OpenAI messages, Parquet. One line per decision,
written as it is read.

    sft    {"prompt": [messages], "completion": [message]}                 trl.SFTTrainer: the loss is on the completion
    kto    {"prompt": [messages], "completion": [message], "label": true}  trl.KTOTrainer
    dpo    {"prompt": [messages], "chosen": [message], "rejected": [...]}  trl.DPOTrainer
    openai {"messages": [messages and the reply]}                          hosted fine-tuning
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from memkit.errors import InvalidInput
from memkit.models import JSON
from memkit_train.trajectories.rows import Score, state_key
from memkit_train.trajectories.values import Decision

Format = Literal["sft", "kto", "dpo", "openai"]
GOOD = 0.5
_BATCH = 1_000


def export(
    decisions: Iterable[Decision], path: str | Path, form: Format, scored: Mapping[str, Score] | None = None
) -> int:
    """JSON lines; returns how many. `sft` and `openai` take what scored well, or without `scored` everything."""
    lines = _lines(form, decisions, scored)
    count = 0
    with Path(path).open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


def _lines(form: Format, decisions: Iterable[Decision], scored: Mapping[str, Score] | None) -> Iterator[JSON]:
    if form in ("kto", "dpo") and scored is None:
        raise InvalidInput(f"{form} needs to know which decisions were good", fix="pass the scores of the credits")
    told = (one for one in decisions if one.ok and one.reply and one.messages)
    match form:
        case "sft" | "openai":
            for one in told:
                score = scored.get(one.decision_id) if scored is not None else None
                if scored is None or (score is not None and score.y >= GOOD):
                    prompt, reply = _prompt(one), [_said(one.reply)]
                    yield {"prompt": prompt, "completion": reply} if form == "sft" else {"messages": prompt + reply}
        case "kto":
            for one in told:
                if (score := (scored or {}).get(one.decision_id)) is not None:
                    yield {"prompt": _prompt(one), "completion": [_said(one.reply)], "label": score.y >= GOOD}
        case "dpo":
            yield from _pairs(told, scored or {})
        case _:
            raise InvalidInput(f"export format {form!r} is unknown", fix="use sft, kto, dpo or openai")


def _pairs(decisions: Iterable[Decision], scored: Mapping[str, Score]) -> Iterator[JSON]:
    """Of decisions in one state, each that did well against each that did badly, once."""
    states: dict[str, list[tuple[float, str | None, list[JSON]]]] = {}
    for one in decisions:
        if (score := scored.get(one.decision_id)) is not None:
            states.setdefault(state_key(one), []).append((score.y, one.reply, _prompt(one)))
    for group in states.values():
        best, worst = max(group, key=lambda one: one[0]), min(group, key=lambda one: one[0])
        if best[0] > worst[0] and best[1] != worst[1]:
            yield {"prompt": best[2], "chosen": [_said(best[1])], "rejected": [_said(worst[1])]}


def _prompt(decision: Decision) -> list[JSON]:
    return [{"role": message.role, "content": message.content} for message in decision.messages]


def _said(text: str | None) -> JSON:
    return {"role": "assistant", "content": text or ""}


def export_parquet(
    decisions: Iterable[Decision], path: str | Path, subject: Callable[[str], str],
    scored: Mapping[str, Score] | None = None,
) -> int:  # fmt: skip
    """Everything a decision is made of, users by their opaque ids. For pandas, Polars, DuckDB, Ray, Spark, datasets."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema([
        ("decision_id", pa.string()), ("user", pa.string()), ("role", pa.string()),
        ("created_at", pa.timestamp("us", "UTC")), ("model", pa.string()), ("adapter", pa.string()),
        ("propensity", pa.float64()), ("ok", pa.bool_()), ("messages", pa.list_(message)), ("reply", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())), ("token_ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float64())), ("reward", pa.float64()), ("weight", pa.float64()),
        ("why", pa.list_(pa.string())),
    ])  # fmt: skip
    count, source = 0, iter(decisions)
    with pq.ParquetWriter(str(path), schema) as writer:
        while batch := [_flat(one, subject, scored) for one in islice(source, _BATCH)]:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count


def _flat(one: Decision, subject: Callable[[str], str], scored: Mapping[str, Score] | None) -> dict[str, Any]:
    score = (scored or {}).get(one.decision_id)
    return {
        "decision_id": one.decision_id, "user": subject(one.bank.user_id), "role": one.role,
        "created_at": one.created_at, "model": one.model, "adapter": one.adapter, "propensity": one.propensity,
        "ok": one.ok, "messages": _prompt(one), "reply": one.reply, "prompt_ids": one.prompt_ids,
        "token_ids": one.token_ids, "logprobs": one.logprobs, "reward": score.y if score else None,
        "weight": score.weight if score else None, "why": score.whys if score else None,
    }  # fmt: skip
