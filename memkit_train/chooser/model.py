"""The small manager in torch: the very computation that the runtime runs on onnxruntime, with LoRA matrices on the
upper layers and the heads to be trained. The lower layers are frozen, so what they make of a text is computed once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from memkit.backbones.small.encoder import KINDS, READS
from memkit.backbones.small.features import OF_CLAUSE, OF_PAIR
from memkit.backbones.small.shape import CONFIG, HEADS, LOWER, OPTIONS, WEIGHTS
from memkit.embedders.weights import find_minilm

RANK, ALPHA = 16, 32
_INNER = 128
_PREFIX = "base_model.model."
_FEATURES = {"clause": OF_CLAUSE, "relation": OF_PAIR}
_MODULES = ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense")


class Lora(nn.Module):
    """A linear layer with low-rank matrices beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, base.in_features) / math.sqrt(base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, given: Tensor) -> Tensor:
        return self.base(given) + (given @ self.down.T @ self.up.T) * (ALPHA / RANK)


class Head(nn.Module):
    def __init__(self, width: int, features: int, options: int) -> None:
        super().__init__()
        self.inner = nn.Linear(4 * width + features, _INNER)
        self.outer = nn.Linear(_INNER, options)

    def forward(self, first: Tensor, second: Tensor, features: Tensor) -> Tensor:
        given = torch.cat([first, second, (first - second).abs(), first * second, features], dim=-1)
        return self.outer(torch.tanh(self.inner(given)))


class Chooser(nn.Module):
    def __init__(self, path: str | None = None) -> None:
        super().__init__()
        self.folder = find_minilm(path)
        config = BertConfig.from_pretrained(self.folder, attn_implementation="sdpa")
        bert = BertModel(config, add_pooling_layer=False)
        bert.load_state_dict(load_file(self.folder / "model.safetensors"), strict=False)  # there is a pooler, unused
        bert.requires_grad_(False).eval()
        self.lower = _FrozenLayers(bert, Tokenizer.from_file(str(self.folder / "tokenizer.json")))
        self.upper = nn.ModuleList(bert.encoder.layer[LOWER:])
        self.loras: dict[str, Lora] = {}
        for number, layer in enumerate(self.upper, LOWER):
            for name, module in list(layer.named_modules()):
                if isinstance(module, nn.Linear):
                    owner = layer.get_submodule(name.rpartition(".")[0])
                    lora = Lora(module)
                    setattr(owner, name.rpartition(".")[2], lora)
                    self.loras[f"encoder.layer.{number}.{name}"] = lora
        width = int(bert.config.hidden_size)
        self.marks = nn.Parameter(0.02 * torch.randn(len(KINDS), width))
        self.heads = nn.ModuleDict({task: Head(width, _FEATURES[task], len(OPTIONS[task])) for task in OPTIONS})

    def learning(self) -> list[nn.Parameter]:
        return [one for one in self.parameters() if one.requires_grad]

    def forward(self, task: str, firsts: Sequence[str], seconds: Sequence[str], features: Tensor) -> Tensor:
        """Scores of the options of one task: one row per pair."""
        kinds = READS[task]  # pyright: ignore[reportArgumentType]
        pairs = [
            (self.lower.read(kinds[0], first), self.lower.read(kinds[1], second))
            for first, second in zip(firsts, seconds, strict=True)
        ]
        longest = max(len(first) + len(second) for first, second in pairs)
        given = torch.zeros(len(pairs), longest, self.marks.shape[1])
        ours, theirs = torch.zeros(len(pairs), longest), torch.zeros(len(pairs), longest)
        for row, (first, second) in enumerate(pairs):
            given[row, : len(first)] = first
            given[row, len(first) : len(first) + len(second)] = second
            ours[row, : len(first)], theirs[row, len(first) : len(first) + len(second)] = 1, 1
        state = (
            given
            + ours[..., None] * self.marks[KINDS[kinds[0]][0]]
            + theirs[..., None] * self.marks[KINDS[kinds[1]][0]]
        )
        mask = torch.where((ours + theirs) > 0, 0.0, torch.finfo(torch.float32).min)[:, None, None, :]
        for layer in self.upper:
            out = layer(state, mask)
            state = out[0] if isinstance(out, tuple) else out
        return self.heads[task](_mean(state, ours), _mean(state, theirs), features)

    # ---- files -----------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        lora: dict[str, Tensor] = {}
        for name, one in self.loras.items():
            lora[f"{_PREFIX}{name}.lora_A.weight"] = one.down.detach().contiguous()
            lora[f"{_PREFIX}{name}.lora_B.weight"] = one.up.detach().contiguous()
        save_file(lora, folder / WEIGHTS)
        heads = {"marks": self.marks.detach()} | {name: one.detach() for name, one in self.heads.state_dict().items()}
        save_file({name: one.contiguous() for name, one in heads.items()}, folder / HEADS)
        targets = sorted({name.rpartition(".")[2] for name in self.loras})
        config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": targets, "bias": "none"}
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        lora = load_file(folder / WEIGHTS)
        with torch.no_grad():
            for name, one in self.loras.items():
                one.down.copy_(lora[f"{_PREFIX}{name}.lora_A.weight"])
                one.up.copy_(lora[f"{_PREFIX}{name}.lora_B.weight"])
            heads: Mapping[str, Tensor] = load_file(folder / HEADS)
            self.marks.copy_(heads["marks"])
            self.heads.load_state_dict({name: one for name, one in heads.items() if name != "marks"})


class _FrozenLayers:
    """What the frozen layers make of a text, kept in half precision."""

    def __init__(self, bert: Any, tokenizer: Tokenizer) -> None:
        self._embed, self._layers, self._tokenizer = bert.embeddings, bert.encoder.layer[:LOWER], tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._kept: dict[tuple[str, str], Tensor] = {}

    @torch.no_grad()
    def read(self, kind: str, text: str) -> Tensor:
        found = self._kept.get((kind, text))
        if found is None:
            ids = self._tokenizer.encode(text[:2_000]).ids
            most = KINDS[kind][1]
            ids = ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]
            state = self._embed(torch.tensor([ids]))
            for layer in self._layers:
                out = layer(state)
                state = out[0] if isinstance(out, tuple) else out
            found = self._kept[kind, text] = state[0].to(torch.float16)
        return found.float()


def _mean(state: Tensor, mask: Tensor) -> Tensor:
    return (state * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
