"""Names of the GenAI conventions (status: development). Spelled out here, as the released packages of OpenTelemetry
have no constants for memory operations yet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from memkit.models import MemoryRecord
from memkit.results import Hit

CREATE, UPDATE, UPSERT, DELETE, SEARCH = (
    "create_memory",
    "update_memory",
    "upsert_memory",
    "delete_memory",
    "search_memory",
)
CREATE_STORE, DELETE_STORE = "create_memory_store", "delete_memory_store"
CHAT = "chat"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
STORE_ID = "gen_ai.memory.store.id"
RECORD_ID = "gen_ai.memory.record.id"
RECORD_COUNT = "gen_ai.memory.record.count"
QUERY_TEXT = "gen_ai.memory.query.text"
RECORDS = "gen_ai.memory.records"
CONVERSATION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.id"
ERROR_TYPE = "error.type"

REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
TEMPERATURE = "gen_ai.request.temperature"
FINISH = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"

EVALUATION = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
SCORE = "gen_ai.evaluation.score.value"
LABEL = "gen_ai.evaluation.score.label"
EXPLANATION = "gen_ai.evaluation.explanation"

# What the conventions have no word for.
TRACE_ID = "memkit.trace_id"
STATUS = "memkit.status"
DECISION_ID = "memkit.decision_id"
ROLE = "memkit.role"
ADAPTER = "memkit.adapter"
NOOP = "memkit.noop"


def records_json(records: Iterable[MemoryRecord | Hit]) -> str:
    """The attribute `gen_ai.memory.records`: an array of {content, id, metadata, score}."""
    out: list[dict[str, Any]] = []
    for one in records:
        record = one.memory if isinstance(one, Hit) else one
        item: dict[str, Any] = {"content": record.text, "id": record.id, "metadata": dict(record.metadata)}
        out.append(item | ({"score": one.score} if isinstance(one, Hit) else {}))
    return json.dumps(out, ensure_ascii=False)
