"""What an operation means. Pure: (bank, drafts) → ops, and (bank, op) → bank. The runtime's journal and the trainer's
replay run this very code; see `resolve` for the rules, `undo` for taking back, `state` for the fold, `guard` for what a
model may not do."""

from memkit.ops.guard import GuardLimits, check_batch, check_caps
from memkit.ops.resolve import EDITION, BankView, Context, apply, inverse, make_op_id, resolve
from memkit.ops.state import BankState
from memkit.ops.undo import Compensation, Past

__all__ = [
    "EDITION",
    "BankState",
    "BankView",
    "Compensation",
    "Context",
    "GuardLimits",
    "Past",
    "apply",
    "check_batch",
    "check_caps",
    "inverse",
    "make_op_id",
    "resolve",
]
