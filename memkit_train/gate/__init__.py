"""Whether an adapter may be promoted: the checks, the planted secrets, policies side by side."""
