"""Learns better adapters from what the runtime logged. Never imported by `memkit`.

Nothing leaves the machine unasked: libraries that would report their use are told not to, unless the user said so.
"""

import os

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
