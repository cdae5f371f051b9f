"""A world to learn in: months of dialogue with dated truth, in which updating and deleting are necessary."""

from memkit_train.lab.worlds.generate import episode, generate, stream
from memkit_train.lab.worlds.model import RATES, Episode, Knobs, Question, Session, WorldTurn
from memkit_train.lab.worlds.policies import HABITS, OracleBackbone, TeacherBackbone, Truth
from memkit_train.lab.worlds.questions import matches
from memkit_train.lab.worlds.users import Ask, Manners, Reaction, Say, SimulatedUser

__all__ = [
    "HABITS", "RATES", "Ask", "Episode", "Knobs", "Manners", "OracleBackbone", "Question", "Reaction", "Say", "Session",
    "SimulatedUser", "TeacherBackbone", "Truth", "WorldTurn", "episode", "generate", "matches", "stream",
]  # fmt: skip
