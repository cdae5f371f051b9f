"""Tiny random checkpoints and adapters, made on the spot: real transformers + PEFT files, a few hundred kilobytes.

tiny_checkpoint(folder)                          Qwen3-shaped, byte-level BPE with a ChatML template
tiny_checkpoint(folder, family="llama", pieces="metaspace")
tiny_adapter(folder, base=checkpoint, seed=1)    a LoRA with non-zero weights, saved the way PEFT saves it
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

Family = Literal["qwen3", "qwen2", "llama"]
Pieces = Literal["bytes", "metaspace"]

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = [
    "Ana adopted a dog named Buddy in March. She lives in Lisbon and works as a nurse.",
    "ADD Ana has a dog named Buddy\nUPDATE 1 Ana has two dogs, Buddy and Scout\nDELETE 2\nNOOP",
    "The user said that the meeting moved to Friday. The assistant answered with a question.",
    "USE 1 3\nANSWER two dogs\nUSE NONE\nANSWER unknown",
]


def tiny_checkpoint(
    folder: Path | str,
    *,
    family: Family = "qwen3",
    pieces: Pieces = "bytes",
    hidden: int = 64,
    layers: int = 2,
    vocab: int = 512,
    seed: int = 0,
    context: int = 4096,
    spread: float = 0.2,
) -> Path:
    """`vocab` is at most this many tokens. `spread` scales the random weights: large enough for tokens to differ."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = Path(folder)
    tokenizer = tiny_tokenizer(pieces=pieces, vocab=vocab)
    shape: dict[str, Any] = {
        "vocab_size": max(vocab, len(tokenizer)),
        "hidden_size": hidden,
        "intermediate_size": hidden * 3,
        "num_hidden_layers": layers,
        "num_attention_heads": max(2, hidden // 32),
        "num_key_value_heads": max(1, hidden // 64),
        "max_position_embeddings": context,
        "initializer_range": spread,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
        "pad_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
    }
    if family == "qwen3":
        shape["head_dim"] = 32
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_tokenizer(*, pieces: Pieces = "bytes", vocab: int = 512) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    if pieces == "bytes":
        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        inner = Tokenizer(models.BPE(byte_fallback=True, unk_token="<|endoftext|>"))
        inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        alphabet = [chr(code) for code in range(33, 127)]
        special += [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=special, initial_alphabet=alphabet)
    inner.train_from_iterator(CORPUS, trainer)
    if pieces == "metaspace":  # byte tokens belong to the model, not to the specials that text may never contain
        stored = json.loads(inner.to_str())
        stored["added_tokens"] = [token for token in stored["added_tokens"] if not token["content"].startswith("<0x")]
        inner = Tokenizer.from_str(json.dumps(stored))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=special[1:2],
    )
    tokenizer.chat_template = CHATML
    return tokenizer


def tiny_adapter(folder: Path | str, *, base: Path | str, seed: int = 1, rank: int = 4, scale: float = 0.3) -> Path:
    """A LoRA over all linear layers whose output clearly differs from the base's."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = Path(folder)
    model = AutoModelForCausalLM.from_pretrained(base)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(LINEAR), task_type="CAUSAL_LM")
    peft_model = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in peft_model.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale / rank**0.5)
    peft_model.save_pretrained(folder)
    return folder
