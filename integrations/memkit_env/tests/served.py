"""An OpenAI-style endpoint on loopback, whose models are functions of the messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    request_queue_size = 256


Model = Callable[[list[dict[str, str]]], str]


@contextmanager
def serve(models: Mapping[str, Model]) -> Generator[str]:
    """The base URL. A model that is not there is 404."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
            model = models.get(body["model"])
            if model is None:
                return self._answer(404, {"error": {"message": "no such model"}})
            text = model(body["messages"])
            words = text.split()
            cut = len(words) > body.get("max_tokens", 1 << 20)
            said = " ".join(words[: body["max_tokens"]]) if cut else text
            message = {"role": "assistant", "content": said}
            choice = {"index": 0, "message": message, "finish_reason": "length" if cut else "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": 1 + len(words)}
            return self._answer(
                200,
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": body["model"],
                    "choices": [choice],
                    "usage": usage,
                },
            )

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args: Any) -> None:
            """Silent."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
