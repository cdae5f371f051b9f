"""The runtime without its journal: the same decisions over banks in memory, many conversations in step."""

from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.replay.env import Env, Policy, State, Step, Trail
from memkit_train.replay.script import Scene, Script, script_of, scripts_of

__all__ = [
    "AnswerTask",
    "Env",
    "Policy",
    "Scene",
    "Script",
    "State",
    "Step",
    "Trail",
    "answer_all",
    "script_of",
    "scripts_of",
]
