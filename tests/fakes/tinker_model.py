"""A Tinker service with a real model behind it: what SDK 0.38 sends over HTTP is answered as that SDK reads it.

    with TinkerModel(folder) as service:                 its base model is called "tiny"
        os.environ["TINKER_BASE_URL"] = service.url

It samples, computes gradients, steps Adam and saves PEFT weights behind signed addresses. Each request is done when it
comes; `retrieve_future` only hands over.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest
import torch

from memkit.backbones.hf import checkpoint
from memkit_train.learn import lora

JSON = dict[str, Any]
PROTO = "application/x-protobuf"
KEY = "tml-of-the-tests"
Tensors = Mapping[str, torch.Tensor]


@dataclass
class Run:
    """A model under training."""

    model: Any
    rank: int
    optimizer: torch.optim.AdamW

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: tensor.detach().clone() for name, tensor in lora.trainable(self.model).items()}

    def load(self, weights: Tensors) -> None:
        with torch.no_grad():
            for name, tensor in lora.trainable(self.model).items():
                tensor.copy_(weights[name])


@dataclass
class TinkerModel:
    base: Path
    alpha: int = 8
    steps_until_death: int | None = None
    """After so many optimiser steps it answers nobody any more."""
    saves_names: Callable[[str], str] = lambda name: name
    """How it calls the tensors that it saves."""
    loses_files: bool = False
    tells_loss: bool = True
    losses: frozenset[str] = frozenset({"importance_sampling", "ppo"})
    received: list[tuple[str, list[Any]]] = field(default_factory=list)
    """(loss, data) of each gradient that was asked for."""
    rates: list[JSON] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    """All that ever came, but the headers."""
    dead: bool = False

    def __post_init__(self) -> None:
        self._loaded = checkpoint.load(self.base, dtype="float32", device="cpu")
        self._runs: dict[str, Run] = {}
        self._saved: dict[str, tuple[int, Tensors]] = {}
        self._samplers: dict[str, tuple[Run, Tensors]] = {}
        self._files: dict[str, bytes] = {}
        self._results: dict[str, JSON | bytes] = {}
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                service._serve(self, b"")

            def do_POST(self) -> None:
                service._serve(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def log_message(self, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.02), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> TinkerModel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dead = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if self.dead:
            handler.close_connection = True
            return
        path = handler.path.removeprefix("/api/v1/")
        with self._lock:
            self.bodies.append(body)
            if path.startswith("/signed/"):
                status, answer = (403, b"expired") if self.loses_files else (200, self._files[path])
            elif handler.headers.get("X-API-Key") != KEY:
                status, answer = 401, {"detail": "Unauthorized"}
            else:
                status, answer = self._route(path, body)
        if self.dead:
            handler.close_connection = True
            return
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", PROTO if isinstance(answer, bytes) else "application/json")
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    def _route(self, path: str, body: bytes) -> tuple[int, JSON | bytes]:
        if path == "forward_backward":
            return 200, self._promise(self._differentiate(body))
        asked: JSON = json.loads(body or b"{}")
        if path.endswith("/external_weights_urls"):
            _, run, _, kind, name, _ = path.split("/")
            prefix = f"/signed/{run}/{kind}/{name}/"
            urls = {file.removeprefix(prefix): self.url + file for file in self._files if file.startswith(prefix)}
            return 200, {"urls": urls, "expires": "2100-01-01T00:00:00Z"}
        match path:
            case "client/config" | "client/dynamic_config":
                return 200, {}
            case "create_session":
                return 200, {"session_id": "session", "type": "create_session"}
            case "session_heartbeat":
                return 200, {"type": "session_heartbeat"}
            case "sessions/session/finish":
                return 200, {}
            case "retrieve_future":
                return 200, self._results[asked["request_id"]]
            case "create_model":
                return self._create(asked)
            case "load_weights":
                return self._load(asked)
            case "get_info":
                return 200, {"model_id": asked["model_id"], "model_data": {"model_name": "tiny"}, "type": "get_info"}
            case "optim_step":
                return 200, self._promise(self._step(self._runs[asked["model_id"]], asked["adam_params"]))
            case "save_weights":
                return 200, self._promise({"path": self._save(asked, "weights"), "type": "save_weights"})
            case "save_weights_external":
                return 200, self._promise({"path": self._export(asked), "type": "save_weights_external"})
            case "save_weights_for_sampler":
                run = self._runs[asked["model_id"]]
                sampler = f"sampler-{len(self._samplers)}"
                self._samplers[sampler] = run, run.weights()
                return 200, self._promise({"sampling_session_id": sampler, "type": "save_weights_for_sampler"})
            case "asample":
                ids = [f"sequence-{number}" for number in range(asked["num_samples"])]
                return 200, self._promise(self._sample(asked)) | {"sample_sequence_ids": ids}
            case _:
                return 404, {"detail": f"nothing is at {path}"}

    def _promise(self, result: JSON | bytes) -> JSON:
        number = str(len(self._results))
        self._results[number] = result
        return {"request_id": number}

    def _begin(self, model_id: str, rank: int, seed: int) -> Run:
        loaded = copy.deepcopy(self._loaded.model)
        model = lora.attach(loaded, lora.LoraSpec(rank, self.alpha), seed=seed)
        optimizer = torch.optim.AdamW(lora.trainable(model).values())
        self._runs[model_id] = Run(model.eval(), rank, optimizer)
        return self._runs[model_id]

    def _create(self, asked: JSON) -> tuple[int, JSON]:
        shape = asked["lora_config"]
        if asked["base_model"] != "tiny":
            return 400, {"detail": f"no model is called {asked['base_model']}"}
        assert not shape["train_unembed"]
        model_id = f"run-{len(self._runs)}"
        self._begin(model_id, shape["rank"], shape["seed"])
        return 200, self._promise({"model_id": model_id, "type": "create_model"})

    def _load(self, asked: JSON) -> tuple[int, JSON]:
        if asked["path"] not in self._saved:
            return 404, {"detail": f"there is no {asked['path']}"}
        rank, weights = self._saved[asked["path"]]
        model_id = f"{asked['session_id']}:train:{asked['model_seq_id']}"
        self._begin(model_id, rank, 0).load(weights)
        return 200, self._promise({"path": asked["path"], "model_id": model_id, "type": "load_weights"})

    def _save(self, asked: JSON, kind: str) -> str:
        run = self._runs[asked["model_id"]]
        path = f"tinker://{asked['model_id']}/{kind}/{asked['path']}"
        self._saved[path] = run.rank, run.weights()
        return path

    def _export(self, asked: JSON) -> str:
        from peft import get_peft_model_state_dict
        from safetensors.torch import save

        model = self._runs[asked["model_id"]].model
        config = model.peft_config[lora.NAME].to_dict() | {"target_modules": "all-linear", "task_type": None}
        tensors = get_peft_model_state_dict(model, save_embedding_layers=False)
        path = self._save(asked, "external_weights")
        prefix = path.replace("tinker://", "/signed/")
        named = {self.saves_names(name): tensor.contiguous() for name, tensor in tensors.items()}
        self._files[f"{prefix}/adapter_model.safetensors"] = save(named)
        self._files[f"{prefix}/adapter_config.json"] = json.dumps(config, default=str).encode()
        return path

    @torch.no_grad()
    def _sample(self, asked: JSON) -> bytes:
        pb = _messages()
        run, weights = self._samplers[asked["sampling_session_id"]]
        params, count = asked["sampling_params"], asked["num_samples"]
        prompt = torch.tensor([[token for chunk in asked["prompt"]["chunks"] for token in chunk["tokens"]]])
        present = run.weights()
        run.load(weights)
        with torch.random.fork_rng():
            torch.manual_seed(params["seed"])
            out = run.model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=True,
                temperature=params["temperature"],
                top_k=0,
                top_p=1.0,
                max_new_tokens=params["max_tokens"],
                num_return_sequences=count,
                eos_token_id=params["stop"],
                pad_token_id=params["stop"][0],
                output_logits=True,
                return_dict_in_generate=True,
            )
        run.load(present)
        likely = torch.stack(out.logits, 1).float().log_softmax(-1)
        found = pb.SampleResponse()
        for row, ids in enumerate(out.sequences[:, prompt.shape[1] :].tolist()):
            end = next((at + 1 for at, one in enumerate(ids) if one in params["stop"]), None)
            said = ids[:end]
            logprobs = [likely[row, at, one].item() for at, one in enumerate(said)]
            found.sequences.add(
                stop_reason=pb.STOP_REASON_LENGTH if end is None else pb.STOP_REASON_STOP,
                tokens=np.asarray(said, np.int32).tobytes(),
                logprobs=np.asarray(logprobs, np.float32).tobytes(),
            )
        return found.SerializeToString()

    def _differentiate(self, body: bytes) -> JSON | bytes:
        pb = _messages()
        asked = pb.ForwardBackwardRequest.FromString(body)
        if asked.loss_fn not in self.losses:
            return {"error": f"the loss {asked.loss_fn} is not offered", "category": "user"}
        low = asked.loss_fn_config["clip_low_threshold"] if asked.loss_fn == "ppo" else 0.0
        high = asked.loss_fn_config["clip_high_threshold"] if asked.loss_fn == "ppo" else float("inf")
        found, total, batch = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord"), 0.0, list[Any]()
        for datum in asked.data:
            ids = _read(datum.model_input[0].encoded_text.tokens, np.int32)
            given = {
                name: _read(one.dense, np.int64 if "tokens" in name else np.float32)
                for name, one in datum.loss_fn_inputs.items()
            }
            logits = self._runs[asked.model_id].model(input_ids=ids[None].long(), use_cache=False).logits[0].float()
            logps = logits.log_softmax(-1).gather(-1, given["target_tokens"][:, None])[:, 0]
            ratio, advantages = (logps - given["logprobs"]).exp(), given["advantages"]
            loss = -torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages).sum()
            loss.backward()
            total += loss.item()
            batch.append(given)
            record = found.loss_fn_outputs.add(num_datums=1)
            raw = logps.detach().numpy().tobytes()
            record.fields["logprobs"].CopyFrom(
                pb.BatchedTensor(
                    data=raw, offsets=np.asarray([0, len(raw)], np.int64).tobytes(), dtype=pb.DTYPE_FLOAT32
                )
            )
        self.received.append((asked.loss_fn, batch))
        if self.tells_loss:
            found.metrics["loss:sum"] = total
        return found.SerializeToString()

    def _step(self, run: Run, params: JSON) -> JSON:
        self.rates.append(params)
        weights = list(lora.trainable(run.model).values())
        torch.nn.utils.clip_grad_norm_(weights, params["grad_clip_norm"])
        for group in run.optimizer.param_groups:
            group |= {"lr": params["learning_rate"], "betas": (params["beta1"], params["beta2"])}
            group |= {"eps": params["eps"], "weight_decay": params["weight_decay"]}
        run.optimizer.step()
        run.optimizer.zero_grad()
        self.dead = len(self.rates) == self.steps_until_death
        return {"metrics": {}, "type": "optim_step"}


def _read(raw: bytes, dtype: Any) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(raw, dtype).copy())


def _messages() -> Any:
    return pytest.importorskip("tinker.proto.tinker_public_pb2")
