"""The runtime without its journal: the same decisions over banks in memory, many conversations in step."""

from memkit_train.replay.play import Lane, Replayed, ReplaySettings, answer_batch, bank_as_of, play

__all__ = ["Lane", "ReplaySettings", "Replayed", "answer_batch", "bank_as_of", "play"]
