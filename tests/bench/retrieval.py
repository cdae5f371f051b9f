"""Finding the right memories: recall on LoCoMo beside mem0, LanceDB and BM25, the learned ranker, isolation, parity,
speed, and context blocks. LoCoMo is read from MEMKIT_LOCOMO; without it its rows count as missed."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module

import numpy as np

from memkit.embedders import Embedder, make_embedder
from memkit.embedders.hash import HashEmbedder
from memkit.embedders.weights import find_minilm
from memkit.errors import MemkitError
from memkit.retrieval import (
    DEFAULT,
    BankIndex,
    Query,
    RankerWeights,
    embed_text,
    estimate_tokens,
    parse_context,
    rank,
    render_context,
)
from memkit_train.ranker.fit import fit_ranker, gate_ranker
from tests.bench._citations import cited, judged, talk
from tests.bench._locomo import CUTOFFS, TEST, TRAINING, Embedded, Recall, Talk, mean, recall, talks
from tests.bench._peer import PeerMissing
from tests.bench._rivals import BM25_ONLY, Found, lancedb_hybrid, mem0
from tests.bench._runtime_parity import runtime_rows
from tests.bench._table import Row
from tests.retrieval._banks import bank, grown, question, results
from tests.retrieval._payloads import payloads

UNSET = "MEMKIT_LOCOMO is not set: it must name a copy of locomo10.json"
DEFAULT_BARS = {10: 70.0, 30: 82.0, 60: 88.0}
FITTED_BARS = {10: 78.0, 30: 88.0, 60: 93.0}


def run(full: bool = False) -> list[Row]:
    rows: list[Row] = []
    for part in (_locomo, _citations, _isolation, _parity, runtime_rows, _speed, _context):
        try:
            rows.extend(part())
        except Exception as error:  # one part that breaks must not hide what the others measured
            rows.append(missed(part.__name__.strip("_"), "", "runs", f"{type(error).__name__}: {error}"))
    return rows


def at_least(name: str, value: float, bar: float, unit: str = "", note: str = "") -> Row:
    return Row(name, value, unit, f">= {bar:g}", value >= bar, note)


def missed(name: str, unit: str, bar: str, why: str) -> Row:
    return Row(name, None, unit, bar, False, why)


# --- LoCoMo -----------------------------------------------------------------------------------------------------------


def _locomo() -> Iterator[Row]:
    data = talks()
    if not data:
        for name, bar in (
            ("default, MiniLM", "70/82/88"),
            ("fitted, test talks", "78/88/93"),
            ("beside the rivals", "> 0"),
        ):
            yield missed(f"LoCoMo: {name}", "recall %", bar, UNSET)
        yield missed("LoCoMo: default, hash @10", "recall %", ">= 66", UNSET)
        return
    hashed = [Embedded.of(one, HashEmbedder()) for one in data]
    yield at_least("LoCoMo: default, hash @10", _mean(hashed, _default_found(hashed))[10], 66, "recall %", _size(data))
    try:
        minilm = make_embedder("minilm", cache_size=0)
        embedded = [Embedded.of(one, minilm) for one in data]
    except MemkitError as error:
        yield missed("LoCoMo: everything with MiniLM", "recall %", "70/82/88", str(error))
        return
    default = _default_found(embedded)
    ours = _mean(embedded, default)
    for k in CUTOFFS:
        yield at_least(f"LoCoMo: default, MiniLM @{k}", ours[k], DEFAULT_BARS[k], "recall %", _size(data))
    yield from _against(embedded, default)
    yield from _embedding(embedded, minilm)


def _default_found(embedded: Sequence[Embedded]) -> Found:
    return [one.found(DEFAULT) for one in embedded]


def _mean(embedded: Sequence[Embedded], found: Found) -> Recall:
    return mean([share for one, rows in zip(embedded, found, strict=True) for share in recall(one.talk, rows)])


def _size(data: Sequence[Talk]) -> str:
    return f"{len(data)} talks, {sum(len(one.questions) for one in data)} questions of categories 1-4"


def _against(embedded: Sequence[Embedded], default: Found) -> Iterator[Row]:
    """Rivals beside the default weights on all talks, and beside the fitted ranker on those it was not fitted on."""
    fitted, fit_rows = _fitted(embedded)
    yield from fit_rows
    held = [n for n, one in enumerate(embedded) if one.talk.name not in TRAINING]
    rivals: dict[str, Callable[[Sequence[Embedded]], Found]] = {
        "mem0 dense + BM25": mem0,
        "LanceDB hybrid RRF": lancedb_hybrid,
        "BM25": lambda some: [one.found(BM25_ONLY) for one in some],
    }
    ours = _mean(embedded, default)
    for name, search in rivals.items():
        try:
            found = search(embedded)
        except (PeerMissing, ImportError) as error:
            yield missed(f"LoCoMo: default ahead of {name}", "points", "> 0", str(error))
            if search is mem0:
                yield missed("LoCoMo: fitted ahead of mem0 @10", "points", ">= 10", str(error))
            continue
        theirs = _mean(embedded, found)
        for k in CUTOFFS:
            ahead = ours[k] - theirs[k]
            note = f"{ours[k]:.1f} beside {theirs[k]:.1f}, same texts and vectors"
            yield Row(f"LoCoMo: default ahead of {name} @{k}", ahead, "points", "> 0", ahead > 0, note)
        if search is mem0 and fitted is not None and held:
            some = [embedded[n] for n in held]
            mine, peer = _mean(some, [one.found(fitted) for one in some]), _mean(some, [found[n] for n in held])
            note = f"{mine[10]:.1f} beside {peer[10]:.1f}, talks it was not fitted on"
            yield at_least("LoCoMo: fitted ahead of mem0 @10", mine[10] - peer[10], 10, "points", note)


def _fitted(embedded: Sequence[Embedded]) -> tuple[RankerWeights | None, list[Row]]:
    named = {one.talk.name: one for one in embedded}
    train = [named[name] for name in TRAINING if name in named]
    if len(train) < len(TRAINING):
        return None, [missed("LoCoMo: fitted, test talks", "recall %", "78/88/93", "the training talks are not there")]
    started = time.process_time()
    fit = fit_ranker([example for one in train for example in one.examples()], name="locomo-train")
    spent = time.process_time() - started
    note = f"{fit.report['questions']} questions, pull {fit.report['pull']:g}, fitted in {spent:.1f} CPU s"
    rows = [
        at_least(
            "LoCoMo: fitted, cross-validated in training @10", 100 * fit.report["cv_recall@10"], 78, "recall %", note
        )
    ]
    groups = {"conv-43 + conv-47": [named[name] for name in TEST if name in named]}
    if others := [one for one in embedded if one.talk.name not in (*TRAINING, *TEST)]:
        groups["all talks but the training ones"] = [*groups["conv-43 + conv-47"], *others]
    for name, some in groups.items():
        if not some:
            continue
        got = _mean(some, [one.found(fit.weights) for one in some])
        rows += [
            at_least(f"LoCoMo: fitted, tested on {name} @{k}", got[k], FITTED_BARS[k], "recall %") for k in CUTOFFS
        ]
    return fit.weights, rows


def _embedding(embedded: Sequence[Embedded], minilm: Embedder) -> Iterator[Row]:
    try:
        sentence_transformers = import_module("sentence_transformers")  # optional: only to be compared with
        import_module("torch").set_num_threads(1)
    except ImportError as error:
        yield missed("MiniLM: cosine to sentence-transformers, worst", "", ">= 0.999", str(error))
        return
    reference = sentence_transformers.SentenceTransformer(str(find_minilm(None)), device="cpu")
    texts, asked = embedded[0].talk.texts[:100], [q.text for q in embedded[0].talk.questions[:60]]
    cosines = (reference.encode(texts, normalize_embeddings=True) * minilm.embed(texts)).sum(axis=1)
    yield at_least("MiniLM: cosine to sentence-transformers, worst of 100", float(cosines.min()), 0.999)
    ours, theirs = [], []
    for text in asked:
        ours.append(_cpu(lambda text=text: minilm.embed([text])))
        theirs.append(_cpu(lambda text=text: reference.encode([text], normalize_embeddings=True)))
    mine, peer = statistics.median(ours), statistics.median(theirs)
    ratio = peer / mine
    note = f"{1e3 * mine:.1f} ms beside {1e3 * peer:.1f} ms, median CPU time, one thread"
    yield Row("MiniLM: one query, times faster than sentence-transformers", ratio, "x", "> 1", ratio > 1, note)


# --- learning from use ------------------------------------------------------------------------------------------------


def _citations() -> Iterator[Row]:
    gains, refused, spent = [], 0, 0.0
    for seed in range(3):
        rng = random.Random(seed)
        users = [talk(f"user{n}", rng) for n in range(30)]
        heldout = [example for one in users[20:] for example in judged(one)]
        started = time.process_time()
        fit = fit_ranker([e for one in users[:20] for e in cited(one, rng, wrong=0.1)], seed)
        spent = max(spent, time.process_time() - started)
        verdict = gate_ranker(fit.weights, DEFAULT, heldout, seed)
        gains.append(100 * verdict.report["gain"] if verdict.passed else 0.0)
        shuffled = fit_ranker([e for one in users[:20] for e in cited(one, rng, shuffled=True)], seed)
        refused += not gate_ranker(shuffled.weights, DEFAULT, heldout, seed).passed
    note = f"10 held-out users of 30, 3 seeds, each passed its gate; slowest fit {spent:.1f} CPU s"
    worst = min(gains)
    yield Row(
        "citations, 10 % wrong: gain in recall@10 on held-out users, worst seed",
        worst,
        "points",
        "> 0",
        worst > 0,
        note,
    )
    yield Row("citations shuffled: rankers refused, of 3", refused, "", "= 3", refused == 3)


# --- laws -------------------------------------------------------------------------------------------------------------


def _isolation() -> Iterator[Row]:
    rng = random.Random(0)
    mine, vectors = bank(rng, 300)
    theirs, foreign = bank(rng, 10_000)
    shared = [("ana", record, row) for record, row in zip(mine, vectors, strict=True)]
    shared += [("other", record, row) for record, row in zip(theirs, foreign, strict=True)]
    rng.shuffle(shared)
    scoped = [(record, row) for user, record, row in shared if user == "ana"]
    beside = BankIndex.build([record for record, _ in scoped], np.stack([row for _, row in scoped]))
    alone = BankIndex.build(mine, vectors)
    changed = sum(results(alone, query) != results(beside, query) for query in (question(rng) for _ in range(200)))
    yield Row(
        "isolation: rankings changed by another tenant's 10,000 rows, of 200",
        changed,
        "",
        "= 0",
        changed == 0,
        "the user's slice of a shared table beside the user's bank alone",
    )


def _parity() -> Iterator[Row]:
    different = 0
    for seed in range(1_000):
        rng = random.Random(seed)
        index, held = grown(rng, rng.randint(1, 30))
        records = [record for record, _ in held.values()]
        vectors = np.array([row for _, row in held.values()], dtype=np.float32).reshape(len(records), 16)
        rebuilt = BankIndex.build(records, vectors)
        different += any(results(index, q) != results(rebuilt, q) for q in (question(rng) for _ in range(3)))
    yield Row(
        "parity: banks whose deltas and rebuild differ in an id, score or signal, of 1,000",
        different,
        "",
        "= 0",
        different == 0,
    )


# --- speed ------------------------------------------------------------------------------------------------------------


def _speed() -> Iterator[Row]:
    rng = random.Random(1)
    records, _ = bank(rng, 700)
    records = [replace(record, kind="episode", text=f"{record.text} {rng.choice(_FILLER)}") for record in records]
    embedder = HashEmbedder()
    index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
    asked = [f"When did {rng.choice(('Ana', 'Ben'))} {rng.choice(_FILLER)} in May 2023?" for _ in range(50)]
    queries = [Query(text, embedder.embed([text])[0], k=60) for text in asked]
    for query in queries:
        rank(index, query)
    spent = 1e3 * statistics.median(_cpu(lambda query=query: rank(index, query)) for _ in range(6) for query in queries)
    yield Row(
        "ranking a warm bank of 700, k=60, embedding excluded", spent, "CPU ms", "<= 1", spent <= 1, "median of 300"
    )
    texts = [embed_text(record) for record in records]
    embedder.embed(texts)
    each = 1e6 * statistics.median(_cpu(lambda: embedder.embed(texts)) for _ in range(5)) / len(texts)
    yield Row("hash embedder, short text", each, "CPU us", "<= 60", each <= 60, "words seen before, median of 5 passes")


_FILLER = (
    "adopt a dog from the shelter",
    "paint the sunrise by the lake",
    "move to Berlin with the kids",
    "run a marathon",
)


def _cpu(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


# --- context blocks ---------------------------------------------------------------------------------------------------


def _context() -> Iterator[Row]:
    rng = random.Random(2)
    records, _ = bank(rng, 500)
    nonce = f"{rng.getrandbits(48):012x}"
    texts = payloads(500, nonce)
    hostile = [replace(record, text=text) for record, text in zip(records, texts, strict=True)]
    said = {record.id: record.text for record in hostile}
    block = render_context(hostile, 10_000_000, nonce=nonce)
    exact = [item.text for item in parse_context(block.text)] == [said[name] for name in block.ids]
    right = len(block.ids) if exact else 0
    yield Row("context: payloads that read back exactly, of 500", right, "", "= 500", right == 500)
    over = 0
    for _ in range(2_000):
        some, budget = rng.sample(hostile, rng.randint(0, 40)), rng.randint(1, 1_200)
        counter = rng.choice((estimate_tokens, len))
        over += counter(render_context(some, budget, nonce=nonce, count_tokens=counter).text) > budget
    yield Row("context: blocks over budget, of 2,000", over, "", "= 0", over == 0)
