"""The `memkit` command. Argument parsing and printing only; exit codes 0 ok, 1 failed, 2 bad input, 3 gate refused,
4 nothing to do."""

from __future__ import annotations

import sys


def main() -> None:
    from memkit.errors import MemkitError

    try:
        if sys.argv[1:] == ["--version"]:
            from importlib.metadata import version

            print(f"memkit {version('memkit')}")
            return
        if sys.argv[1:2] == ["serve"]:
            from memkit.cli.servers import alone as app  # an MCP client waits for this one: it loads nothing else
        else:
            from memkit.cli.app import app
        app(standalone_mode=True)
    except MemkitError as error:
        from memkit.cli.show import fail

        sys.exit(fail(error))
    except KeyboardInterrupt:
        sys.exit(1)
