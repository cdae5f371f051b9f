"""Family C of the fault matrix: whatever the endpoint does, a typed error within the deadline and the calls allowed."""

import random
import subprocess
import sys
from datetime import UTC, datetime

import httpx
import pytest

from memkit.backbones.openai import OpenAIBackbone
from memkit.errors import (
    BadReply,
    ModelError,
    ModelRefused,
    ModelTimeout,
    ModelUnavailable,
    ReplyTooLarge,
)
from memkit.net.retry import backoff, retry_after
from tests import stub_server as stub
from tests.backbones._requests import failure, request

FAULTS: list[tuple[str, stub.Fault, type[ModelError], int]] = [
    ("429", stub.status(429), ModelUnavailable, 3),
    ("429 with retry-after", stub.status(429, retry_after=0.05), ModelUnavailable, 3),
    ("429 with a long retry-after", stub.status(429, retry_after=3600), ModelUnavailable, 1),
    ("500", stub.status(500), ModelUnavailable, 3),
    ("502", stub.status(502), ModelUnavailable, 3),
    ("503", stub.status(503, retry_after="soon"), ModelUnavailable, 3),
    ("reset before headers", stub.reset_before_headers, ModelUnavailable, 3),
    ("reset after headers", stub.reset_after_headers, ModelUnavailable, 3),
    ("401", stub.status(401), ModelRefused, 1),
    ("403", stub.status(403), ModelRefused, 1),
    ("404", stub.status(404), ModelRefused, 1),
    ("413", stub.status(413), ModelRefused, 1),
    ("endless body", stub.endless_body, ReplyTooLarge, 1),
    ("declared too large", stub.raw(b" " * 1_000_001), ReplyTooLarge, 1),
    ("not JSON", stub.not_json, BadReply, 3),
    ("truncated JSON", stub.truncated_json, BadReply, 3),
    ("deep nesting", stub.deep_nesting, BadReply, 3),
    ("empty choices", stub.empty_choices, BadReply, 3),
    ("null message", stub.null_message, BadReply, 3),
    ("error inside a 200", stub.error_inside, BadReply, 3),
    ("compressed", stub.raw(b"\x1f\x8b", **{"content-encoding": "gzip"}), BadReply, 3),
]


class _NoWait(random.Random):
    """Shortest backoff, so that tests of counts do not wait."""

    def random(self) -> float:
        return 0.0


@pytest.fixture
def server():
    with stub.StubServer(reply="NOOP") as running:
        yield running


@pytest.fixture
def backbone(server: stub.StubServer):
    with OpenAIBackbone("stub", base_url=server.url, rng=_NoWait()) as built:
        yield built


@pytest.mark.parametrize(("name", "fault", "error_type", "calls"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_every_fault_ends_in_its_typed_error(
    server: stub.StubServer,
    backbone: OpenAIBackbone,
    name: str,
    fault: stub.Fault,
    error_type: type[ModelError],
    calls: int,
) -> None:
    server.always(fault)
    error, _ = failure(lambda: backbone.generate([request("canary-prompt")]))
    assert type(error) is error_type
    assert server.calls == calls
    assert error.details["calls"] == calls
    assert "canary" not in str(error) + repr(error) + repr(error.details)
    assert error.__cause__ is None


@pytest.mark.parametrize("fault", [stub.hang, stub.slow_drip], ids=["hang", "slow drip"])
@pytest.mark.parametrize("deadline_s", [0.5, 1.5])
def test_the_deadline_is_total(
    server: stub.StubServer, backbone: OpenAIBackbone, fault: stub.Fault, deadline_s: float
) -> None:
    server.always(fault)
    error, took = failure(lambda: backbone.generate([request(deadline_s=deadline_s)]))
    assert type(error) is ModelTimeout
    assert deadline_s <= took < 30, "a generous ceiling: the stub goes on for a minute"
    assert server.calls == 1


def test_retries_end_with_the_deadline_too(server: stub.StubServer, backbone: OpenAIBackbone) -> None:
    """A slow failure, then a hang: the second call gets only what the first left."""
    server.plan(stub.status(503, retry_after=0.4), stub.hang)
    error, took = failure(lambda: backbone.generate([request(deadline_s=1.0)]))
    assert type(error) is ModelTimeout
    assert took <= 1.15
    assert server.calls == 2


def test_a_passing_fault_is_outlived(server: stub.StubServer, backbone: OpenAIBackbone) -> None:
    server.plan(stub.status(429, retry_after=0.2), stub.reset_after_headers, None)
    (reply,) = backbone.generate([request()])
    assert reply.text == "NOOP"
    assert reply.usage.calls == server.calls == 3
    assert server.seen[1].at - server.seen[0].at >= 0.2, "retry-after is respected"


def test_calls_allowed_by_the_request_are_the_limit(server: stub.StubServer, backbone: OpenAIBackbone) -> None:
    server.always(stub.status(500))
    failure(lambda: backbone.generate([request(max_calls=1)]))
    assert server.calls == 1


def test_a_wrong_content_type_does_not_matter(server: stub.StubServer, backbone: OpenAIBackbone) -> None:
    server.always(stub.wrong_content_type)
    assert backbone.generate([request()])[0].text == "NOOP"


def test_nobody_listens() -> None:
    with stub.StubServer() as gone:
        url = gone.url
    with OpenAIBackbone("stub", base_url=url, rng=_NoWait()) as backbone:
        error, _ = failure(lambda: backbone.generate([request()]))
    assert type(error) is ModelUnavailable


def test_a_name_that_does_not_resolve() -> None:
    with OpenAIBackbone("stub", base_url="https://nowhere.invalid/v1", rng=_NoWait()) as backbone:
        error, _ = failure(lambda: backbone.generate([request(deadline_s=20)]))
    assert type(error) is ModelUnavailable


def test_tls_is_verified() -> None:
    """A server that does not speak TLS behind https is a failure, not a downgrade."""
    with stub.StubServer() as server:
        url = server.url.replace("http://", "https://")
        with OpenAIBackbone("stub", base_url=url, api_key="k", rng=_NoWait()) as backbone:
            error, _ = failure(lambda: backbone.generate([request()]))
        assert type(error) is ModelUnavailable
        assert server.calls == 0


_ENDLESS = """
import resource, sys
from memkit.backbones.openai import OpenAIBackbone
from memkit.errors import ReplyTooLarge
from tests.backbones._requests import failure, request

peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
backbone = OpenAIBackbone("stub", base_url=sys.argv[1])
backbone.generate([request()])
before = peak()
for act in (lambda: backbone.generate([request()]), lambda: list(backbone.stream(request()))) * 4:
    assert type(failure(act)[0]) is ReplyTooLarge
print((peak() - before) // 1024)
"""


@pytest.mark.parametrize("fault", [stub.endless_body, stub.endless_events], ids=["body", "events"])
def test_memory_does_not_grow_with_the_reply(server: stub.StubServer, fault: stub.Fault) -> None:
    server.plan(None, *[fault] * 8)
    run = subprocess.run([sys.executable, "-c", _ENDLESS, server.url], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 20
    assert server.calls == 9


def test_one_failure_in_a_list_does_not_hide_the_other_replies(
    server: stub.StubServer, backbone: OpenAIBackbone
) -> None:
    server.reply = lambda body: body["messages"][-1]["content"]
    requests = [request(f"turn {n}", max_calls=1) for n in range(6)]
    server.plan(stub.status(500))
    outcomes = backbone.generate(requests)
    failed = [outcome for outcome in outcomes if isinstance(outcome, ModelError)]
    assert len(failed) == 1
    assert all(isinstance(o, ModelError) or o.text == f"turn {n}" for n, o in enumerate(outcomes))


def test_parallel_calls_are_capped() -> None:
    with (
        stub.StubServer(delay=0.05) as server,
        OpenAIBackbone("stub", base_url=server.url, max_parallel=3) as backbone,
    ):
        replies = backbone.generate([request(f"turn {n}") for n in range(12)])
        assert len(replies) == 12
        assert server.peak_parallel == 3


def test_retry_after_is_read_in_all_its_forms() -> None:
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    headers = httpx.Headers
    assert retry_after(headers({"retry-after": "7"}), now) == 7
    assert retry_after(headers({"retry-after-ms": "250"}), now) == 0.25
    assert retry_after(headers({"retry-after": "Fri, 01 May 2026 12:00:30 GMT"}), now) == 30
    assert retry_after(headers({"retry-after": "Fri, 01 May 2026 11:00:00 GMT"}), now) == 0
    for nonsense in ("", "soon", "-3", "nan", "inf"):
        assert retry_after(headers({"retry-after": nonsense}), now) is None


def test_backoff_doubles_up_to_its_cap_and_is_drawn_from_the_given_randomness() -> None:
    assert [backoff(n, random.Random(3)) for n in (1, 2, 9)] == [backoff(n, random.Random(3)) for n in (1, 2, 9)]
    low, high = _NoWait(), 8.0
    assert [backoff(n, low) for n in (1, 2, 3)] == [0.125, 0.25, 0.5]
    assert backoff(99, random.Random(1)) <= high
