"""One seed, one thread, deterministic kernels: the same data and seed give the same adapter, byte for byte, on CPU."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator

import torch
from transformers import set_seed


@contextlib.contextmanager
def reproducible(seed: int) -> Generator[None]:
    """For the length of a training run; the caller's settings and random state come back afterwards."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    state = random.getstate()
    try:
        with torch.random.fork_rng():
            set_seed(seed)
            torch.set_num_threads(1)
            # On GPUs some kernels have no deterministic form; there, seeds give equal data and equal noise only.
            torch.use_deterministic_algorithms(not torch.cuda.is_available())
            yield
    finally:
        torch.use_deterministic_algorithms(strict)
        torch.set_num_threads(threads)
        random.setstate(state)
