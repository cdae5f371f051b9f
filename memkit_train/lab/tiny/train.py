"""Make the tiny model from nothing: a curriculum of generated decisions, then a stage of bad habits.

What made it learn on one CPU thread:
- The loss is on replies only; the order of what is learned is in curriculum.py.
- Whom a fact is about and what it says of them is one word (tokenizer.py), and begins as the sum of its parts.
- Some heads begin by looking one token back, some by looking for tokens like their own and copying what they find. Only
  an initialisation: the architecture is the stock one.
- Throw-away probes ask where the looked-up things are (probe.py).
Finding that two lines are about the same thing comes suddenly, a good way into the long stage; before that the verbs
are guessed. The log shows when: `probe` rises first, then `loss` falls.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from memkit.seams.embedder import Embedder
from memkit_train.lab.tiny.curriculum import Drill
from memkit_train.lab.tiny.examples import Diet, Example, examples, world_of
from memkit_train.lab.tiny.probe import CLASSES, FOUND, LINES, READ, Labels, Places
from memkit_train.lab.tiny.tokenizer import ASKED, END, FRAMES, KEY, PAD, build_tokenizer, parse_asking, words
from memkit_train.lab.worlds import lexicon
from memkit_train.lab.worlds.language import PREDICATES, Meaning, Mode, write
from memkit_train.lab.worlds.model import Level

PROBES: Mapping[str, tuple[int, float]] = {LINES: (2, 0.5), FOUND: (4, 1.0), READ: (3, 0.5)}
"""After which layer each probe listens, and its weight in the loss."""
ROPE_BASE, BLANK = 1e7, 0.3
MATCH, SHARPNESS, LOOK_BACK_SHARPNESS = 0.95, 1.0, 2.5


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Qwen3 in small."""

    hidden: int = 96
    layers: int = 4
    heads: int = 4
    head: int = 32
    feed_forward: int = 192


@dataclass(frozen=True, slots=True)
class TrainingItem:
    role: str
    kind: str
    prompt: list[int]
    reply: list[int]


WARM_UP = 100
OFTEN = 0.12
"""Share of the episodes in which a word of the open world itself comes up; a name comes up in its own."""
STOCK = ("unknown", "one two three four", "ADD UPDATE DELETE NOOP USE NONE ANSWER", "no longer also and as planned")
Log = Callable[[dict[str, Any]], None]


def make_tokenizer(
    embedder: Embedder, seed: int, episodes: int = 150, level: Level = "closed"
) -> PreTrainedTokenizerFast:
    """Every word of the closed world comes up within a hundred episodes or so. In the open one, words that come up in
    many episodes are the world's, and all others are names, which are spelt in syllables."""
    rng = random.Random(seed)
    worlds = [world_of(index, seed, rng, level) for index in range(episodes)]
    seen = list(examples(worlds, embedder, Diet(level=level), seed=seed))
    texts = [message.content for one in seen for message in one.prompt.messages[1:]] + [one.reply for one in seen]
    fixed = [*FRAMES, *sorted({one.prompt.messages[0].content for one in seen})]
    if level == "closed":
        return build_tokenizer([*texts, *closed_texts() * 2], fixed)
    said = Counter(word for one in worlds for word in {w for turn in one.turns for w in words(turn.text)})
    often = [word for word, count in said.items() if count >= OFTEN * episodes]
    asked_in = [question.text for one in worlds for question in one.questions]
    asked_often = Counter(word for text in asked_in for word in set(words(text)))
    often += [word for word, count in asked_often.items() if count >= OFTEN * episodes]
    often += [word for phrase in (*PREDICATES.values(), *STOCK) for word in words(phrase)]
    return build_tokenizer(texts, fixed, known=often)


def closed_texts() -> list[str]:
    """Every key and every value of the closed world: the rare ones too must be one token."""
    modes: tuple[Mode, ...] = ("plain", "also", "gone")
    keys = [
        write(Meaning(name, attribute, ("x",), mode))
        for name in lexicon.PEOPLE
        for attribute in PREDICATES
        for mode in modes
    ]
    keys += [f"x {key}" for key in keys]
    values = [f"x a {animal} named {name}" for animal in lexicon.ANIMALS for name in lexicon.PET_NAMES]
    values += [f"x move to {city} x {city} {city}" for city in lexicon.CITIES]
    values += [f"x work as a {job} x {job} {job}" for job in lexicon.JOBS]
    questions = [template.replace("{s}", name) + "?" for template in ASKED for name in lexicon.PEOPLE]
    return keys + values + questions + [f"{name}'s x {name}'s" for name in lexicon.PEOPLE]


def make_model(tokenizer: PreTrainedTokenizerFast, shape: ModelShape, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.head,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        initializer_range=0.5 / math.sqrt(shape.hidden),
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.get_vocab()[PAD],
    )
    model = Qwen3ForCausalLM(config)
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):  # a residual stream that starts calm
            weight.data /= math.sqrt(2 * shape.layers)
    _alike_first(model, tokenizer)
    _look_back_first(model)
    _match_first(model)
    _copy_first(model)
    return model


@torch.no_grad()
def _alike_first(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Words begin as the sum of what they are made of: "Ana lives in" of "Ana" and "lives in", " Ana" of "Ana" and a
    blank. So a fact resembles the memory of the same thing from the first step, and names need not be learned twice."""
    table = model.model.embed_tokens.weight
    drawn = torch.Generator().manual_seed(1)
    blank = torch.randn(table.shape[1], generator=drawn) * table.std()
    parts: dict[str, torch.Tensor] = {}

    def part(text: str) -> torch.Tensor:
        if text not in parts:
            parts[text] = torch.randn(table.shape[1], generator=drawn) * table.std()
        return parts[text]

    for piece, token in sorted(tokenizer.get_vocab().items()):
        text = tokenizer.convert_tokens_to_string([piece])
        plain = text.strip(" ")
        if not plain:
            continue
        key = KEY.fullmatch(plain)
        parts_of = key.groups() if key else parse_asking(plain) or (plain,)
        made = sum((part(one) for one in parts_of if one), torch.zeros(()))
        made = made + BLANK * blank if text.startswith(" ") else made
        table[token] = made * table.std() / made.std()


@torch.no_grad()
def _look_back_first(model: Qwen3ForCausalLM) -> None:
    """Two heads of the first layer begin by looking one and two tokens back, whatever stands there, so that "lives in"
    knows whose it is from the start. A constant in the embeddings is their query and key; the fastest two rotations
    turn it by the wanted distance. Only an initialisation: the architecture stays the stock one."""
    table = model.model.embed_tokens.weight
    table[:, 0] = 0.7 * float(table.std()) * math.sqrt(table.shape[1])
    attention: Any = model.model.layers[0].self_attn
    size, pairs = attention.head_dim, (0, 1)
    frequencies = [float(model.model.rotary_emb.inv_freq[pair]) for pair in pairs]
    for head, distance in enumerate((1, 2)):
        own = slice(head * size, (head + 1) * size)
        attention.q_proj.weight[own] = 0
        attention.k_proj.weight[own] = 0
        for pair, frequency in zip(pairs, frequencies, strict=True):
            attention.q_proj.weight[head * size + pair, 0] = 1.0
            attention.k_proj.weight[head * size + pair, 0] = math.cos(distance * frequency)
            attention.k_proj.weight[head * size + pair + size // 2, 0] = math.sin(distance * frequency)
    for pair in pairs:
        attention.q_norm.weight[[pair, pair + size // 2]] = LOOK_BACK_SHARPNESS


@torch.no_grad()
def _match_first(model: Qwen3ForCausalLM) -> None:
    """From the second layer on, half of the heads begin by looking for tokens like their own (keys made like queries):
    finding a thing again is most of what a memory manager does, and the slowest thing to learn from nothing. Slow
    rotations (`ROPE_BASE`) keep that comparison meaningful over a prompt's length."""
    for layer in list(model.model.layers)[1:]:
        attention: Any = layer.self_attn
        half = model.config.num_attention_heads // 2 * attention.head_dim
        query = attention.q_proj.weight[:half]
        attention.k_proj.weight[:half] = MATCH * query + math.sqrt(1 - MATCH**2) * attention.k_proj.weight[:half]
        attention.q_norm.weight *= SHARPNESS


@torch.no_grad()
def _copy_first(model: Qwen3ForCausalLM) -> None:
    """From the second layer on, every other head begins by writing what it reads: a projection and its transpose."""
    for layer in list(model.model.layers)[1:]:
        attention: Any = layer.self_attn
        size = attention.head_dim
        for head in range(0, model.config.num_attention_heads, 2):
            own = slice(head * size, (head + 1) * size)
            basis, _ = torch.linalg.qr(torch.randn(model.config.hidden_size, size))
            attention.v_proj.weight[own] = basis.T
            attention.o_proj.weight[:, own] = basis


def encode(found: Sequence[Example], tokenizer: PreTrainedTokenizerFast) -> list[TrainingItem]:
    prompts: Any = tokenizer.apply_chat_template(
        [[{"role": m.role, "content": m.content} for m in one.prompt.messages] for one in found],
        add_generation_prompt=True,
        tokenize=False,
    )
    inputs = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    replies = tokenizer([one.reply + END for one in found], add_special_tokens=False)["input_ids"]
    return [TrainingItem(one.role, one.kind, p, r) for one, p, r in zip(found, inputs, replies, strict=True)]


def batches(
    stage: Drill, seed: int, tokenizer: PreTrainedTokenizerFast, embedder: Embedder
) -> Iterator[list[TrainingItem]]:
    """Examples for ever, cut into batches of similar length."""
    rng = random.Random(f"{seed}/{stage.name}")
    first = stage.seed * 1_000_000
    while True:
        items: list[TrainingItem] = []
        for start in range(first, first + stage.episodes, 60):
            numbers = range(start, min(start + 60, first + stage.episodes))
            worlds = [world_of(number, seed, rng, stage.diet.level) for number in numbers]
            found = examples(worlds, embedder, stage.diet, seed=rng.randrange(1 << 30))
            kept = [one for one in found if rng.random() < stage.keep.get(f"{one.role}/{one.kind}", 1.0)]
            items += encode(kept, tokenizer)
        first += stage.episodes
        for _ in range(stage.epochs):
            items.sort(key=lambda one: len(one.prompt) + len(one.reply) + 8 * rng.random())
            cut = list(_cut(items, stage.batch_tokens))
            rng.shuffle(cut)
            yield from cut


def _cut(items: Sequence[TrainingItem], budget: int) -> Iterator[list[TrainingItem]]:
    current: list[TrainingItem] = []
    for one in items:
        if current and (len(one.prompt) + len(one.reply)) * (len(current) + 1) > budget:
            yield current
            current = []
        current.append(one)
    if current:
        yield current


def collate(items: Sequence[TrainingItem]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
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


class Training:
    """One optimiser and one set of probes, until a stage begins anew."""

    def __init__(
        self,
        model: Qwen3ForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        embedder: Embedder,
        seed: int,
        log: Log | None = None,
    ) -> None:
        self.model, self.tokenizer, self.embedder, self.seed, self.log = model, tokenizer, embedder, seed, log
        self.labels = Labels(tokenizer)
        self.started = time.process_time()
        self._begin()

    def _begin(self) -> None:
        model = self.model
        self.probes = torch.nn.ModuleDict({name: torch.nn.Linear(model.config.hidden_size, CLASSES) for name in PROBES})
        self.weights = [*model.parameters(), *self.probes.parameters()]
        self.optimiser = torch.optim.AdamW(self.weights, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
        self.steps = 0

    def run(self, stage: Drill) -> None:
        if stage.anew:
            torch.manual_seed(stage.seed)
            self._begin()
        self.model.train()
        done, seen = 0, list[tuple[float, float]]()
        for items in batches(stage, self.seed, self.tokenizer, self.embedder):
            if done >= stage.tokens:
                break
            rate = stage.lr + (stage.final_lr - stage.lr) * done / stage.tokens
            for group in self.optimiser.param_groups:
                group["lr"] = rate * min(1.0, (self.steps + 1) / WARM_UP)
            tokens, loss, hits = self._step(items)
            done, self.steps = done + tokens, self.steps + 1
            seen.append((loss, hits))
            if self.log and self.steps % 100 == 0:
                losses, shares = (sum(values) / len(seen) for values in zip(*seen, strict=True))
                self.log(
                    {
                        "stage": stage.name,
                        "steps": self.steps,
                        "share": round(min(1.0, done / stage.tokens), 3),
                        "loss": round(losses, 4),
                        "probe": round(shares, 3),
                        "cpu_s": round(time.process_time() - self.started, 1),
                    }
                )
                seen.clear()
        self.model.eval()

    def _step(self, items: Sequence[TrainingItem]) -> tuple[int, float, float]:
        """(tokens, loss, share of the looked-up things in facts and questions that the probe places right)."""
        ids, rows, columns, targets = collate(items)
        out = self.model.model(ids, output_hidden_states=True)
        loss = torch.nn.functional.cross_entropy(self.model.lm_head(out.last_hidden_state[rows, columns]), targets)
        places = self.labels.of([one.prompt for one in items], [one.reply for one in items])
        total, hits = loss, 1.0
        for name, (depth, weight) in PROBES.items():
            if not places[name].rows:
                continue
            missed, right = self._probed(name, out.hidden_states[min(depth, len(out.hidden_states) - 1)], places[name])
            total = total + weight * missed
            hits = right if name == FOUND else hits
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return ids.numel(), loss.item(), hits

    def _probed(self, name: str, hidden: torch.Tensor, places: Places) -> tuple[torch.Tensor, float]:
        """(loss, share right)."""
        heard = hidden[places.rows, places.columns]
        guess = self.probes[name](torch.nn.functional.rms_norm(heard, heard.shape[-1:]))
        wanted = torch.tensor(places.numbers)
        return torch.nn.functional.cross_entropy(guess, wanted), float((guess.argmax(-1) == wanted).float().mean())
