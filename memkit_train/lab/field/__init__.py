"""A field of its own: a support desk, whose users say what they tried and what they see, and ask about it later."""

from memkit_train.lab.field.talk import FieldUser, generate_field, read_answer

__all__ = ["FieldUser", "generate_field", "read_answer"]
