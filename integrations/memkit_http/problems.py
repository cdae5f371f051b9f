"""Errors as HTTP tells them: a status, and the what, why and next of the library (RFC 9457)."""

from __future__ import annotations

from memkit import errors
from memkit.errors import MemkitError
from memkit.models import JSON

# the first that fits: narrower ones stand before what they are part of
_STATUSES: tuple[tuple[type[MemkitError], int], ...] = (
    (errors.LimitExceeded, 413),
    (errors.InvalidInput, 400),
    (errors.NotFound, 404),
    (errors.NotAllowed, 403),
    (errors.Conflict, 409),
    (errors.NotAStore, 404),
    (errors.EmbedderMismatch, 409),
    (errors.StoreReadOnly, 403),
    (errors.StoreBusy, 503),
    (errors.StoreClosed, 503),
    (errors.StoreUnreachable, 503),
    (errors.StorageRefused, 503),
    (errors.StoreFull, 507),
    (errors.NoModel, 501),
    (errors.ModelTimeout, 504),
    (errors.ModelError, 502),
    (errors.EmbedderError, 502),
    (errors.OpRejected, 422),
    (errors.AdapterError, 409),
    (errors.MissingExtra, 501),
)


class Declined(Exception):
    """A request that no verb was asked for: refused at the door, not understood, or not there."""

    def __init__(self, status: int, what: str, *, why: str = "", fix: str = "", headers: dict[str, str] | None = None):
        super().__init__(what)
        self.status, self.what, self.why, self.fix, self.headers = status, what, why, fix, headers or {}


def status_of(error: MemkitError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def problem_of(error: MemkitError | Declined) -> JSON:
    """The body of an `application/problem+json` answer. Messages hold no content of memories, by rule."""
    declined = isinstance(error, Declined)
    name = "request" if declined else type(error).__name__
    problem: JSON = {
        "type": f"urn:memkit:problem:{name}",
        "title": error.what,
        "status": error.status if declined else status_of(error),
    }
    return problem | {key: value for key, value in (("why", error.why), ("next", error.fix)) if value}


UNEXPECTED = Declined(
    500, "the server met an error of its own", fix="try again; if it stays, look at what the server printed"
)
"""What a stranger is told of a bug: nothing of its words, which may quote memories."""
