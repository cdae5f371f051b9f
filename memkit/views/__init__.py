"""What a person looks at: who is remembered, what became of what was said, why an answer was given, how the store is
and what is learned. Read models over the journal; looking leaves no trace, no use count and no label."""

from memkit.views.views import Views

__all__ = ["Views"]
