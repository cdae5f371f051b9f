"""An OpenAI-style server on loopback: chat completions (whole, streamed, with log-probs, tools and schemas),
embeddings, a request log, and faults on demand. Standard library only.

    with StubServer(reply="NOOP") as server:
        backbone = OpenAIBackbone("stub", base_url=server.url)
        server.plan(status(429, retry_after=0.1), None)       # the next call fails, the one after it does not

`python -m tests.stub_server [--port 8000] [--reply TEXT] [--delay S]` serves until interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = str | Mapping[str, Any] | Callable[[dict[str, Any]], "str | Mapping[str, Any]"]
"""Text of the assistant, a whole response body, or a function of the request body that gives either."""
Fault = Callable[["Handler"], None]
"""Answers a request its own way."""


@dataclass(frozen=True, slots=True)
class Seen:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    at: float


@dataclass(slots=True)
class StubServer:
    reply: Reply = "NOOP"
    delay: float = 0.0
    """Seconds a reply takes: the model's latency."""
    key: str | None = None
    """Requests without this key get 401."""
    refuses: frozenset[str] = frozenset()
    """Parameters answered with 400: logprobs, json_schema, json_object, tools, max_tokens, temperature…"""
    vague: bool = False
    """Refusals do not say what they refuse."""
    token_ids: bool = False
    """Give token ids, as vLLM does on request."""
    port: int = 0
    seen: list[Seen] = field(default_factory=list[Seen])
    peak_parallel: int = 0
    _plan: deque[Fault | None] = field(default_factory=deque["Fault | None"])
    _always: Fault | None = None
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _http: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> StubServer:
        self._http = _Server(("127.0.0.1", self.port), type("BoundHandler", (Handler,), {"stub": self}))
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), name="stub", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._http is not None and self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def calls(self) -> int:
        return len(self.seen)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [seen.body for seen in self.seen]

    def plan(self, *faults: Fault | None) -> None:
        """What the next requests meet, one each; None is a normal reply."""
        self._plan.extend(faults)

    def always(self, fault: Fault | None) -> None:
        self._always = fault

    def wait(self, seconds: float) -> bool:
        """Sleep, but not beyond the server's end; True when it ends."""
        return self._stop.wait(seconds)

    @contextlib.contextmanager
    def taken(self, seen: Seen) -> Iterator[Fault | None]:
        with self._lock:
            self.seen.append(seen)
            self._busy += 1
            self.peak_parallel = max(self.peak_parallel, self._busy)
            fault = self._plan.popleft() if self._plan else self._always
        try:
            yield fault
        finally:
            with self._lock:
                self._busy -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up early are what many tests are about."""


class Handler(BaseHTTPRequestHandler):
    stub: StubServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self.send_json(200, {"object": "list", "data": [{"id": "stub", "object": "model"}]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.loads(raw)
        seen = Seen(self.path, {name.lower(): value for name, value in self.headers.items()}, body, time.monotonic())
        with self.stub.taken(seen) as fault:
            if fault is not None:
                fault(self)
            elif self.stub.key is not None and seen.headers.get("authorization") != f"Bearer {self.stub.key}":
                self.refuse(401, "invalid_api_key", f"Incorrect API key provided: {seen.headers.get('authorization')}")
            elif self.path.endswith("/embeddings"):
                self.send_json(200, embeddings(body))
            elif self.path.endswith("/chat/completions"):
                self.chat(body)
            else:
                self.refuse(404, "not_found", "no such route")

    def chat(self, body: dict[str, Any]) -> None:
        for name in sorted(self.stub.refuses & features(body)):
            hint = "use 'max_completion_tokens' instead" if name == "max_tokens" else "for this model"
            text = "bad request" if self.stub.vague else f"Unsupported parameter: '{name}' is not supported {hint}"
            prompt = body["messages"][-1]["content"]
            return self.refuse(400, "unsupported_parameter", f"{text}. Your prompt was: {prompt}")
        if self.stub.delay and self.stub.wait(self.stub.delay):
            return None
        reply = self.stub.reply(body) if callable(self.stub.reply) else self.stub.reply
        if not isinstance(reply, str):
            return self.send_json(200, reply)
        if body.get("stream"):
            return self.send_events(chunks(reply, body))
        return self.send_json(200, completion(reply, body, token_ids=self.stub.token_ids))

    def refuse(self, status_code: int, code: str, message: str) -> None:
        self.send_json(status_code, {"error": {"message": message, "type": "invalid_request_error", "code": code}})

    def send_json(self, status_code: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        self.send_raw(status_code, json.dumps(data).encode(), "application/json", headers)

    def send_raw(
        self, status_code: int, raw: bytes, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.begin(status_code, {"content-type": content_type, "content-length": str(len(raw)), **(headers or {})})
        self.wfile.write(raw)
        self.wfile.flush()

    def begin(self, status_code: int, headers: Mapping[str, str]) -> None:
        self.send_response(status_code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_events(self, events: list[dict[str, Any]], *, pause: float = 0.0, done: bool = True) -> None:
        self.begin(200, {"content-type": "text/event-stream", "connection": "close"})
        for event in events:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.flush()
            if pause and self.stub.wait(pause):
                return
        if done:
            self.wfile.write(b"data: [DONE]\n\n")
            self.wfile.flush()
        self.close_connection = True

    def abort(self) -> None:
        """Reset the connection, as a crashed peer does."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def features(body: Mapping[str, Any]) -> set[str]:
    """What a request asks for, by the names that `refuses` uses."""
    return {name for name, value in body.items() if value is not None} | {
        body.get("response_format", {}).get("type", "")
    }


def tokens(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text) or [""]


def logprob_of(token: str) -> float:
    """Any number, but always the same one for a token."""
    return -(int(hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()[:4], 16) / 65536) * 2


def _logprobs(text: str) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": logprob_of(token)} for token in tokens(text)]}


def _usage(text: str, body: Mapping[str, Any]) -> dict[str, int]:
    prompt = sum(len(tokens(message["content"])) for message in body["messages"])
    return {"prompt_tokens": prompt, "completion_tokens": len(tokens(text)), "total_tokens": prompt + len(tokens(text))}


def completion(text: str, body: Mapping[str, Any], *, token_ids: bool = False) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if body.get("tools"):
        function = {"name": body["tools"][0]["function"]["name"], "arguments": text}
        message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    if body.get("logprobs"):
        choice["logprobs"] = _logprobs(text)
    if token_ids:
        choice["token_ids"] = list(range(len(tokens(text))))
    out = {"object": "chat.completion", "model": body["model"], "choices": [choice], "usage": _usage(text, body)}
    return out | ({"prompt_token_ids": [1, 2, 3]} if token_ids else {})


def chunks(text: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    base = {"object": "chat.completion.chunk", "model": body["model"]}
    out: list[dict[str, Any]] = [base | {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}]
    for token in tokens(text):
        choice: dict[str, Any] = {"index": 0, "delta": {"content": token}, "finish_reason": None}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": token, "logprob": logprob_of(token)}]}
        out.append(base | {"choices": [choice]})
    out.append(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if body.get("stream_options", {}).get("include_usage"):
        out.append(base | {"choices": [], "usage": _usage(text, body)})
    return out


def embeddings(body: Mapping[str, Any], dim: int = 64) -> dict[str, Any]:
    """A fixed random direction per word, summed: equal texts are equal, texts that share words are near."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        vector = [0.0] * dim
        for word in re.findall(r"\w+", text.casefold()) or [""]:
            noise = random.Random(word)
            vector = [value + noise.gauss(0, 1) for value in vector]
        data.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


# Faults


def status(code: int, *, retry_after: float | str | None = None) -> Fault:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    error = {"error": {"message": "no luck", "type": "server_error", "code": "stub"}}
    return lambda handler: handler.send_json(code, error, headers)


def reset_before_headers(handler: Handler) -> None:
    handler.abort()


def reset_after_headers(handler: Handler) -> None:
    handler.begin(200, {"content-type": "application/json", "content-length": "1000"})
    handler.wfile.write(b'{"choices"')
    handler.abort()


def hang(handler: Handler) -> None:
    """Take the request and say nothing."""
    handler.stub.wait(60)
    handler.close_connection = True


def slow_drip(handler: Handler) -> None:
    """A byte every 50 ms: each read succeeds, the whole never ends."""
    handler.begin(200, {"content-type": "application/json", "content-length": "1000000"})
    while not handler.stub.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def endless_body(handler: Handler) -> None:
    """As fast as it goes, up to 200 MB."""
    handler.begin(200, {"content-type": "application/json", "connection": "close"})
    for _ in range(3200):
        handler.wfile.write(b" " * 65536)
    handler.close_connection = True


def endless_events(handler: Handler) -> None:
    """An event stream without an end."""
    event = {"choices": [{"index": 0, "delta": {"content": "x" * 1000}}]}
    handler.send_events([event] * 50_000)


def broken_stream(handler: Handler) -> None:
    """Some text, then the connection is reset."""
    handler.begin(200, {"content-type": "text/event-stream"})
    handler.wfile.write(b'data: {"choices": [{"index": 0, "delta": {"content": "half "}}]}\n\n')
    handler.wfile.flush()
    handler.stub.wait(0.05)
    handler.abort()


def silent_stream(handler: Handler) -> None:
    """Some text, then nothing more."""
    handler.begin(200, {"content-type": "text/event-stream"})
    handler.wfile.write(b'data: {"choices": [{"index": 0, "delta": {"content": "half "}}]}\n\n')
    handler.wfile.flush()
    hang(handler)


def raw(content: bytes, content_type: str = "application/json", **headers: str) -> Fault:
    """A 200 with this body."""
    return lambda handler: handler.send_raw(200, content, content_type, headers)


not_json = raw(b"<html>It works!</html>", "text/html")
truncated_json = raw(b'{"choices": [{"message": {"content": "NO')
empty_choices = raw(b'{"choices": []}')
null_message = raw(b'{"choices": [{"index": 0}]}')
error_inside = raw(b'{"error": {"message": "upstream failed"}}')
deep_nesting = raw(b"[" * 200_000)
wrong_content_type = raw(b'{"choices": [{"message": {"content": "NOOP"}, "finish_reason": "stop"}]}', "text/plain")


def redirect(to: str) -> Fault:
    return lambda handler: handler.send_raw(307, b"", "text/plain", {"location": to})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stub_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--reply", default="NOOP")
    parser.add_argument("--delay", type=float, default=0.0)
    args = parser.parse_args()
    with StubServer(reply=args.reply, delay=args.delay, port=args.port) as server:
        print(server.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
