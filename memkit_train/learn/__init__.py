"""From rows to an adapter: the one trainer, imitation, and rows for the trainers of others."""
