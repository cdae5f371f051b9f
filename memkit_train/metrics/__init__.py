"""How answers are scored, in published dialects, and how sure a mean is."""
