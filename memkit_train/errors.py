"""What a trainer can refuse, and why. Same form as the runtime's errors: what happened, why, the next step.

MemkitError
└── TrainError
    ├── DataError                  the rows cannot be trained on
    │   ├── NoRows                 nothing is left after filtering
    │   ├── NoSignal               labels or rewards are missing or all the same
    │   ├── WrongVocabulary        token ids are missing, or belong to another tokenizer
    │   ├── WrongTemplate          the logged prompts are not those that this model is served with: another chat
    │   │                          template, or another reply style
    │   ├── BadRow                 a row contradicts itself (lengths, NaN, an empty completion)
    │   ├── Leakage                held-out users or decisions are among the rows to train on, or taught a parent
    │   ├── BadBundle              a bundle is torn, foreign, or was changed
    │   └── OtherData              a checkpoint was written with other rows or another configuration
    ├── Diverged                   the loss became NaN or infinite
    ├── Collapsed                  a policy under training went wrong in a way that training does not heal
    ├── WrongParent                the parent adapter does not fit the base or the LoRA configuration
    ├── NoEffect                   the trained adapter behaves like its base
    ├── OutOfMemory                a step did not fit
    ├── DiskFull                   a checkpoint or an adapter could not be written
    ├── Busy                       another retrain of this store is running
    └── NothingNew                 too little was learned since the last run to start another
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Generator

from memkit.errors import MemkitError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TrainError(MemkitError): ...


class DataError(TrainError): ...


class NoRows(DataError): ...


class NoSignal(DataError): ...


class WrongVocabulary(DataError): ...


class WrongTemplate(DataError): ...


class Leakage(DataError): ...


class BadBundle(DataError): ...


class BadRow(DataError): ...


class OtherData(DataError): ...


class Diverged(TrainError): ...


class Collapsed(TrainError): ...


class WrongParent(TrainError): ...


class NoEffect(TrainError): ...


class OutOfMemory(TrainError): ...


class DiskFull(TrainError): ...


class Busy(TrainError): ...


class NothingNew(TrainError): ...


@contextlib.contextmanager
def resources(setting: str) -> Generator[None]:
    """What a machine runs out of, in words. Each library says it in its own way, some as a plain RuntimeError."""
    try:
        yield
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, MemoryError) or "out of memory" in said.lower() or "can't allocate memory" in said:
            raise OutOfMemory(
                "a training step did not fit into memory",
                why=f"{setting}; {said[:200]}",
                fix="lower method.micro_batch or method.max_tokens, or set method.gradient_checkpointing=true; "
                "`memkit-train plan` estimates what a step takes",
            ) from error
        if getattr(error, "errno", None) in _FULL or any(f"os error {number}" in said for number in _FULL):
            raise DiskFull(
                "the disk is full, or a limit on file sizes is reached",
                why=said[:200],
                fix="make room and run the same command again: it goes on from the last whole checkpoint "
                "(`memkit-train doctor` shows what is free)",
            ) from error
        raise
