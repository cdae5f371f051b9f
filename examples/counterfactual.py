"""What would another policy have decided here? Re-enter a user's logged decisions and ask again.

    python examples/counterfactual.py ./memory ana                          # the built-in rules against the log
    python examples/counterfactual.py ./memory ana --model hf:./my-model    # any model against the log

Every turn is decided anew on the bank as it was then. Nothing is written.
"""

from __future__ import annotations

import argparse
from typing import Any

from memkit import Memory
from memkit.pipeline.decide import decide, drive
from memkit.pipeline.replay import logged_turns, task_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("user")
    parser.add_argument("--model")
    args = parser.parse_args()
    with Memory(args.store, model=args.model) as memory:
        same, total = compare(memory, args.user)
    print(f"{same} of {total} turns would have been decided the same way")


def compare(memory: Memory, user: str) -> tuple[int, int]:
    runtime = memory._runtime
    same = total = 0
    for bank, _ in runtime.journal.user_banks(user):
        for logged in logged_turns(runtime.journal, runtime.embedder, bank):
            task, _ = task_of(logged, runtime.journal, context_turns=runtime.config.context_turns)
            decided = drive(decide(task, runtime.settings, runtime.embedder), runtime.backbone.generate)
            then = [(op.action, op.text) for op in logged.ops if op.action != "noop"]
            now = [(draft.action, draft.text) for draft in decided.drafts if draft.action != "noop"]
            total += 1
            same += then == now
            if then != now:
                said = " / ".join(turn.text for turn in logged.intake.intake.turns)
                print(f"said     {said}\n  then   {show(then)}\n  now    {show(now)}")
    return same, total


def show(ops: list[tuple[str, Any]]) -> str:
    return "; ".join(f"{action.upper()} {text or ''}".strip() for action, text in ops) or "nothing"


if __name__ == "__main__":
    main()
