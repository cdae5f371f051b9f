"""What an online run will take, before it runs: generations, memory and time. Rough on purpose, and says from what."""

from __future__ import annotations

from dataclasses import dataclass

from memkit.models import JSON
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rows import Row

PROMPT, REPLY = 900, 32
"""Tokens of a decision with five memories shown under the compact grammar, with the tokenizer of a current model."""
INSTRUCTIONS = 600
"""Of the prompt: what every decision of a role begins with."""
DECODE = 0.25
"""Decoding reaches this share of the throughput of a training pass: it waits for memory, not for arithmetic."""


@dataclass(frozen=True, slots=True)
class Size:
    steps: int
    per_step: int
    """Sampled replies."""
    played: int
    """Scenes played for states and validation in the whole run."""
    cache_gb: float
    """Keys and values of the replies that are decoded here at once."""
    minutes: float


def size(settings: OnlineSettings, model: JSON, parameters: int, *, flops: float, width: int, scenes: int = 36) -> Size:
    """`model`: its config.json. `flops`: per second, of a training pass. `width`: bytes of a number. `scenes` in a
    conversation; equal replies are trained on once, so the optimiser's part is an upper bound."""
    steps = sum(stage.steps for stage in settings.stages)
    if settings.learn == "episodes":
        local = settings.p_local * settings.rerolls if settings.algorithm == "logo" else 0.0
        per_step = round(settings.talks * scenes * (settings.group + local))
        played = 0
    else:
        per_step = settings.states * settings.group
        played = -(-steps // settings.period) * settings.talks * scenes
    played += (steps // settings.stop.every + 1) * settings.stop.users * scenes
    batches = -(-steps // settings.iterations)  # each is learned from so many times
    sampled = 2 * parameters * (PROMPT + REPLY / DECODE) * (batches * per_step + played)
    learned = 6 * parameters * (PROMPT + REPLY) * steps * per_step
    heads = model.get("num_key_value_heads") or model.get("num_attention_heads") or 1
    head = model.get("head_dim") or model.get("hidden_size", 0) // (model.get("num_attention_heads") or 1)
    per_token = 2 * model.get("num_hidden_layers", 0) * heads * head * width
    cache = 0 if settings.rollouts else min(settings.decode_batch, max(per_step, 1)) * (PROMPT + REPLY) * per_token
    return Size(steps, per_step, played, round(cache / 1e9, 2), round((sampled + learned) / flops / 60, 1))


def list_typical(settings: OnlineSettings) -> list[Row]:
    """Of a step: states of their own after instructions that all share, and different replies to each."""
    rows: list[Row] = []
    for state in range(settings.states if settings.learn != "episodes" else settings.talks):
        prompt = (*[0] * INSTRUCTIONS, *[state + 1] * (PROMPT - INSTRUCTIONS))
        rows += [Row(prompt, (reply,) * REPLY, None, 1.0) for reply in range(settings.group)]
    return rows
