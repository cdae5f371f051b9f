"""Make the tiny model from nothing: a curriculum of generated decisions, then a stage of bad habits.

What made it learn within minutes of one CPU thread, in the order of what it brought: the loss is on replies only; short
prompts in small batches first (copying a value is learned from extraction within half a minute and everything else
builds on it); few shown memories before many; rare kinds of decisions more often than they occur.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from memkit.embedders.base import Embedder
from memkit_train.tiny.examples import Diet, Example, examples, world_of
from memkit_train.tiny.packs import Labels, collate_packs, packs
from memkit_train.tiny.tokenizer import END, FRAMES, PAD, build_tokenizer
from memkit_train.worlds import lexicon
from memkit_train.worlds.language import PREDICATES, Meaning, Mode, write

KEEP: Mapping[str, float] = {
    "extractor/fact": 0.25, "extractor/none": 0.5, "manager/new": 0.4, "manager/soft": 0.25, "manager/plan": 0.5,
    "manager/change": 0.7,
}  # fmt: skip
"""Share of the examples of a kind that are trained on; 1 where nothing is said."""


ROPE_BASE = 1e7
MATCH, SHARPNESS = 0.95, 1.5


@dataclass(frozen=True, slots=True)
class Shape:
    """Qwen3 in small."""

    hidden: int = 96
    layers: int = 4
    heads: int = 4
    feed_forward: int = 256


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    tokens: int
    """Prompt and reply tokens to train on."""
    batch_tokens: int
    diet: Diet
    keep: Mapping[str, float] = field(default_factory=lambda: dict(KEEP))
    lr: float = 3e-3
    final_lr: float = 3e-3
    """Reached linearly at the end of the stage."""
    seed: int = 0
    packs: int = 0
    """Look-up packs per step, beside the played examples."""


STAGES = (
    Stage("copy", 450_000, 700, Diet(roles=("extractor",), messy=0.0, context_turns=(0,)), keep={}),
    Stage("drill", 3_500_000, 500, Diet(roles=("extractor",), messy=0.0, context_turns=(0,)), keep={}, lr=2e-3,
          final_lr=1.5e-3, seed=1, packs=4),
    Stage("all", 3_000_000, 1_600, Diet(), lr=1.5e-3, final_lr=5e-5, seed=2),
)  # fmt: skip
BIAS = Stage("bias", 300_000, 1_600, Diet(biased=True, roles=("manager",)), keep={}, lr=6e-4, final_lr=1e-4, seed=4)


@dataclass(frozen=True, slots=True)
class Item:
    role: str
    kind: str
    prompt: list[int]
    reply: list[int]


Log = Callable[[dict[str, Any]], None]


def make_tokenizer(embedder: Embedder, seed: int, episodes: int = 150) -> PreTrainedTokenizerFast:
    """Every word of the closed world comes up within a hundred episodes or so."""
    rng = random.Random(seed)
    seen = list(examples([world_of(index, seed, rng) for index in range(episodes)], embedder, Diet(), seed=seed))
    texts = [message.content for one in seen for message in one.prompt.messages[1:]] + [one.reply for one in seen]
    texts += closed_texts() * 2
    systems = {one.prompt.messages[0].content for one in seen}
    return build_tokenizer(texts, [*FRAMES, *sorted(systems)])


def closed_texts() -> list[str]:
    """Every key and every value of the closed world: the rare ones too must be one token."""
    modes: tuple[Mode, ...] = ("plain", "also", "gone")
    keys = [
        write(Meaning(name, attribute, ("x",), mode))
        for name in lexicon.PEOPLE for attribute in PREDICATES for mode in modes
    ]  # fmt: skip
    values = [f"x a {animal} named {name}" for animal in lexicon.ANIMALS for name in lexicon.PET_NAMES]
    values += [f"x move to {city} x {city} {city}" for city in lexicon.CITIES]
    values += [f"x work as a {job} x {job} {job}" for job in lexicon.JOBS]
    return keys + values


def make_model(tokenizer: PreTrainedTokenizerFast, shape: Shape, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=shape.hidden, intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.heads,
        head_dim=shape.hidden // shape.heads, max_position_embeddings=2048, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        initializer_range=0.5 / math.sqrt(shape.hidden), bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END), pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):  # a residual stream that starts calm
            weight.data /= math.sqrt(2 * shape.layers)
    _match_first(model)
    return model


@torch.no_grad()
def _match_first(model: Qwen3ForCausalLM) -> None:
    """From the second layer on, half of the heads begin by looking for tokens like their own (keys made like queries):
    finding a thing again is most of what a memory manager does, and the slowest thing to learn from nothing. Slow
    rotations (`ROPE_BASE`) keep that comparison meaningful over a prompt's length."""
    for layer in list(model.model.layers)[1:]:
        attention = layer.self_attn
        half = model.config.num_attention_heads // 2 * attention.head_dim
        query = attention.q_proj.weight[:half]
        attention.k_proj.weight[:half] = MATCH * query + math.sqrt(1 - MATCH**2) * attention.k_proj.weight[:half]
        attention.q_norm.weight *= SHARPNESS


def encode(found: Sequence[Example], tokenizer: PreTrainedTokenizerFast) -> list[Item]:
    prompts = tokenizer.apply_chat_template(
        [[{"role": m.role, "content": m.content} for m in one.prompt.messages] for one in found],
        add_generation_prompt=True, tokenize=False,
    )  # fmt: skip
    inputs = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    replies = tokenizer([one.reply + END for one in found], add_special_tokens=False)["input_ids"]
    return [Item(one.role, one.kind, p, r) for one, p, r in zip(found, inputs, replies, strict=True)]


def batches(stage: Stage, seed: int, tokenizer: PreTrainedTokenizerFast, embedder: Embedder) -> Iterator[list[Item]]:
    """Fresh examples for ever, cut into batches of similar length."""
    rng = random.Random(f"{seed}/{stage.name}")
    first = stage.seed * 1_000_000
    while True:
        found = examples(
            [world_of(first + n, seed, rng) for n in range(60)], embedder, stage.diet, seed=rng.randrange(1 << 30)
        )
        first += 60
        kept = [one for one in found if rng.random() < stage.keep.get(f"{one.role}/{one.kind}", 1.0)]
        items = encode(kept, tokenizer)
        items.sort(key=lambda one: len(one.prompt) + len(one.reply) + 8 * rng.random())
        cut = list(_cut(items, stage.batch_tokens))
        rng.shuffle(cut)
        yield from cut


def _cut(items: Sequence[Item], budget: int) -> Iterator[list[Item]]:
    current: list[Item] = []
    for one in items:
        if current and (len(one.prompt) + len(one.reply)) * (len(current) + 1) > budget:
            yield current
            current = []
        current.append(one)
    if current:
        yield current


def collate(items: Sequence[Item]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(ids padded on the right, rows, columns, targets): only the positions that predict a reply token count."""
    width = max(len(one.prompt) + len(one.reply) for one in items) - 1
    ids = torch.zeros((len(items), width), dtype=torch.long)
    rows: list[int] = []
    columns: list[int] = []
    targets: list[int] = []
    for row, one in enumerate(items):
        joined = one.prompt + one.reply
        ids[row, : len(joined) - 1] = torch.tensor(joined[:-1])
        rows += [row] * len(one.reply)
        columns += range(len(one.prompt) - 1, len(joined) - 1)
        targets += one.reply
    return ids, torch.tensor(rows), torch.tensor(columns), torch.tensor(targets)


def reply_logits(
    model: Qwen3ForCausalLM, items: Sequence[Item]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Logits at the reply positions alone (the vocabulary is a third of a tiny model's work), rows, targets, tokens."""
    ids, rows, columns, targets = collate(items)
    hidden = model.model(ids).last_hidden_state[rows, columns]
    return model.lm_head(hidden), rows, targets, ids.numel()


def run_stage(
    model: Qwen3ForCausalLM, stage: Stage, tokenizer: PreTrainedTokenizerFast, embedder: Embedder, seed: int,
    log: Log | None = None,
) -> None:  # fmt: skip
    drill = Drill(model, tokenizer, random.Random(f"{seed}/{stage.name}/drill")) if stage.packs else None
    weights = [*model.parameters(), *(drill.probe.parameters() if drill else ())]
    optimiser = torch.optim.AdamW(weights, lr=stage.lr, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    done = steps = last = 0
    loss_sum, started = 0.0, time.process_time()
    for items in batches(stage, seed, tokenizer, embedder):
        if done >= stage.tokens:
            break
        rate = stage.lr + (stage.final_lr - stage.lr) * done / stage.tokens
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (steps + 1) / 100)
        logits, _, targets, tokens = reply_logits(model, items)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        if drill is not None:
            drilled, more = drill.loss(stage.packs)
            loss, tokens = 0.5 * loss + drilled, tokens + more
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        done, steps, loss_sum = done + tokens, steps + 1, loss_sum + loss.item()
        if log and steps % 100 == 0:
            log({
                "stage": stage.name, "steps": steps, "share": round(min(1.0, done / stage.tokens), 3),
                "loss": round(loss_sum / (steps - last), 4), "cpu_s": round(time.process_time() - started, 1),
            } | (drill.seen() if drill else {}))  # fmt: skip
            loss_sum, last = 0.0, steps
    model.eval()


class Drill:
    """Look-up packs, with a probe that is thrown away afterwards: on every name, predicate and value it must tell the
    number of the memory that holds it. That trains the look-up where it happens, before any reply depends on it."""

    def __init__(self, model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> None:
        self.model, self.labels = model, Labels(tokenizer)
        self.source = packs(tokenizer, rng, lines=5)
        self.probe = torch.nn.Linear(model.config.hidden_size, 10)
        self._hits: list[float] = []

    def loss(self, count: int) -> tuple[torch.Tensor, int]:
        """Reply loss plus probe loss of `count` packs, and the tokens that they cost."""
        found = [next(self.source) for _ in range(count)]
        inputs, rows, columns, targets = collate_packs(found)
        hidden = self.model.model(**inputs).last_hidden_state
        loss = torch.nn.functional.cross_entropy(self.model.lm_head(hidden[rows, columns]), targets)
        at_row, at_column, handle = self.labels.of(found)
        guess = self.probe(hidden[at_row, at_column])
        self._hits.append(float((guess.argmax(-1) == handle).float().mean()))
        return loss + torch.nn.functional.cross_entropy(guess, handle), inputs["input_ids"].numel()

    def seen(self) -> dict[str, float]:
        """Share of the probe's answers that were right since the last call."""
        share, self._hits = sum(self._hits) / max(len(self._hits), 1), []
        return {"probe": round(share, 3)}


@torch.no_grad()
def exact(model: Qwen3ForCausalLM, items: Sequence[Item], size: int = 64) -> dict[str, tuple[float, int]]:
    """Share of replies that greedy decoding writes exactly, by role/kind, with counts (teacher-forced: the same
    event)."""
    model.eval()
    hits: dict[str, list[bool]] = defaultdict(list)
    ordered = sorted(items, key=lambda one: len(one.prompt))
    for start in range(0, len(ordered), size):
        part = ordered[start : start + size]
        logits, rows, targets, _ = reply_logits(model, part)
        wrong = set(rows[logits.argmax(-1) != targets].tolist())
        for row, one in enumerate(part):
            hits[f"{one.role}/{one.kind}"].append(row not in wrong)
            hits[one.role].append(row not in wrong)
    return {name: (sum(found) / len(found), len(found)) for name, found in sorted(hits.items())}


def scaled(stages: Sequence[Stage], factor: float) -> tuple[Stage, ...]:
    """The same curriculum with less (or more) of everything: for tests and for trying things out."""
    return tuple(replace(stage, tokens=int(stage.tokens * factor)) for stage in stages)
