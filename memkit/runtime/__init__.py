"""The wiring of one open store: writes, reads, turns, banks, projection, traces, care."""
