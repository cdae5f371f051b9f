"""`FakeVLLM` with a model behind it: /v1/completions answers with what the checkpoint and the loaded LoRA really say.

    with ModelVLLM(checkpoint_folder) as server: …  server.url

Tokens are drawn as the in-process engine draws them, from the seed of the request, so that both can say the same.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from memkit.backbones.hf.choose import Wish, choose
from memkit.seams.backbone import Sampling
from tests.fakes.vllm_server import FakeVLLM


class ModelVLLM(FakeVLLM):
    def __init__(self, folder: Path) -> None:
        super().__init__(base=folder.name)
        self._folder, self._lock = folder, threading.Lock()
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._kept: dict[str | None, Any] = {}

    def _complete(self, body: Any) -> tuple[int, Any]:
        if (missing := self._missing(body["model"])) is not None:
            return missing
        with self._lock, torch.inference_mode():
            if "prompt_logprobs" in body:
                return 200, self._score(self._model(body["model"]), body)
            ids, likely = self._write(self._model(body["model"]), body)
        choice: dict[str, Any] = {"index": 0, "text": self._text(ids), "finish_reason": "stop"}
        choice["logprobs"] = {"tokens": [str(one) for one in ids], "token_logprobs": likely}
        choice |= {"token_ids": ids, "prompt_token_ids": body["prompt"]} if body.get("return_token_ids") else {}
        return 200, {"id": "cmpl-1", "object": "text_completion", "model": body["model"], "choices": [choice]}

    def _score(self, model: Any, body: Any) -> dict[str, Any]:
        ids = torch.tensor([body["prompt"]])
        every = model(ids).logits[0, :-1].float().log_softmax(-1)
        likely = every.gather(-1, ids[0, 1:, None])[:, 0].tolist()
        rows = [{str(token): {"logprob": one}} for token, one in zip(body["prompt"][1:], likely, strict=True)]
        return {"choices": [{"index": 0, "text": "", "prompt_logprobs": [None, *rows]}]}

    def _write(self, model: Any, body: Any) -> tuple[list[int], list[float]]:
        ids: list[int] = []
        likely: list[float] = []
        sampling = Sampling(body["temperature"], seed=body["seed"])
        fresh, past = body["prompt"], None
        while len(ids) < body["max_tokens"] and not (ids and ids[-1] in body["stop_token_ids"]):
            read = model(torch.tensor([fresh]), past_key_values=past, use_cache=True)
            (chosen,) = choose(read.logits[:, -1].float(), [Wish(sampling, "", len(ids), None)], near_tie=0)
            ids.append(chosen.token)
            likely.append(chosen.raw)
            fresh, past = [chosen.token], read.past_key_values
        return ids, likely

    def _text(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def _model(self, name: str) -> Any:
        place = self.loras.get(name)
        if place not in self._kept:
            plain: Any = AutoModelForCausalLM.from_pretrained(self._folder, local_files_only=True)
            self._kept = {place: plain if place is None else PeftModel.from_pretrained(plain, place).eval()}
        return self._kept[place]
