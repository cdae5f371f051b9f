"""From rows to an adapter: one file with one `prepare` and one `train`."""
