"""What production logged, as something to learn from: sources, records, bundles, who is held out."""

from memkit_train.log.records import (
    AnswerEvent,
    Credit,
    Decision,
    Episode,
    Label,
    Probe,
    RankerRow,
    Served,
    TurnLog,
)
from memkit_train.log.source import StoreSource, TrajectorySource, Watermark

__all__ = [
    "AnswerEvent",
    "Credit",
    "Decision",
    "Episode",
    "Label",
    "Probe",
    "RankerRow",
    "Served",
    "StoreSource",
    "TrajectorySource",
    "TurnLog",
    "Watermark",
]
