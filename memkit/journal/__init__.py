"""The durable truth of a store: turns, decisions, ops with their images, feedback. Append-only, one file, fsynced."""

from memkit.journal.journal import Journal
from memkit.journal.records import (
    Accepted,
    Claim,
    ErasureReceipt,
    FeedbackRecord,
    Intake,
    IntakeState,
    JournalProblem,
    Trace,
    UserInfo,
)
from memkit.models import DecisionRecord

__all__ = [
    "Accepted",
    "Claim",
    "DecisionRecord",
    "ErasureReceipt",
    "FeedbackRecord",
    "Intake",
    "IntakeState",
    "Journal",
    "JournalProblem",
    "Trace",
    "UserInfo",
]
