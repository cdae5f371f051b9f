"""Try an adapter on a share of the users. If it misbehaves, the guard takes it back by itself; if it does well for long
enough, it is promoted. `pip install "memkit[local]"`

    memkit adapters list --store ./memory
    python examples/canary_rollback.py DIGEST --store ./memory --model hf:./my-model --share 0.1 --turns 200

The guard watches in the process that serves, so in an app `start` and `verdict` below stand beside your own traffic.
Here the traffic comes from lines of JSON on the standard input: {"user_id": "ana", "text": "I moved to Bergen."}

Exit codes: 0 promoted, 3 rolled back, 4 the traffic ended before there was enough of it (the canary goes on).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator

from memkit import Memory
from memkit.errors import MemkitError

ALIAS, ROLLED_BACK, TOO_LITTLE = "production", 3, 4


def start(memory: Memory, digest: str, share: float, *, ungated: bool = False) -> str:
    """The same users get it every time, so that a bank is written by one adapter. Returns the whole digest."""
    digest = memory.adapters.registry.find(digest)
    memory.adapters.canary(ALIAS, digest, share=share, ungated=ungated)
    print(f"canary   {digest[:12]} for {share:.0%} of the users")
    return digest


def verdict(memory: Memory, digest: str, turns: int, *, ungated: bool = False) -> int | None:
    """To be asked now and then. None: not decided yet."""
    state = memory.adapters.registry.alias(ALIAS)
    if digest not in state.deciding:
        print(f"rollback by {state.actor or 'somebody'}: {state.note or state.action}")
        again = memory.retry()
        print(f"         {again} turns that it could not decide were decided again; {len(memory.parked())} are left")
        return ROLLED_BACK
    seen = memory.adapters.guard.metrics().get((ALIAS, digest), {}).get("turns", 0)
    if seen < turns:
        return None
    moved = memory.adapters.promote(ALIAS, digest, expected=state.version, ungated=ungated)
    print(f"promote  {digest[:12]} serves everybody after {seen:.0f} turns, version {moved.state.version}")
    return 0


def trial(
    memory: Memory, digest: str, traffic: Iterable[tuple[str, str]], *, share: float, turns: int, ungated: bool = False
) -> int:
    digest = start(memory, digest, share, ungated=ungated)
    for user_id, text in traffic:
        memory.add(text, user_id=user_id)  # parked where the canary's reply is of no use: kept, and decided again later
        if (code := verdict(memory, digest, turns, ungated=ungated)) is not None:
            return code
    print("nothing  the traffic ended; the canary goes on")
    return TOO_LITTLE


def lines() -> Iterator[tuple[str, str]]:
    for line in sys.stdin:
        said = json.loads(line)
        yield said["user_id"], said["text"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("digest", help="or its first 6 characters or more")
    parser.add_argument("--store", default="./memory")
    parser.add_argument("--model", required=True, help="hf:PATH, the base that the adapter was trained for")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--turns", type=int, default=200, help="turns of the adapter that promote it")
    parser.add_argument("--ungated", action="store_true", help="also without passed gates; recorded")
    args = parser.parse_args()
    try:
        with Memory(args.store, model=args.model) as memory:
            return trial(memory, args.digest, lines(), share=args.share, turns=args.turns, ungated=args.ungated)
    except MemkitError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
