"""A ranker from a log: the fit, and the command that learns, judges and publishes it."""
