"""Who holds the model while it learns, samples from it and steps: one engine a file."""
