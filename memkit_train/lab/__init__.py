"""What the trainer is tried on: generated worlds, a tiny model that lives in them, the whole circle as a demo."""
