"""Rows on transport faults: every fault of the stub server against the hosted backbone, whole and streamed."""

from __future__ import annotations

import resource
import time

from memkit.backbones.openai import OpenAIBackbone
from memkit.errors import ModelError
from memkit.roles.base import ChatMessage, Prompt, View
from memkit.seams.backbone import GenRequest, all_or_error
from tests import stub_server as stub
from tests.bench._table import Row

_DEADLINE_S = 1.5
_FAULTS = {
    "429": stub.status(429),
    "429 retry-after": stub.status(429, retry_after=0.1),
    "429 for an hour": stub.status(429, retry_after=3600),
    "500": stub.status(500),
    "502": stub.status(502),
    "503": stub.status(503),
    "reset before headers": stub.reset_before_headers,
    "reset after headers": stub.reset_after_headers,
    "hang": stub.hang,
    "slow drip": stub.slow_drip,
    "endless body": stub.endless_body,
    "endless events": stub.endless_events,
    "non-JSON 200": stub.not_json,
    "truncated JSON": stub.truncated_json,
    "deep nesting": stub.deep_nesting,
    "empty choices": stub.empty_choices,
    "silent stream": stub.silent_stream,
    "broken stream": stub.broken_stream,
    "401": stub.status(401),
    "redirect": stub.redirect("http://127.0.0.1:9/"),
}


def rows(rounds: int = 1) -> list[Row]:
    prompt = Prompt("manager", "json", "bench", (ChatMessage("user", "hello"),), None, {"type": "object"}, 50, View())
    request = GenRequest(prompt, deadline_s=_DEADLINE_S)
    worst_s, most_calls, untyped, runs = 0.0, 0, [], 0
    with stub.StubServer() as server, OpenAIBackbone("stub", base_url=server.url) as backbone:
        backbone.generate([request])
        before = _peak_mb()
        for name, fault in list(_FAULTS.items()) * rounds:
            server.always(fault)
            for act in (lambda: all_or_error(backbone.generate([request])), lambda: list(backbone.stream(request))):
                calls, started = server.calls, time.monotonic()
                try:
                    act()
                    untyped.append(f"{name}: no error")
                except ModelError:
                    pass
                except Exception as error:
                    untyped.append(f"{name}: {type(error).__name__}")
                worst_s = max(worst_s, time.monotonic() - started)
                most_calls = max(most_calls, server.calls - calls)
                runs += 1
        grown = _peak_mb() - before
    share = worst_s / _DEADLINE_S
    return [
        Row(
            "transport faults: errors that are not typed",
            len(untyped),
            f"of {runs}",
            "0",
            not untyped,
            "; ".join(untyped),
        ),
        Row(
            "transport faults: slowest, of the deadline", share, "x", "≤ 1.1", share <= 1.1, f"deadline {_DEADLINE_S} s"
        ),
        Row("transport faults: most calls of one turn", most_calls, "calls", "≤ 3", most_calls <= 3, "langmem: 50"),
        Row(
            "transport faults: growth of peak memory",
            grown,
            "MB",
            "< 20",
            grown < 20,
            "endless bodies included; server in the same process",
        ),
    ]


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
