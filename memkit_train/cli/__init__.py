"""The `memkit-train` command. Argument parsing and printing only; exit codes 0 ok or published, 1 failed, 2 bad input
(a configuration, or a log that nothing can be learned from), 3 gate refused, 4 nothing to do."""

from __future__ import annotations

import sys


def main() -> None:
    from memkit.cli.show import fail
    from memkit.errors import MemkitError, MissingExtra
    from memkit_train.cli.app import app
    from memkit_train.errors import DataError, TrainError, resources
    from memkit_train.learn import processes

    try:
        with resources("it was not a training step"):
            if not processes.is_first():
                processes.follow()
                return
            try:
                app(standalone_mode=True)
            except SystemExit as ended:
                if not ended.code:
                    processes.dismiss()
                raise
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
        sys.exit(fail(TrainError(f"{type(error).__name__}: {error}", fix="check the path and its permissions")))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on from the last checkpoint\n")
        sys.exit(1)
