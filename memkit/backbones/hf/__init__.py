"""In-process generation: transformers + PEFT, one inference worker, batched at token granularity.

backbone.py     the public object: tokenise, submit, wait; adapters; digests
worker.py       the one thread that owns the model: admit, prefill, decode, finish
lanes.py        one module tree (the base, or the base under one adapter) with its cache and running rows
cache.py        key/value slots: rows join and leave a running batch
choose.py       logits to token: mask, temperature, nucleus, keyed noise, log-probs, near ties
masks.py        which tokens a grammar allows in a state, and how far the end is
vocabulary.py   tokens as text and bytes
prompting.py    chat messages to token ids, and the digests of tokenizer and template
checkpoint.py   finding, checking, hashing and loading a checkpoint
quiet.py        no progress bars while a checkpoint is read or written
adapters.py     a LoRA directory to a module tree that shares the base tensors
"""

from __future__ import annotations

import importlib.util

from memkit.errors import MissingExtra

for _package in ("torch", "transformers", "peft", "safetensors"):
    if importlib.util.find_spec(_package) is None:
        raise MissingExtra(
            "cannot run a model in this process",
            why=f"the package {_package} is not installed",
            fix='pip install "memkit[local]"',
        )

from memkit.backbones.hf.backbone import HFBackbone, ScoreRequest  # noqa: E402

__all__ = ["HFBackbone", "ScoreRequest"]
