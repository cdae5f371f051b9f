"""What a trainer can refuse, and why. Same form as the runtime's errors: what happened, why, the next step.

MemkitError
└── TrainError
    ├── DataError                  the rows cannot be trained on
    │   ├── NoRows                 nothing is left after filtering
    │   ├── NoSignal               labels or rewards are missing or all the same
    │   ├── MissingLogprobs        the method needs the log-probs of the policy that acted, and the log has none
    │   ├── WrongVocabulary        token ids are missing, or belong to another tokenizer
    │   ├── BadRow                 a row contradicts itself (lengths, NaN, an empty completion)
    │   ├── Leakage                held-out users or decisions are among the rows to train on
    │   ├── BadBundle              a bundle is torn, foreign, or was changed
    │   └── OtherData              a checkpoint was written with other rows or another configuration
    ├── StaleLog                   too few effective samples: the log was written by too different a policy
    ├── Diverged                   the loss became NaN or infinite
    ├── WrongParent                the parent adapter does not fit the base or the LoRA configuration
    ├── NoEffect                   the trained adapter behaves like its base
    ├── Busy                       another retrain of this store is running
    └── NothingNew                 too little was learned since the last run to start another
"""

from __future__ import annotations

from memkit.errors import MemkitError


class TrainError(MemkitError): ...


class DataError(TrainError): ...


class NoRows(DataError): ...


class NoSignal(DataError): ...


class MissingLogprobs(DataError): ...


class WrongVocabulary(DataError): ...


class Leakage(DataError): ...


class BadBundle(DataError): ...


class BadRow(DataError): ...


class OtherData(DataError): ...


class StaleLog(TrainError): ...


class Diverged(TrainError): ...


class WrongParent(TrainError): ...


class NoEffect(TrainError): ...


class Busy(TrainError): ...


class NothingNew(TrainError): ...
