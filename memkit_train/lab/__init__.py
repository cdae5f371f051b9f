"""What the trainer is tried on: generated worlds, a tiny model that lives in them, the corpus of the small manager, a
field whose users it does not know yet, the whole circle as a demo."""
