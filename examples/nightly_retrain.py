"""The nightly job: inspect → retrain (collect, train, evaluate, gate, publish) → promote. `pip install "memkit[train]"`

    python examples/nightly_retrain.py --store ./memory --base Qwen/Qwen2.5-1.5B-Instruct --output ./runs

    # crontab: mails only when something needs a person (1, 2 or 3); nothing to do (4) is a quiet night
    15 3 * * *  cd /srv/app && python nightly_retrain.py --store ./memory --base ./model --output ./runs || [ $? -eq 4 ]

Exit codes: 0 an adapter was promoted (or put on trial, with --canary), 1 failed, 2 bad input, 3 the gate refused what
was trained, 4 nothing to do: too few new labels. Killed in the middle, the next call goes on where it stopped. The app
may run meanwhile: it serves the new adapter within a second of the promotion, and takes it back if its probe fails.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from memkit.adapters import Registry, promote
from memkit.errors import InvalidInput, MemkitError, StaleAlias
from memkit_train.credit.inspect import inspect
from memkit_train.errors import DataError
from memkit_train.log import StoreSource
from memkit_train.report import RunFolder
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.run import RunOutcome, retrain
from memkit_train.retrain.stages import open_registry

FAILED, BAD_INPUT = 1, 2


def nightly(config: TrainConfig, canary: float | None = None) -> int:
    print(f"inspect  {look(config)}")
    outcome = retrain(config)
    tell(outcome)
    if outcome.digest is None or outcome.run is None:
        return outcome.exit_code
    with closing(open_registry(config)) as registry:
        return serve(registry, outcome.digest, RunFolder(outcome.run).record["parent"], canary)


def look(config: TrainConfig) -> str:
    with StoreSource(config.data.path) as source:
        found = inspect(source)
    labels = sum(found.labels.values())
    return (
        f"{found.users} users, {found.total} decisions, {found.unused} of them unusable, {found.parked} turns parked, "
        f"{labels} labels on {found.answers} answers"
    )


def tell(outcome: RunOutcome) -> None:
    print(f"retrain  {outcome.status}: {outcome.why}")
    for check in outcome.verdict.checks if outcome.verdict else ():
        mark = {True: "passed", False: "REFUSED", None: "not judged"}[check.passed]
        print(f"  eval   {check.name:<13}{mark:<11}{check.why}")
    if outcome.run is not None:
        print(f"  report {outcome.run / 'report.html'}")


def serve(registry: Registry, digest: str, parent: str | None, canary: float | None) -> int:
    """Only in place of the adapter that it was compared with (None: the base model): if somebody promoted another one
    meanwhile, the verdict is about something else, and a person decides."""
    try:
        state = promote(registry, "production", digest, expected=parent, share=canary, actor="nightly").state
    except StaleAlias as error:
        print(f"promote  not done: {error}", file=sys.stderr)
        return FAILED
    to_whom = "everybody" if canary is None else f"{canary:.0%} of the users"
    print(f"promote  {digest[:12]} serves {to_whom}, version {state.version} of production")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("./memory"))
    parser.add_argument("--base", required=True, help="the checkpoint that production runs")
    parser.add_argument("--output", type=Path, default=Path("./memkit-runs"))
    parser.add_argument("--canary", type=float, help="share of the users to try it on first, e.g. 0.1")
    parser.add_argument("--set", action="append", default=[], help="section.key=value, as for memkit-train retrain")
    args = parser.parse_args()
    sets = [f"data.store={args.store}", f"model.base={args.base}", f"output={args.output}", *args.set]
    try:
        return nightly(load(None, sets), args.canary)
    except MemkitError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT if isinstance(error, InvalidInput | DataError) else FAILED


if __name__ == "__main__":
    sys.exit(main())
