"""Every error memkit raises. Each message says what happened, why, and the exact next step.

MemkitError
├── InvalidInput (ValueError)      an argument was refused; nothing was written
│   ├── InvalidScope               user_id / agent_id / session_id
│   ├── InvalidText                empty, not a string, lone surrogates
│   ├── InvalidTime                naive or unparsable time
│   ├── InvalidFilter              unknown column or operator, too many terms
│   ├── InvalidConfig              constructor arguments and configuration files
│   ├── LimitExceeded              a documented size limit
│   └── WrongName (TypeError, AttributeError)  a misspelt verb or argument; names ours
├── NotFound (LookupError)         no such memory, trace, op or turn in this scope
├── NotAllowed                     the principal has no grant for it in this space
├── Conflict
│   ├── RevisionConflict           expected_revision is not the current one
│   ├── DuplicateMemory            another live memory of the bank has this very content
│   ├── IdempotencyConflict        same idempotency key, other body
│   ├── UndoConflict               a later op builds on the one to undo
│   └── StaleAlias                 the alias moved since it was read
├── StoreError
│   ├── NotAStore                  the folder holds something else
│   ├── NewerFormat                written by a newer memkit
│   ├── StoreReadOnly
│   ├── StoreFull                  no space left on the device
│   ├── StoreUnsafe                a network disk: locks and fsync cannot be trusted there
│   ├── StoreUnreachable           the disk failed to answer; nothing was changed
│   ├── StorageRefused             object storage refuses: credentials, bucket, region, rights
│   ├── StoreDamaged               needs `memkit doctor --repair`
│   ├── StoreBusy                  a lock was not granted in time
│   ├── StoreClosed
│   ├── StoreMoved                 it is elsewhere now, or still on its way here
│   └── EmbedderMismatch           the store was built with another embedder
├── ModelError
│   ├── NoModel                    the verb needs a model and none is configured
│   ├── ModelUnavailable           transport failed after every retry
│   ├── ModelTimeout               the total deadline passed
│   ├── ModelRefused               the endpoint refused the request (key, model name, 4xx)
│   ├── ReplyTooLarge              the byte cap was hit
│   └── BadReply                   the reply cannot be read as the role's grammar
├── EmbedderError                  wrong dimension, NaN, zero vector, endpoint down
├── RerankerError                  not loaded, or no finite number for each text
├── OpRejected                     a batch of operations broke a rule; none was applied
├── AdapterError
│   ├── AdapterRejected            integrity or format: the files are refused
│   ├── IncompatibleBase           trained on another base, tokenizer, template or prompt
│   ├── HostFull                   the host has no room, or cannot serve this shape
│   ├── ProbeFailed                loaded, but does not behave as its trainer recorded
│   ├── GateRefused                not promoted: gates are missing or failed
│   └── UnknownAlias
└── MissingExtra (ImportError)     an optional package is not installed
"""

from __future__ import annotations

from typing import Any


class MemkitError(Exception):
    """Base of the tree. `what` happened, `why`, and the `fix` (the next step); `details` for machines."""

    def __init__(self, what: str, *, why: str = "", fix: str = "", **details: Any) -> None:
        self.what, self.why, self.fix, self.details = what, why, fix, details
        super().__init__(what)

    def __str__(self) -> str:
        parts = [self.what.rstrip(".")]
        if self.why:
            parts.append(self.why[0].upper() + self.why[1:].rstrip("."))
        if self.fix:
            parts.append(f"Next: {self.fix.rstrip('.')}")
        return ". ".join(parts) + "."

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.why, self.fix, self.details)


def _rebuild(cls: type[MemkitError], what: str, why: str, fix: str, details: dict[str, Any]) -> MemkitError:
    return cls(what, why=why, fix=fix, **details)


class InvalidInput(MemkitError, ValueError): ...


class InvalidScope(InvalidInput): ...


class InvalidText(InvalidInput): ...


class InvalidTime(InvalidInput): ...


class InvalidFilter(InvalidInput): ...


class InvalidConfig(InvalidInput): ...


class LimitExceeded(InvalidInput): ...


class WrongName(InvalidInput, TypeError, AttributeError): ...


class NotFound(MemkitError, LookupError): ...


class NotAllowed(MemkitError): ...


class Conflict(MemkitError): ...


class RevisionConflict(Conflict): ...


class DuplicateMemory(Conflict): ...


class IdempotencyConflict(Conflict): ...


class UndoConflict(Conflict): ...


class StaleAlias(Conflict): ...


class StoreError(MemkitError): ...


class NotAStore(StoreError): ...


class NewerFormat(StoreError): ...


class StoreReadOnly(StoreError): ...


class StoreFull(StoreError): ...


class StoreUnsafe(StoreError): ...


class StoreUnreachable(StoreError): ...


class StorageRefused(StoreError): ...


class StoreDamaged(StoreError): ...


class StoreBusy(StoreError): ...


class StoreClosed(StoreError): ...


class StoreMoved(StoreError): ...


class EmbedderMismatch(StoreError): ...


class ModelError(MemkitError): ...


class NoModel(ModelError): ...


class ModelUnavailable(ModelError): ...


class ModelTimeout(ModelError): ...


class ModelRefused(ModelError): ...


class ReplyTooLarge(ModelError): ...


class BadReply(ModelError): ...


class EmbedderError(MemkitError): ...


class RerankerError(MemkitError): ...


class OpRejected(MemkitError): ...


class AdapterError(MemkitError): ...


class AdapterRejected(AdapterError): ...


class IncompatibleBase(AdapterError): ...


class HostFull(AdapterError): ...


class ProbeFailed(AdapterError): ...


class GateRefused(AdapterError): ...


class UnknownAlias(AdapterError): ...


class MissingExtra(MemkitError, ImportError): ...
