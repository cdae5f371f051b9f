"""From scored episodes to rows: one algorithm a file, each a pure function without torch."""
