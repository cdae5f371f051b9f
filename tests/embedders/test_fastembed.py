"""Models of the library fastembed by their names, with random weights where it looks for the real ones."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from memkit import Memory, rerankers
from memkit.cli.app import app
from memkit.embedders import Embedder, make_embedder
from memkit.embedders.fastembed import RECOMMENDED
from memkit.errors import EmbedderError, InvalidConfig, MissingExtra, RerankerError

E5 = "intfloat/multilingual-e5-large"
VOCABULARY = ["[PAD]", "[UNK]", "query", "passage", ":", "dog", "cat", "собака", "猫", "गाय", "the", "barks"]
TEXTS = ["the dog barks", "", "   ", "собака", "猫", "\ud800 \x00", "🐶" * 9, "dog " * 5000, "गाय dog cat the barks"]

Place = Callable[[str], Path]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Puts a model into the library's cache, and says where; nothing can be downloaded."""
    library = pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def put(name: str) -> Path:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        offered = [*library.TextEmbedding.list_supported_models(), *TextCrossEncoder.list_supported_models()]
        (model,) = (one for one in offered if one["model"] == name)
        repository = tmp_path / "cache" / f"models--{model['sources']['hf'].replace('/', '--')}"
        folder = repository / "snapshots" / ("0" * 40)
        write_model(folder, model["model_file"], look_up(table(model["dim"])) if "dim" in model else BARKS)
        for more in model["additional_files"]:
            (folder / more).touch()
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0" * 40)
        return folder

    return put


def write_model(folder: Path, file: str, model: bytes) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    (folder / file).parent.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 128, "pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / file).write_bytes(model)


def table(dim: int) -> NDArray[np.float32]:
    return np.random.default_rng(7).normal(size=(len(VOCABULARY), dim)).astype("<f4")


def look_up(rows: NDArray[np.float32], *, greatest: bool = False) -> bytes:
    """An ONNX model: each token becomes its row; of these the greatest, where one number a text is wanted."""

    def number(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)

    def whole(field: int, value: int) -> bytes:
        return number(field << 3) + number(value)

    def part(field: int, raw: bytes | str) -> bytes:
        raw = raw.encode() if isinstance(raw, str) else raw
        return number(field << 3 | 2) + number(len(raw)) + raw

    def tensor(name: str, kind: int, dims: Sequence[str]) -> bytes:
        shape = b"".join(part(1, part(2, dim)) for dim in dims)
        return part(1, name) + part(2, part(1, whole(1, kind) + part(2, shape)))

    node = part(1, "rows") + part(1, "input_ids") + part(2, "each" if greatest else "hidden") + part(4, "Gather")
    axes = part(1, "axes") + whole(8, 1) + whole(20, 7)
    flat = part(1, "keepdims") + whole(3, 0) + whole(20, 2)
    last = part(1, "each") + part(2, "hidden") + part(4, "ReduceMax") + part(5, axes) + part(5, flat)
    kept = whole(1, rows.shape[0]) + whole(1, rows.shape[1]) + whole(2, 1) + part(8, "rows") + part(9, rows.tobytes())
    graph = part(1, node) + (part(1, last) if greatest else b"") + part(2, "look_up") + part(5, kept)
    graph += part(11, tensor("input_ids", 7, "bl")) + part(12, tensor("hidden", 1, "bw" if greatest else "blw"))
    return whole(1, 8) + part(7, graph) + part(8, part(1, "") + whole(2, 17))


BARKS = look_up(np.array([[float(word == "barks")] for word in VOCABULARY], "<f4"), greatest=True)


def mean(dim: int, *words: str) -> NDArray[np.float32]:
    row = table(dim)[[VOCABULARY.index(word) for word in words]].mean(axis=0)
    return row / np.linalg.norm(row)


def test_a_model_gives_unit_rows_that_hang_on_nothing_but_the_text(place: Place) -> None:
    place(RECOMMENDED)
    embedder = make_embedder("fastembed", cache_size=0)
    assert embedder.identity == f"fastembed:{RECOMMENDED}:384"
    assert make_embedder(f"fastembed:{RECOMMENDED.lower()}").identity == embedder.identity
    rows = embedder.embed(TEXTS)
    assert (rows.shape, rows.dtype) == ((len(TEXTS), 384), np.float32)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    assert np.allclose(rows[0], mean(384, "the", "dog", "barks"), atol=1e-6)
    assert embedder.embed([]).shape == (0, 384)
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert rows.tobytes() == alone.tobytes(), "what else is in the batch changes no bit"


def test_many_threads_load_one_model_and_get_the_same_rows(place: Place) -> None:
    place(RECOMMENDED)
    embedder, found = make_embedder("fastembed", cache_size=0), []
    threads = [threading.Thread(target=lambda: found.append(embedder.embed(TEXTS).tobytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_query_is_marked_as_its_model_was_taught(place: Place) -> None:
    place(E5)
    place(RECOMMENDED)
    marked: Any = make_embedder(f"fastembed:{E5}")
    for _ in range(2):  # also from the cache
        assert np.allclose(marked.embed(["dog"])[0], mean(1024, "passage", ":", "dog"), atol=1e-6)
        assert np.allclose(marked.embed_queries(["dog"])[0], mean(1024, "query", ":", "dog"), atol=1e-6)
    plain: Any = make_embedder("fastembed")
    assert plain.embed(["dog"]).tobytes() == plain.embed_queries(["dog"]).tobytes()


def test_a_store_becomes_one_of_a_model_by_name_and_opens_with_it(place: Place, tmp_path: Path) -> None:
    place(RECOMMENDED)
    store = str(tmp_path / "store")
    with Memory(store) as memory:
        memory.add(["the dog barks", "собака", "猫"], user_id="ana", infer=False)
    done = CliRunner().invoke(app, ["doctor", store, "--reembed", "--embedder", f"fastembed:{RECOMMENDED}"])
    assert done.exit_code == 0, done.output
    with Memory(store) as memory:
        assert memory.stats()["embedder"] == f"fastembed:{RECOMMENDED}:384"
        assert memory.search("собака", user_id="ana", k=1)[0].text == "собака"
    found = CliRunner().invoke(app, ["search", "猫", "-u", "ana", "-s", store, "-k", "1"])
    assert "猫" in found.output
    with Memory(store, embedder="fastembed") as memory:
        assert memory.doctor() == []


def test_a_copy_of_a_model_is_named_by_its_folder(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place(RECOMMENDED)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "empty"))
    assert make_embedder("fastembed", path=folder).embed(["dog"]).shape == (1, 384)
    with pytest.raises(InvalidConfig, match=r"tokenizer\.json"):
        make_embedder("fastembed", path=tmp_path)


def test_a_name_that_is_unknown_and_a_model_that_cannot_be_had_say_what_to_do(place: Place) -> None:
    with pytest.raises(InvalidConfig, match="Did you mean") as unknown:
        make_embedder("fastembed:paraphrase-multilingual-MiniLM-L12-v2")
    assert RECOMMENDED in str(unknown.value)
    missing = make_embedder("fastembed")
    for _ in range(2):
        with pytest.raises(EmbedderError, match="FASTEMBED_CACHE_PATH"):
            missing.embed(["dog"])
    place(RECOMMENDED)
    assert missing.embed(["dog"]).shape == (1, 384), "once it is there it works"


def test_a_reranker_by_name_orders_what_search_found(place: Place, tmp_path: Path) -> None:
    folder = place(rerankers.RECOMMENDED)
    with Memory(tmp_path / "store", reranker="fastembed") as memory:
        memory.add(["the dog barks", "собака", "猫 🐶"], user_id="ana", infer=False)
        hits = memory.search("собака", user_id="ana")
        assert (hits[0].text, hits[0].signals["reranker"], len(hits)) == ("the dog barks", 1.0, 3)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert memory.context("собака", user_id="ana").hits[0].text == "the dog barks"
        assert memory.search("dog", user_id="nobody") == []
        assert memory.views.read("ana", hits.trace_id)
    assert rerankers.make_reranker("fastembed", path=folder).score("cat", ["barks", "dog"]) == [1.0, 0.0]  # type: ignore[union-attr]


def test_a_reranker_that_cannot_be_had_or_fails_says_so(place: Place, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="bge-reranker"):
        Memory(tmp_path / "store", reranker="fastembed:bge-reranker")
    for wrong in ("cohere", 7):
        with pytest.raises(InvalidConfig, match="names no reranker"):
            Memory(tmp_path / "store", reranker=wrong)
    assert not (tmp_path / "store").exists()
    failing = ("fastembed", lambda question, texts: [1.0], lambda question, texts: [float("nan")] * len(texts))
    for reranker in failing:
        with Memory(tmp_path / "store", reranker=reranker) as memory:
            memory.add(["the dog barks", "a cat"], user_id="ana", infer=False)
            with pytest.raises(RerankerError, match=r"FASTEMBED_CACHE_PATH|numbers for"):
                memory.search("dog", user_id="ana")


def test_without_the_library_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtra, match=r"pip install .memkit\[fastembed\]"):
        Memory(tmp_path / "store", embedder="fastembed")
    monkeypatch.setitem(sys.modules, "fastembed.rerank.cross_encoder", None)
    with pytest.raises(MissingExtra, match=r"pip install .memkit\[fastembed\]"):
        Memory(tmp_path / "store", reranker="fastembed")
    assert not (tmp_path / "store").exists()


class TellsQueries:
    """Puts the words of queries on one axis and what is stored on two others, whatever they say."""

    identity, dim, cheap = "tells-queries", 3, False

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.stored += texts
        return np.array([[0.6, 0.8, 0.0] if "dog" in text else [0.0, 0.6, 0.8] for text in texts], np.float32)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        return np.array([[1.0, 0.0, 0.0]] * len(texts), np.float32)


def test_what_is_searched_with_is_embedded_as_a_query_and_what_is_stored_is_not(tmp_path: Path) -> None:
    embedder = TellsQueries()
    assert isinstance(embedder, Embedder)
    with Memory(tmp_path / "store", embedder=embedder) as memory:
        memory.add(["I have a dog.", "I have a boat."], user_id="ana")
        memory.flush()
        assert "dog" in memory.search("What does Ana own?", user_id="ana", k=1)[0].text
        memory.context("And what else?", user_id="ana")
    assert {"What does Ana own?", "And what else?"} <= set(embedder.asked)
    assert not any("?" in text for text in embedder.stored)
    assert any("dog" in text for text in embedder.asked), "a turn looks for the memories that it may change"
