"""From turns to operations and from a question to an answer: the pure core, driven by the runtime and the trainer."""
