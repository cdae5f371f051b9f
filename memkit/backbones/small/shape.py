"""What the small manager chooses from, and what of a text it reads. Its trainer builds the same shape."""

from __future__ import annotations

CLAUSE = ("leave", "keep", "standing")
"""What may be done with a clause of a turn."""
RELATION = ("unrelated", "same", "adds", "replaces", "ends")
"""What a fact may be to a memory that is shown with it."""
OPTIONS = {"clause": CLAUSE, "relation": RELATION}
SURE = {"clause": 0.4, "relation": 0.9}
"""How likely an option must be to be taken. A fact too many costs a line; a wrong relation changes a memory."""
SURE_ALIKE = 0.6
"""… of a relation, where both begin alike and differ in one place: of held-out pairs nine in ten are right from here
on."""

LOWER = 3
"""Layers that read each text by itself, so that what they make of it is kept; the others read two texts together."""
MESSAGE, SPAN, MEMORY, FACT = 72, 56, 64, 56
"""Tokens of each kind of text that are read."""
PAIRS = 4
"""Memories that a fact is held against, at most."""

WEIGHTS, CONFIG, HEADS = "adapter_model.safetensors", "adapter_config.json", "heads.safetensors"
"""Files of what was learned: LoRA matrices on the upper layers, their scale, the heads with the marks of the texts."""
