"""The environment of child processes: they import what the tests import, installed or not."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations")])}
