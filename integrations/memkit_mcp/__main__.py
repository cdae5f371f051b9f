"""`python -m memkit_mcp --store ./memory --user ana`: the stdio server without the rest of the command line."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from memkit.errors import MemkitError
from memkit.net.tenants import Tenant
from memkit_mcp.serving import serve_stdio

if TYPE_CHECKING:
    from memkit import Memory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m memkit_mcp", description=__doc__)
    parser.add_argument("--store", default="./memory", help="folder of the store, or postgresql://…")
    parser.add_argument("--user", required=True)
    parser.add_argument("--agent")
    parser.add_argument("--space", help="the memories of a space, as that user")
    parser.add_argument("--model")
    parser.add_argument("--embedder")
    parser.add_argument("--redact", help="what is not to be written: keys,passwords,cards,mail,phone, or all")
    args = parser.parse_args()

    def open_memory() -> Memory:
        from memkit import Memory
        from memkit.runtime.store_embedder import embedder_for

        embedder = embedder_for(args.store, args.embedder, embeds=True)
        return Memory(args.store, model=args.model, embedder=embedder, redact=args.redact)

    try:
        serve_stdio(open_memory, Tenant(args.user, args.agent), space=args.space)
    except MemkitError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
