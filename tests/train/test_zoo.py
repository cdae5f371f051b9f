"""Real architectures with the templates of their makers go the whole way: add, answer, the same again on another day,
imitation, reinforcement, the gate, publication, promotion, and decisions through the adapter."""

from __future__ import annotations

import datetime as clocks
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from memkit import Memory
from memkit.backbones.hf import HFBackbone, ScoreRequest
from memkit.embedders import make_embedder
from memkit.roles.base import ChatMessage
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit_train.errors import NoRows
from memkit_train.files import rowfile
from memkit_train.learn.texts import token_row
from memkit_train.learn.tokenizing import reader_of
from memkit_train.log import StoreSource
from memkit_train.log.splits import Split
from memkit_train.replay.served_with import served_with
from memkit_train.retrain import run as command
from memkit_train.retrain import stages
from memkit_train.retrain.collect import open_source
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.plan import plan
from memkit_train.retrain.publish import Lineage, describe_model, publish
from memkit_train.rows import TextRow
from tests.zoo import WIDE, ZOO, Animal, build

PLACES = ("Oslo", "Bergen", "Rome", "Lisbon", "Paris", "Quito", "Delhi", "Kyoto")
ROLES: list[Any] = ["extractor", "manager"]
OF_SEVERAL_LINES = {"target_twice", "too_many_ops", "too_many_deletes", "blast_radius"}


@dataclass
class Watched:
    """A backbone whose every request and reply is remembered."""

    inner: HFBackbone
    said: list[tuple[GenRequest, GenReply]] = field(default_factory=list[tuple[GenRequest, GenReply]])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def generate(self, requests: Any) -> Replies:
        replies = self.inner.generate(requests)
        self.said += [(q, r) for q, r in zip(requests, replies, strict=True) if isinstance(r, GenReply)]
        return replies

    def close(self) -> None:
        """It is closed by whoever made it."""


def live(store: Path, model: Any, people: int = 8, week: int = 0) -> None:
    """Everybody says three things, asks two, and likes every other answer."""
    with Memory(store, model=model, explore=1.0, keep_turns="logged") as memory:
        for number in range(people):
            user = f"week-{week}-user-{number}"
            for text in (f"I live in {PLACES[number % 8]}.", "My dog is called Buddy.", f"I am {30 + number}."):
                memory.add(text, user_id=user)
            for at, question in enumerate(("Where do I live?", "What is my dog called?")):
                answer = memory.answer(question, user_id=user)
                memory.feedback(answer.trace_id, label="up" if (number + at) % 2 else "down", user_id=user)
        # the grammar keeps every line of a model that knows nothing right; what lines are together, the guard refuses
        assert {turn.reason for turn in memory.parked()} <= OF_SEVERAL_LINES


def dividing_seed(store: Path) -> int:
    """Opaque ids are salted anew in every store; this seed leaves somebody on each side."""
    with StoreSource(store) as source:
        users = [source.subject(user) for user in source.users()]
    for seed in range(1_000):
        with suppress(NoRows):
            train, held = Split(seed, 0.25).divide(users)
            if 2 <= len(held) <= 4 and len(Split(seed + 0x5EED, 0.3).divide(train)[1]) == 2:
                return seed
    raise AssertionError("no seed divides them")


def settings(base: Path, store: Path, output: Path, **more: Any) -> TrainConfig:
    sets = {
        "data.split_seed": dividing_seed(store),
        "data.store": store,
        "data.heldout_share": 0.25,
        "data.validation_share": 0.3,
        "data.min_labels": 1,
        "model.base": base,
        "model.parent": "base",
        "model.device": "cpu",
        "method.epochs": 1,
        "method.batch": 4,
        "method.micro_batch": 4,
        "method.lora_r": 4,
        "method.lr": 0.02,
        "gate.canaries": 1,
        "gate.alternatives": 12,
        "gate.min_probes": 1,
        "gate.min_users": 1,
        "online.lr": 0.01,
        "output": output,
        **more,
    }
    return load(None, [f"{name}={value}" for name, value in sets.items()])


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def go(animal: Animal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, store = build(animal, tmp_path / animal.name), tmp_path / "store"
    with HFBackbone(base, threads=1, device="cpu") as model:
        watched = Watched(model)
        live(store, watched)
    assert {q.prompt.role for q, _ in watched.said} == {"extractor", "manager", "answerer"}
    say_again_tomorrow(base, watched.said, monkeypatch)

    config = settings(base, store, tmp_path / "runs")
    found = plan(config)
    assert found.ok, found.findings
    done = command.retrain(config)
    assert done.status in ("refused", "published"), done.why
    assert done.verdict is not None
    assert done.run is not None
    adapter = done.run / "train" / "adapter"
    run, polished = command.reinforce(config, smoke=True)
    assert polished.status == "trained", polished.why
    assert run.metrics()

    digest = publish_whatever_the_gate_said(config, adapter, done.run)
    with HFBackbone(base, threads=1, device="cpu") as model, Memory(store, model=model) as memory:
        memory.adapters.promote("production", digest, ungated=True)
        memory.add("I moved to Cairo.", user_id="after")
    with StoreSource(store) as source:
        decided = [one for one in source.decisions(user_id="after") if one.role in ROLES]
        assert decided
        assert {one.adapter for one in decided} == {digest}


def say_again_tomorrow(base: Path, said: list[tuple[GenRequest, GenReply]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, another day: the same prompts, tokens and log-probs, and a plain forward has the same."""

    class Tomorrow(clocks.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clocks.datetime.now(tz) + clocks.timedelta(days=1)

    monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", Tomorrow)
    logged = said[::5]
    with HFBackbone(base, threads=1, device="cpu") as model:
        again = model.generate([request for request, _ in logged])
        scores = model.score([ScoreRequest(r.prompt_ids or (), r.token_ids or ()) for _, r in logged])
    for (_, reply), other, score in zip(logged, again, scores, strict=True):
        assert isinstance(other, GenReply)
        assert (other.prompt_ids, other.token_ids) == (reply.prompt_ids, reply.token_ids)
        assert score == pytest.approx(reply.logprobs, abs=1e-4)
    from transformers import AutoModelForCausalLM

    plain: Any = AutoModelForCausalLM.from_pretrained(base)
    _, reply = logged[0]
    ids = torch.tensor([[*(reply.prompt_ids or ()), *(reply.token_ids or ())]])
    with torch.inference_mode():
        every = torch.log_softmax(plain(ids).logits[0].float(), -1)
    width = len(reply.token_ids or ())
    true = every[-width - 1 : -1].gather(-1, ids[0, -width:, None])[:, 0].tolist()
    assert true == pytest.approx(list(reply.logprobs or ()), abs=1e-4)


def publish_whatever_the_gate_said(config: TrainConfig, adapter: Path, run: Path) -> str:
    """Random weights earn no better answers; what comes after the gate is tried all the same."""
    base, rows = config.model.base, rowfile.load(run / stages.ROWS)
    with open_source(config) as source:
        wordings = dict(served_with(source, config.data).wordings)
    parts = describe_model(adapter, base, stages.probe_pairs(rows, base), ROLES, wordings=wordings, device="cpu")
    registry = stages.open_registry(config)
    try:
        lineage = Lineage("sft", "store", 0, 1, {}, [], None, 0, {})
        made = publish(
            registry,
            adapter,
            parts,
            roles=ROLES,
            embedder=make_embedder("hash").identity,
            verdict=None,
            report={},
            now=clocks.datetime.now(clocks.UTC),
            lineage=lineage,
        )
    finally:
        registry.close()
    return made.digest


def test_a_model_whose_template_prints_the_day_goes_the_whole_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(ZOO["llama3"], tmp_path, monkeypatch)


@pytest.mark.parametrize(("name", "ends"), [("gemma3", "<end_of_turn>"), ("phi3", "<|end|>"), ("qwen3", "<|im_end|>")])
def test_a_written_reply_ends_as_the_template_ends_a_turn(name: str, ends: str, tmp_path: Path) -> None:
    reader = reader_of(str(build(ZOO[name], tmp_path / name)))
    row = token_row(TextRow((ChatMessage("user", "Where do I live?"),), "NONE"), reader)
    assert reader.tokenizer.convert_ids_to_tokens(row.completion_ids[-1]) == ends


def test_a_model_that_does_not_stop_where_its_template_ends_a_turn_learns_to_stop(tmp_path: Path) -> None:
    base = build(ZOO["gemma3"], tmp_path / "base")
    told = json.loads((base / "generation_config.json").read_text())
    (base / "generation_config.json").write_text(json.dumps(told | {"eos_token_id": 0}))
    reader = reader_of(str(base))
    assert reader.end == reader.tokenizer.eos_token_id == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ZOO if name != "llama3"])
def test_every_architecture_goes_the_whole_way(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(ZOO[name], tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_vocabulary_of_151936_tokens_goes_the_whole_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(WIDE, tmp_path, monkeypatch)
