"""A reply's text while it is being generated, for blocking and for asynchronous callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from memkit.errors import ModelError
from memkit.seams.backbone import GenReply

Item = str | GenReply | ModelError
"""What a producer emits: any number of texts, then the whole reply or the error that ended it."""


class _Stream:
    def __init__(self, producer: Future[None]) -> None:
        self._producer = producer
        self.reply: GenReply | None = None
        """The whole reply, once the text is exhausted."""
        self._over = False

    def _text(self, item: Item) -> str | None:
        """The next text; None at the end."""
        if isinstance(item, str):
            return item
        self._over = True
        if isinstance(item, ModelError):
            raise item
        self.reply = item
        return None

    def _end(self) -> None:
        self._over = True
        self._producer.cancel()


class TextStream(_Stream):
    """Iterator of texts, context manager. Leaving early ends the request."""

    def __init__(self, take: Callable[[], Item], producer: Future[None]) -> None:
        super().__init__(producer)
        self._take = take

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        text = None if self._over else self._text(self._take())
        if text is None:
            raise StopIteration
        return text

    def close(self) -> None:
        self._end()

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()


class AsyncTextStream(_Stream):
    def __init__(self, take: Callable[[], Awaitable[Item]], producer: Future[None]) -> None:
        super().__init__(producer)
        self._take = take

    def __aiter__(self) -> AsyncTextStream:
        return self

    async def __anext__(self) -> str:
        text = None if self._over else self._text(await self._take())
        if text is None:
            raise StopAsyncIteration
        return text

    async def aclose(self) -> None:
        self._end()

    async def __aenter__(self) -> AsyncTextStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()
