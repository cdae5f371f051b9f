"""A model that reads the question beside each memory, and orders anew what was found.

The scorer of `retrieval` finds; a reranker looks at its best rows alone. It changes the order and nothing else, and
where two rows say different things about the same, the newer one still comes first.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from memkit.errors import InvalidConfig, RerankerError

if TYPE_CHECKING:
    from memkit.retrieval import Scored

RECOMMENDED = "BAAI/bge-reranker-v2-m3-int8"
"""Some hundred languages, 0.6 GB."""
LOOKED_AT = 50
"""Rows that are read at most; those behind them keep their places."""

_FIX = 'pass "fastembed", "fastembed:NAME", a function of (question, texts), or leave it out'


@runtime_checkable
class Reranker(Protocol):
    """Thread-safe."""

    @property
    def identity(self) -> str:
        """Name with everything that changes its numbers; it is written into traces."""
        ...

    def score(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """A number for each text: the higher, the better it answers."""
        ...


def make_reranker(spec: Any, **options: Any) -> Reranker | None:
    """`reranker=` as users write it. options: path= names a folder with a copy of the model."""
    if spec is None or isinstance(spec, Reranker):
        return spec
    if callable(spec):
        return _Function(cast("Callable[[str, Sequence[str]], Sequence[float]]", spec))
    kind, _, name = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if kind != "fastembed":
        raise InvalidConfig(f"reranker={spec!r} names no reranker", why="unknown name", fix=_FIX)
    return FastembedReranker(name or RECOMMENDED, **options)


def reorder(reranker: Reranker, question: str, scored: Sequence[Scored]) -> list[Scored]:
    """The best rows in the reranker's order, each with the score of its new place; its number is among the signals."""
    best = scored[:LOOKED_AT]
    if not best:
        return []
    texts = [f"{one.record.speaker}: {one.record.text}" if one.record.speaker else one.record.text for one in best]
    numbers = _numbers(reranker, question, texts)
    order = sorted(range(len(best)), key=lambda row: (-numbers[row], row))
    placed = [
        replace(best[row].in_place_of(best[place]), signals=best[row].signals | {"reranker": numbers[row]})
        for place, row in enumerate(order)
    ]
    return [*placed, *scored[LOOKED_AT:]]


def _numbers(reranker: Reranker, question: str, texts: Sequence[str]) -> list[float]:
    try:
        numbers = [float(number) for number in reranker.score(question, texts)]
    except RerankerError:
        raise
    except Exception as error:
        raise _failed(reranker.identity, f"{type(error).__name__}: {str(error)[:200]}") from error
    if len(numbers) != len(texts) or not all(map(math.isfinite, numbers)):
        raise _failed(
            reranker.identity, f"it gave {len(numbers)} numbers for {len(texts)} texts, or some are not finite"
        )
    return numbers


def _failed(identity: str, why: str) -> RerankerError:
    return RerankerError(
        f"the reranker {identity} failed", why=why, fix="nothing was lost; open the store without reranker= meanwhile"
    )


class _Function:
    def __init__(self, function: Callable[[str, Sequence[str]], Sequence[float]]) -> None:
        self._function = function

    @property
    def identity(self) -> str:
        return f"function:{getattr(self._function, '__name__', 'unnamed')}"

    def score(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return self._function(question, texts)


class FastembedReranker:
    """Reranker (identity `fastembed:NAME`): a cross-encoder of the library, ONNX on the CPU. The weights are loaded
    with the first question, from the library's cache, and are downloaded into it where they are not there."""

    def __init__(
        self, name: str = RECOMMENDED, *, path: str | os.PathLike[str] | None = None, threads: int = 1
    ) -> None:
        """path: a folder with a copy of the model; nothing is downloaded then."""
        from memkit.embedders.fastembed import fastembed_library, find_model, model_folder  # numpy

        encoders = fastembed_library("rerank.cross_encoder").TextCrossEncoder
        model = find_model(name, encoders.list_supported_models(), RECOMMENDED)
        self._encoders, self._name = encoders, str(model["model"])
        self._options = {} if path is None else {"specific_model_path": str(model_folder(path, model["model_file"]))}
        self._threads, self._lock, self._model = max(threads, 1), threading.Lock(), None

    @property
    def identity(self) -> str:
        return f"fastembed:{self._name}"

    def score(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        # One by one: beside others, a text is padded, and a quantised model then gives it another number.
        return list(self._loaded().rerank(question, list(texts), batch_size=1))

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                try:
                    self._model = self._encoders(self._name, threads=self._threads, cuda=False, **self._options)
                except Exception as error:
                    raise RerankerError(
                        f"the reranker {self.identity} could not be loaded",
                        why=f"{type(error).__name__}: {str(error)[:200]}",
                        fix="connect once so that it can be downloaded, set FASTEMBED_CACHE_PATH to a folder that has "
                        'it, or name a copy: memkit.rerankers.make_reranker("fastembed:NAME", path=FOLDER)',
                    ) from error
            return self._model
