"""vLLM's LoRA API as its source has it: routes, bodies, errors. A real HTTP server on a free port, stdlib only.

    with FakeVLLM(base="tiny", max_lora_rank=16) as server: …  server.url

Its "model" is `tests.adapters._make.log_probs` over the loaded file, so probes can pass and fail; asked to chat, it
notes the last quoted words as a fact and adds it. Faults are switched on by attribute: `runtime_loading = False`,
`swallow_loads = True`, `next_error = (status, body)`, `ignore_adapters`.

`python -m tests.fakes.vllm_server --base my-model` serves until interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.adapters._make import log_probs
from tests.stub_server import completion


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    """A step's replies are asked for all at once."""


class FakeVLLM:
    def __init__(
        self, *, base: str = "tiny", max_lora_rank: int = 16, api_key: str | None = None, port: int = 0
    ) -> None:
        self.base, self.max_lora_rank, self.api_key = base, max_lora_rank, api_key
        self.loras: dict[str, str] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.runtime_loading = True
        self.swallow_loads = False
        self.ignore_adapters = False
        self.next_error: tuple[int, Any] | None = None
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake._answer(self, "GET", None)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                fake._answer(self, "POST", json.loads(self.rfile.read(length)))

            def log_message(self, *args: object) -> None: ...

        self._server = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.02), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeVLLM:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler, method: str, body: Any) -> None:
        self.requests.append((method, handler.path, body))
        status, answer = self._route(handler, method, body)
        raw = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    def _route(self, handler: BaseHTTPRequestHandler, method: str, body: Any) -> tuple[int, Any]:
        if self.api_key is not None and handler.headers.get("Authorization") != f"Bearer {self.api_key}":
            return 401, {"error": "Unauthorized"}
        if self.next_error is not None and method == "POST":
            error, self.next_error = self.next_error, None
            return error
        if (method, handler.path) == ("GET", "/v1/models"):
            return 200, self._models()
        if (method, handler.path) == ("POST", "/v1/completions"):
            return self._complete(body)
        if (method, handler.path) == ("POST", "/v1/chat/completions"):
            return self._chat(body)
        if self.runtime_loading and (method, handler.path) == ("POST", "/v1/load_lora_adapter"):
            return self._load(body)
        if self.runtime_loading and (method, handler.path) == ("POST", "/v1/unload_lora_adapter"):
            return self._unload(body)
        return 404, {"detail": "Not Found"}

    def _models(self) -> dict[str, Any]:
        card = {"object": "model", "created": 0, "owned_by": "vllm", "permission": []}
        base = card | {"id": self.base, "root": f"/models/{self.base}", "parent": None, "max_model_len": 4096}
        loras = [
            card | {"id": name, "root": path, "parent": self.base, "max_model_len": None}
            for name, path in self.loras.items()
        ]
        return {"object": "list", "data": [base, *loras]}

    def _load(self, body: Any) -> tuple[int, Any]:
        name, path = body.get("lora_name"), body.get("lora_path")
        if not name or not path:
            return error("Both 'lora_name' and 'lora_path' must be provided.", "InvalidUserInput", 400)
        if name in self.loras and not body.get("load_inplace"):
            message = (
                f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set "
                "'load_inplace' to True."
            )
            return error(message, "InvalidUserInput", 400)
        if not (Path(path) / "adapter_config.json").is_file():
            message = f"Loading lora {name} failed: No adapter found for {path}"
            return error(message, "NotFoundError", 404)
        rank = json.loads((Path(path) / "adapter_config.json").read_text())["r"]
        if rank > self.max_lora_rank:
            message = f"LoRA rank {rank} is greater than max_lora_rank {self.max_lora_rank}."
            return error(message, "InternalServerError", 500)
        if not self.swallow_loads:
            self.loras[name] = path
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def _unload(self, body: Any) -> tuple[int, Any]:
        name = body.get("lora_name")
        if not name:
            return error("'lora_name' needs to be provided to unload a LoRA adapter.", "InvalidUserInput", 400)
        if name not in self.loras:
            return error(f"The lora adapter '{name}' cannot be found.", "NotFoundError", 404)
        del self.loras[name]
        return 200, f"Success: LoRA adapter '{name}' removed successfully."

    def _chat(self, body: Any) -> tuple[int, Any]:
        if (missing := self._missing(body["model"])) is not None:
            return missing
        asked, told = (str(body["messages"][at]["content"]) for at in (0, -1))
        quoted = re.findall(r'"([^"]+)"', told)
        text = "ADD" if "one operation per line" in asked else f"1 {quoted[-1]}" if quoted else "NONE"
        return 200, completion(text, body, token_ids=bool(body.get("return_token_ids")))

    def _missing(self, model: str) -> tuple[int, Any] | None:
        if model in (self.base, *self.loras):
            return None
        return error(f"The model `{model}` does not exist.", "NotFoundError", 404)

    def _complete(self, body: Any) -> tuple[int, Any]:
        model, ids = body["model"], body["prompt"]
        if (missing := self._missing(model)) is not None:
            return missing
        weights = None
        if model != self.base and not self.ignore_adapters:
            weights = (Path(self.loras[model]) / "adapter_model.safetensors").read_bytes()
        rows = [
            {str(token): {"logprob": value, "rank": 1, "decoded_token": f"<{token}>"}}
            for token, value in zip(ids, log_probs(weights, ids), strict=True)
        ]
        choice = {"index": 0, "text": "x", "finish_reason": "length", "prompt_logprobs": [None, *rows[1:]]}
        return 200, {"id": "cmpl-1", "object": "text_completion", "model": model, "choices": [choice]}


def error(message: str, kind: str, status: int) -> tuple[int, Any]:
    return status, {"error": {"message": message, "type": kind, "param": None, "code": status}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.vllm_server", description=__doc__)
    parser.add_argument("--base", default="tiny")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    with FakeVLLM(base=args.base, port=args.port) as server:
        print(f"{server.url} (no vLLM: its routes and errors, with scripted text)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
