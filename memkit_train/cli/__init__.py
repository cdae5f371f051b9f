"""The `memkit-train` command. Argument parsing and printing only; exit codes 0 ok or published, 1 failed, 2 bad input
(a configuration, or a log that nothing can be learned from), 3 gate refused, 4 nothing to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memkit.errors import MemkitError


def main() -> None:
    from memkit.cli.show import fail
    from memkit.errors import MemkitError, MissingExtra
    from memkit_train.cli.app import app
    from memkit_train.errors import DataError

    try:
        app(standalone_mode=True)
    except DataError as error:
        fail(error)
        sys.exit(2)
    except MemkitError as error:
        sys.exit(fail(error))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("memkit"):
            raise
        extra = MissingExtra(f"{error.name} is not installed", fix="pip install 'memkit[train]'")
        sys.exit(fail(extra))
    except OSError as error:
        sys.exit(fail(_disk(error)))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on from the last checkpoint\n")
        sys.exit(1)


def _disk(error: OSError) -> MemkitError:
    import errno

    from memkit_train.errors import TrainError

    if error.errno == errno.ENOSPC:
        return TrainError(
            "the disk is full", why=str(error.filename or ""),
            fix="make room and run the same command again: it goes on from the last checkpoint",
        )  # fmt: skip
    return TrainError(f"{type(error).__name__}: {error}", fix="check the path and its permissions")
