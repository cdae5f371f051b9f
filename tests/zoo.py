"""Real architectures with random weights, small vocabularies of their kind, and the chat templates of their makers.

    folder = build(ZOO["llama3"], tmp_path)

Templates are abridged: the turns, the end-of-turn tokens, what is refused and what is printed beside the messages
(today's date, a thinking switch) are theirs. The heads are bent so that a random model writes short replies which keep
to a grammar and mean something: it notes facts, adds them, and answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memkit.roles.wording_1 import WORDING
from tests.tiny_models import CORPUS, Pieces

_CHATML = (
    "{%- if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{%- for message in messages %}{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
)
_THINKS = (
    _CHATML + "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}"
    "{%- endif %}{%- endif %}"
)
_LLAMA = (
    "{{- bos_token }}{%- if not date_string is defined %}{%- if strftime_now is defined %}"
    "{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}"
    "{%- endif %}{%- set system_message = '' %}{%- if messages[0]['role'] == 'system' %}"
    "{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: ' "
    "+ date_string + '\n\n' + system_message + '<|eot_id|>' }}{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
    "{{- message['content'] | trim + '<|eot_id|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
_TURNS = (
    "{%- for message in messages %}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif %}"
    "{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{%- endif %}"
)
_GEMMA2 = (
    "{{- bos_token }}{%- if messages[0]['role'] == 'system' %}{{- raise_exception('System role not supported') }}"
    "{%- endif %}" + _TURNS
)
_GEMMA3 = (
    "{{- bos_token }}{%- set first = '' %}{%- if messages[0]['role'] == 'system' %}"
    "{%- set first = messages[0]['content'] + '\n\n' %}{%- set messages = messages[1:] %}{%- endif %}"
    + _TURNS.replace("+ message['content'] | trim", "+ (first if loop.first else '') + message['content'] | trim")
)
_MISTRAL = (
    "{{- bos_token }}{%- for message in messages %}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{- raise_exception('After the optional system message, conversation roles must alternate') }}{%- endif %}"
    "{%- if message['role'] == 'user' %}{{- '[INST] ' + message['content'] + ' [/INST]' }}"
    "{%- else %}{{- ' ' + message['content'] + eos_token }}{%- endif %}{%- endfor %}"
)
_SMOLLM = (
    "{%- set system_message = messages[0]['content'] if messages[0]['role'] == 'system' else '' %}"
    "{{- '<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: ' "
    "+ strftime_now('%d %B %Y') + '\nReasoning Mode: ' + ('/think' if enable_thinking else '/no_think') "
    "+ '\n\n## Custom Instructions\n\n' + system_message + '<|im_end|>\n' }}"
    "{%- for message in messages if message['role'] != 'system' %}"
    "{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if not enable_thinking %}{{- '<think>\n\n</think>\n' }}{%- endif %}{%- endif %}"
)
_PHI = (
    "{%- for message in messages %}{{- '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{%- endif %}"
)


@dataclass(frozen=True, slots=True)
class Animal:
    name: str
    kind: str
    """transformers' name of the architecture."""
    template: str
    specials: tuple[str, ...]
    """The first is the end of text, the second the beginning (or padding), the third ends a turn."""
    pieces: Pieces = "bytes"
    bos: bool = False
    shape: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    vocabulary: int = 900
    eos: int = 2
    """Which special token the tokenizer calls its end. Gemma, Phi-3: the end of text, though another ends a turn."""


_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_GEMMA = ("<eos>", "<bos>", "<end_of_turn>", "<start_of_turn>", "<pad>")
_LAYERS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 96}
_HEADS = {"query_pre_attn_scalar": 16, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh"}
ZOO: Mapping[str, Animal] = {
    one.name: one
    for one in (
        Animal("qwen2", "qwen2", _CHATML + "{%- endif %}", _QWEN),
        Animal("qwen3", "qwen3", _THINKS, (*_QWEN, "<think>", "</think>"), shape={"head_dim": 24}),
        Animal(
            "llama3",
            "llama",
            _LLAMA,
            ("<|end_of_text|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"),
            bos=True,
        ),
        Animal("gemma2", "gemma2", _GEMMA2, _GEMMA, "metaspace", True, {**_LAYERS, **_HEADS}, eos=0),
        Animal("gemma3", "gemma3_text", _GEMMA3, _GEMMA, "metaspace", True, {**_LAYERS, **_HEADS}, eos=0),
        Animal("mistral", "mistral", _MISTRAL, ("</s>", "<s>", "[INST]", "[/INST]"), "metaspace", True, eos=0),
        Animal("smollm3", "smollm3", _SMOLLM, _QWEN, shape={"no_rope_layers": [1, 0]}),
        Animal(
            "phi3", "phi3", _PHI, ("<|endoftext|>", "<s>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"), eos=0
        ),
    )
}
WIDE = Animal("qwen2-wide", "qwen2", _CHATML + "{%- endif %}", _QWEN, vocabulary=151_936)
"""As many tokens as Qwen2.5 has, nearly all of them words."""


def build(animal: Animal, folder: Path, *, hidden: int = 48, seed: int = 0, talkative: bool = False) -> Path:
    """A checkpoint in `folder`. `talkative`: the head is left as it fell."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = _tokenizer(animal)
    ends = sorted({tokenizer.convert_tokens_to_ids(animal.specials[at]) for at in (animal.eos, *_turn_end(animal))})
    shape: dict[str, Any] = {
        "vocab_size": animal.vocabulary + 28 if animal.vocabulary < 100_000 else animal.vocabulary,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 8192,
        "initializer_range": 0.07,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": ends,
        "pad_token_id": None,
        **animal.shape,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(animal.kind, **shape))
    if not talkative:
        _bend(model, tokenizer, ends)
    model.generation_config.eos_token_id = ends
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _turn_end(animal: Animal) -> tuple[int, ...]:
    return () if animal.name == "mistral" else (2,)


def _bend(model: Any, tokenizer: Any, ends: list[int]) -> None:
    """One channel is the same for every token, and the head reads wishes from it: end where you may; note; add."""
    import torch

    table, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    with torch.no_grad():
        table[:, 0] = 1.0
        head[:, 0] = 0.0
        head[ends, 0] = 3.0
        for piece, token in tokenizer.get_vocab().items():
            if piece.lstrip("Ġ▁").isalpha() and piece.lstrip("Ġ▁").islower():
                head[token, 0] = 1.2
            elif piece in ("1", "A", "AD", "ADD", "Ġ1", "▁1", "Y"):
                head[token, 0] = 0.9
        for layer in model.modules():
            if type(layer).__name__.endswith("MLP"):
                layer.down_proj.weight[0] = 0.0
            elif type(layer).__name__.endswith("Attention"):
                layer.o_proj.weight[0] = 0.0


def _tokenizer(animal: Animal) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    specials = list(animal.specials)
    if animal.pieces == "bytes":
        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        alphabet, bytes_ = pre_tokenizers.ByteLevel.alphabet(), list[str]()
    else:
        inner = Tokenizer(models.BPE(byte_fallback=True, unk_token=specials[0]))
        inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
        inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        alphabet, bytes_ = [chr(code) for code in range(32, 127)], [f"<0x{byte:02X}>" for byte in range(256)]
    words = [*CORPUS, WORDING.extractor, WORDING.manager, WORDING.answerer]
    trainer = trainers.BpeTrainer(
        vocab_size=min(animal.vocabulary, 900), special_tokens=[*specials, *bytes_], initial_alphabet=alphabet
    )
    inner.train_from_iterator(words, trainer)
    stored = json.loads(inner.to_str())
    stored["added_tokens"] = [one for one in stored["added_tokens"] if one["content"] in specials]
    if animal.vocabulary > 100_000:
        _widen(stored["model"], animal.vocabulary - 64)
    inner = Tokenizer.from_str(json.dumps(stored))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=specials[animal.eos],
        bos_token=specials[1] if animal.bos else None,
        additional_special_tokens=[AddedToken(one, special=True) for one in specials[2:]],
    )
    tokenizer.chat_template = animal.template
    return tokenizer


def _widen(model: dict[str, Any], size: int) -> None:
    """Every pair of known pieces of letters is a piece, until there are so many."""
    vocabulary: dict[str, int] = model["vocab"]
    known = [piece for piece in vocabulary if piece.lstrip("Ġ").isalpha()]
    for first in known:
        for second in known:
            if len(vocabulary) >= size:
                return
            if first + second not in vocabulary and not second.startswith("Ġ"):
                vocabulary[first + second] = len(vocabulary)
                model["merges"].append([first, second])
