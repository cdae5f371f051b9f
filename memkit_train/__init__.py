"""Learns better adapters from what the runtime logged. Never imported by `memkit`."""
