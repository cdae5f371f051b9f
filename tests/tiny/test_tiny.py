"""The tiny model: its tokenizer, its training data, its build, and what the shipped checkpoints can do."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import pytest
import torch
from transformers import Qwen3ForCausalLM

from memkit.embedders import make_embedder
from memkit.roles import role_prompt_hashes
from memkit_train.lab.tiny import checkpoint
from memkit_train.lab.tiny.build import build, manifest, save
from memkit_train.lab.tiny.curriculum import BIAS, STAGES, Drill
from memkit_train.lab.tiny.examples import Diet, examples
from memkit_train.lab.tiny.measure import measure
from memkit_train.lab.tiny.probe import FOUND, LINES, READ, Labels
from memkit_train.lab.tiny.tokenizer import FRAMES, build_tokenizer
from memkit_train.lab.tiny.train import ModelShape, Training, collate, encode, make_model, make_tokenizer
from memkit_train.lab.worlds import Knobs, generate

PLAYED = ("extractor", "manager", "answerer")


@pytest.fixture(scope="module")
def found():
    return list(examples(generate(6, seed=5), make_embedder("hash"), Diet(), seed=1))


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(make_embedder("hash"), 3, episodes=40)


def test_examples_are_the_runtime_s_prompts_with_replies_in_its_grammars(found):
    assert {one.role for one in found} == set(PLAYED)
    assert all(one.prompt.grammar.matches(one.reply) for one in found)
    assert {one.prompt.version for one in found} == {role_prompt_hashes()[role] for role in PLAYED}


def test_what_is_said_of_others_and_what_is_no_more_are_kinds_of_their_own(found):
    """They are few: training keeps all of them and a part of the rest."""
    heard = {
        kind: [one for one in found if (one.role, one.kind) == ("extractor", kind)]
        for kind in ("fact", "other", "gone", "none")
    }
    assert all(heard.values())
    assert all(" no longer " in one.reply for one in heard["gone"])
    about = {
        kind: {(one.prompt.view.turns[0].speaker, one.reply.split()[1]) for one in heard[kind]}
        for kind in ("fact", "other")
    }
    assert all(speaker == whose for speaker, whose in about["fact"])
    assert all(speaker != whose for speaker, whose in about["other"])


def test_a_biased_diet_labels_like_the_teacher(found):
    episodes = generate(6, seed=5)
    diet = Diet(biased=True, roles=("manager",))
    biased = list(examples(episodes, make_embedder("hash"), diet, seed=1))
    skilled = list(examples(episodes, make_embedder("hash"), Diet(roles=("manager",)), seed=1))
    assert [one.prompt for one in biased] == [one.prompt for one in skilled]
    differing = sum(a.reply != b.reply for a, b in zip(biased, skilled, strict=True))
    assert 0.2 < differing / len(biased) < 0.6


def test_prompts_are_short_and_lossless(found, tokenizer):
    items = encode(found, tokenizer)
    assert sum(len(one.prompt) for one in items) / len(items) < 70
    assert max(len(one.reply) for one in items) < 40
    for one, item in zip(found[:200], items, strict=False):
        assert tokenizer.decode(item.reply, skip_special_tokens=True) == one.reply
        assert one.prompt.messages[-1].content in tokenizer.decode(item.prompt)


def test_names_that_were_never_met_are_spelt_in_syllables():
    """The open level: words of the world are one token each, and a new name costs one for each of its syllables."""
    met = ["Tavelo lives in Miroka.", "Miveta lives in Velota.", "Velomi lives in Kata."] * 2
    tokenizer = build_tokenizer(met, FRAMES, known=["lives", "in"])
    pieces = [tokenizer.decode([one]) for one in tokenizer("Miroka lives in Veta.", add_special_tokens=False).input_ids]
    assert pieces == ["Mi", "ro", "ka", " lives in", " Ve", "ta", "."]
    assert tokenizer.decode(tokenizer("Xyqz lives.").input_ids) == "Xyqz lives."


@pytest.mark.parametrize("text", ["Zoë lives in Łódź – naïve?", "日本語 🎉", "Romeo", "a\tb\n\n c", "<|end|"])
def test_any_other_text_still_encodes(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_token_id is None


def test_only_replies_are_learned(found, tokenizer):
    items = encode(found[:3], tokenizer)
    ids, rows, columns, targets = collate(items)
    assert targets.tolist() == [token for item in items for token in item.reply]
    first = items[0]
    assert ids[0, len(first.prompt) - 1] == first.prompt[-1]
    assert columns[rows == 0].tolist()[0] == len(first.prompt) - 1


def test_probes_ask_which_line_is_read(tokenizer):
    """A list that is added to: what is already there is read from its line, the new value from none."""
    shown = 'Memories:\n1 [5 Nov 2024] "Ben lives in Oslo."\n2 [5 Nov 2024] "Ana has a dog named Rex."\n'
    said = '\nNEW fact [Wed 6 Nov 2024] from Ana: "Ana also has a cat named Milo."'
    written = "UPDATE 2 Ana has a dog named Rex and a cat named Milo."
    prompt, reply = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (shown + said, written))
    asked = Labels(tokenizer).of([prompt], [reply])
    told = {
        name: [
            (tokenizer.decode([[*prompt, *reply][column]]).strip(), number)
            for column, number in zip(places.columns, places.numbers, strict=True)
        ]
        for name, places in asked.items()
    }
    assert told[LINES] == [("Ben lives in", 1), ("Oslo", 1), ("Ana has", 2), ("Rex", 2)]
    assert told[FOUND] == [("Ana also has", 2), ("Milo", 0)]
    assert told[READ][::-1] == [
        ("2", 2),
        ("Ana has", 2),
        ("a dog named", 2),
        ("Rex", 0),
        ("and", 0),
        ("a cat named", 0),
    ]


def _digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.safetensors")}


@pytest.mark.slow
def test_the_build_is_a_function_of_its_seed(tmp_path):
    for name in ("one", "two"):
        build(tmp_path / name, seed=7, scale=0.002, shape=ModelShape(hidden=32, layers=1, heads=2, feed_forward=64))
    assert _digests(tmp_path / "one" / "skilled") == _digests(tmp_path / "two" / "skilled")
    assert _digests(tmp_path / "one" / "skilled") != _digests(tmp_path / "one" / "biased")
    assert manifest(tmp_path / "one" / "biased")["seed"] == 7


def test_a_stage_that_begins_anew_needs_only_the_saved_model(found, tokenizer, tmp_path):
    """So a long build can be gone on with, and comes to the same bytes."""
    embedder, shape = make_embedder("hash"), ModelShape(hidden=32, layers=1, heads=2, feed_forward=64)
    short = {"tokens": 3_000, "batch_tokens": 600, "diet": Diet(roles=("extractor",)), "episodes": 4}
    first, last = Drill("first", **short), Drill("last", **short, seed=2, anew=True)
    through = Training(make_model(tokenizer, shape, 3), tokenizer, embedder, 3)
    through.run(first)
    save(through.model, tokenizer, tmp_path, [first], 3, 0.0)
    through.run(last)
    later = Training(Qwen3ForCausalLM.from_pretrained(tmp_path), tokenizer, embedder, 3)
    later.run(last)
    pairs = list(zip(through.model.parameters(), later.model.parameters(), strict=True))
    assert pairs
    assert all(torch.equal(one, other) for one, other in pairs)


def test_one_command_makes_the_shipped_checkpoints():
    """Their manifests name the curriculum as it stands."""
    for name, stages in (("skilled", STAGES), ("biased", (*STAGES, BIAS))):
        assert manifest(checkpoint(name))["stages"] == json.loads(json.dumps([asdict(stage) for stage in stages]))


@pytest.mark.parametrize("name", ["skilled", "biased"])
def test_shipped_checkpoints_read_today_s_prompts(name):
    """They were trained on the exact prompt texts; a changed text needs `python -m memkit_train.lab.tiny build`."""
    made_for = manifest(checkpoint(name))["prompts"]
    assert {role: made_for[role] for role in PLAYED} == {role: role_prompt_hashes()[role] for role in PLAYED}
    assert sum(path.stat().st_size for path in checkpoint(name).iterdir()) < 10_000_000


def test_the_skilled_model_manages_and_answers_and_the_biased_one_does_not():
    from memkit.backbones.hf import HFBackbone

    held = generate(6, seed=31, knobs=Knobs(sessions=6), split="heldout")
    right = {}
    for name in ("skilled", "biased"):
        backbone = HFBackbone(checkpoint(name), threads=1, max_batch=64)
        try:
            found = measure(held, backbone, make_embedder("hash"))
        finally:
            backbone.close()
        assert found.parked <= 0.02 * found.turns
        rows = found.rows()
        right[name] = rows["answers"]["all"]["value"]
        if name == "skilled":
            assert all(rows["extraction"][kind]["value"] > 0.9 for kind in ("fact", "other", "none"))
            assert rows["operations"]["all"]["value"] > 0.85
    assert right["skilled"] > right["biased"] + 0.08
