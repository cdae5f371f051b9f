"""The small manager: a learned memory manager on any CPU. A sentence encoder of 22 million weights reads each clause,
and each pair of a clause and a memory, and chooses; it writes no word of its own.

    clauses of a turn ──► keep, standing or leave ──► facts, as they were said
    a fact and the memories shown with it ──► unrelated, same, adds, replaces, ends ──► one operation

`shape` says what is chosen from and how long a text is read, `features` what it knows beside the words, `encoder` runs
the weights, `choose` picks and logs, `phrase` turns choices into facts and operations, `backbone` is the seam.
"""

from memkit.backbones.small.backbone import SmallBackbone

__all__ = ["SmallBackbone"]
