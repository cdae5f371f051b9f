"""What production logged, as something to learn from: sources, records, bundles, who is held out."""

from memkit_train.log.records import (
    AnswerEvent,
    Credit,
    Decision,
    Label,
    LoggedQuestion,
    RankerRow,
    Served,
    Trajectory,
    TurnLog,
)
from memkit_train.log.source import StoreSource, TrajectorySource, Watermark

__all__ = [
    "AnswerEvent",
    "Credit",
    "Decision",
    "Label",
    "LoggedQuestion",
    "RankerRow",
    "Served",
    "StoreSource",
    "Trajectory",
    "TrajectorySource",
    "TurnLog",
    "Watermark",
]
