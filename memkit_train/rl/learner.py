"""The model under training, and the runtime's engine decoding with it: one copy of the base, one LoRA, two users.

    with learner(base, parent, spec, seed=0) as one:
        name = one.publish()          after every optimiser step: the engine serves the weights of this moment
        replies = one.engine.generate([GenRequest(prompt, adapter=name)])

The engine's module tree shares every tensor with the tree that `RowTrainer` changes, so nothing is copied between them
and nothing is stale: raw log-probs (T = 1, no mask) of a sample are those that the trainer computes for the same ids.
Each publication has a name of its own, because what the engine keeps (prefixes) belongs to the weights of one moment.

This is the in-process engine: one model, in the process that samples; others may share the sheets of a step. With FSDP
the trainer's tensors are not whole in any process, so it could not decode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memkit.backbones.hf import HFBackbone, adapters, checkpoint
from memkit_train.learn import lora


@dataclass(slots=True)
class Learner:
    engine: HFBackbone
    model: Any
    """What RowTrainer trains: a PEFT model over the engine's base."""
    tree: Any
    """Its twin, which only the engine runs."""
    _published: int = 0

    @property
    def name(self) -> str:
        return f"now-{self._published}"

    def publish(self) -> str:
        """Serve the weights as they are now. Call it whenever they have changed."""
        before, self._published = self.name, self._published + 1
        self.engine.serve(self.name, self.tree)
        self.engine.unload_adapter(before)
        return self.name


@contextlib.contextmanager
def learner(
    base: Path | str,
    parent: Path | None,
    spec: lora.LoraSpec,
    *,
    seed: int = 0,
    dtype: str = "auto",
    device: str = "auto",
    batch: int = 256,
    gradient_checkpointing: bool = False,
) -> Generator[Learner]:
    """`batch`: rows that the engine decodes at once."""
    loaded = checkpoint.load(checkpoint.find(base), dtype=dtype, device=device)
    with HFBackbone(loaded, threads=1, max_batch=batch, window_ms=0.0, validity_sample=1.0) as engine:
        model = lora.attach(adapters.twin(loaded.model), spec, parent=parent, seed=seed)
        if gradient_checkpointing:
            model.enable_input_require_grads()
        made = Learner(engine, model, adapters.twin(model.get_base_model()))
        made.publish()
        yield made
