"""What would another policy have decided here? Re-enter a user's logged decisions and ask again.

    python examples/counterfactual.py ./memory ana                          # the shipped tiny model beside the rules
    python examples/counterfactual.py ./memory ana --model hf:./my-model    # a model of your own
    python examples/counterfactual.py ./memory ana --model hf:./my-model --adapter ./memory/adapters/DIGEST

With `--adapter` (a folder with a LoRA), the model without it stands beside the model with it: what the new adapter
would have decided in these very traces. Every turn is decided anew on the bank as it was then. Nothing is written.
Without `memkit[local]`, or with `--model rules`, the rules are asked alone. The shipped model was taught in the small
world that `memkit_train.lab.worlds` generates; about other talk it decides nonsense, and the diff shows it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib.util import find_spec

from memkit.backbones import check_model, make_backbone
from memkit.embedders import make_embedder
from memkit.errors import InvalidInput, MemkitError
from memkit_train.gate.compare import Comparison, compare, diff, states_of
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("user")
    parser.add_argument("--model", default=shipped(), help="hf:PATH, openai:NAME, tiny or rules")
    parser.add_argument("--adapter")
    parser.add_argument("--mode", choices=["split", "fused"], help="another one than the log was decided in")
    args = parser.parse_args()
    try:
        found = look_again(args.store, args.user, args.model, args.adapter, args.mode)
    except MemkitError as error:
        parser.exit(1, f"{error}\n")
    if not found.cases:
        parser.exit(4, f"{args.user} has no decided turn in {args.store}\n")
    print("\n".join(diff(found)))
    for side, name in zip("ab", dict.fromkeys(found.names), strict=False):
        as_then = round(found.as_logged(side) * len(found.cases))
        print(f"{name}: {as_then} of {len(found.cases)} turns as they were decided then")


def shipped() -> str:
    try:
        check_model("tiny", {})
    except MemkitError:
        return "rules"
    return "tiny" if find_spec("peft") else "rules"


def look_again(store: str, user: str, model: str, adapter: str | None, mode: str | None) -> Comparison:
    with StoreSource(store) as source:
        served = source.served_with
        env = Env(make_embedder("hash"), replace(served, mode=mode or served.mode))
        states = states_of(source, env, users=[user])
    rules, asked = make_backbone(None), make_backbone(None if model == "rules" else model)
    try:
        if adapter is not None:
            if not hasattr(asked, "load_adapter"):
                raise InvalidInput("--adapter needs the model that it was trained for", fix="--model hf:PATH")
            asked.load_adapter("candidate", adapter)
            sides = Policy(asked, name="without"), Policy(asked, "candidate", name="with")
        else:
            sides = Policy(rules, name="rules"), Policy(asked, name=model)
        return compare(states, *sides, env)
    finally:
        asked.close()
        rules.close()


if __name__ == "__main__":
    main()
