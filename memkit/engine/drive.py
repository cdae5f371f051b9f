"""The two places where the engine's generators are driven: one to its end, or many in step.

A generator yields lists of generation requests and is sent the replies, or the `ModelError` that stands for one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from memkit.seams.backbone import Backbone, GenRequest, Replies

T = TypeVar("T")
Steps = Generator[list[GenRequest], Replies, T]


def drive(steps: Steps[T], generate: Callable[[Sequence[GenRequest]], Replies]) -> T:
    """Run one generator to its end, blocking."""
    try:
        requests = next(steps)
        while True:
            requests = steps.send(generate(requests))
    except StopIteration as stop:
        return stop.value


def within(backbone: Backbone, deadline_s: float) -> Callable[[Sequence[GenRequest]], Replies]:
    """The backbone, with so much time for each call."""
    return lambda requests: backbone.generate([replace(one, deadline_s=deadline_s) for one in requests])


def drive_in_step(
    walks: Sequence[tuple[Backbone, Steps[T]]],
    generate: Callable[[Backbone, Sequence[GenRequest]], Replies],
    progress: Callable[[float], None] | None = None,
) -> list[T]:
    """Run many generators to their ends. In each round every backbone gets the requests of all its walks at once.
    `progress` is told the share that has ended."""
    results: dict[int, T] = {}
    waiting: dict[int, list[GenRequest]] = {}

    def advance(index: int, replies: Replies | None) -> None:
        walk = walks[index][1]
        try:
            waiting[index] = next(walk) if replies is None else walk.send(replies)
        except StopIteration as stop:
            results[index] = stop.value
            waiting.pop(index, None)

    for index in range(len(walks)):
        advance(index, None)
    while waiting:
        groups: dict[int, list[int]] = {}
        for index in waiting:
            groups.setdefault(id(walks[index][0]), []).append(index)
        for members in groups.values():
            asked = [request for index in members for request in waiting[index]]
            replies = iter(generate(walks[members[0]][0], asked))
            for index in members:
                advance(index, [next(replies) for _ in waiting[index]])
        if progress is not None:
            progress(len(results) / len(walks))
    return [results[index] for index in range(len(walks))]
