"""The `memkit` command. Argument parsing and printing only; exit codes 0 ok, 1 failed, 2 bad input, 3 gate refused,
4 nothing to do."""

from __future__ import annotations

import sys


def main() -> None:
    from memkit.cli.app import app
    from memkit.cli.show import fail
    from memkit.errors import MemkitError

    try:
        app(standalone_mode=True)
    except MemkitError as error:
        sys.exit(fail(error))
    except KeyboardInterrupt:
        sys.exit(1)
