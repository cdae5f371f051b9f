"""The runtime without its journal: the same decisions over banks in memory, many conversations in step."""

from memkit_train.replay.env import Env, Policy, State, Step, Trail, lockstep
from memkit_train.replay.play import ReplaySettings, answer_batch
from memkit_train.replay.script import Scene, Script, script_of, scripts_of

__all__ = [
    "Env", "Policy", "ReplaySettings", "Scene", "Script", "State", "Step", "Trail", "answer_batch", "lockstep",
    "script_of", "scripts_of",
]  # fmt: skip
