"""Journal → episodes → labels → credit → rows: what production logged, as something to learn from."""

from memkit_train.trajectories.source import StoreSource, TrajectorySource, Watermark
from memkit_train.trajectories.values import (
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

__all__ = [
    "AnswerEvent", "Credit", "Decision", "Episode", "Label", "Probe", "RankerRow", "Served", "StoreSource",
    "TrajectorySource", "TurnLog", "Watermark",
]  # fmt: skip
