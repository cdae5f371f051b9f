"""memkit in front of vLLM, step by step: one base model on a GPU server, adapters loaded and swapped while it serves.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve ./my-model --served-model-name my-model \\
        --enable-lora --max-lora-rank 16 --max-loras 2
    python examples/vllm_deployment.py --url http://127.0.0.1:8000 --base my-model --adapter ./memory/adapters/DIGEST

`--url` may be repeated: one for each replica, not the load balancer before them (`--gateway` names that one). The
server reads the adapter's files, so it must see the folder of the store. Without a GPU, `python -m
tests.fakes.vllm_server` stands in: the routes and errors of vLLM's source, and scripted text instead of a model.
"""

from __future__ import annotations

import argparse
import sys

from memkit import Memory
from memkit.adapters import VLLMHost
from memkit.errors import MemkitError, ModelUnavailable

LOCAL = {"style": "compact", "mode": "split", "extra_body": {"return_token_ids": True}}
"""Asked as a model in process is and as adapters are trained; with token ids, so that decisions can be learned from."""
START = "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve {base} --enable-lora --max-lora-rank {rank} --max-loras 2"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", action="append", required=True)
    parser.add_argument("--gateway", help="where requests go; by default the first --url")
    parser.add_argument("--base", required=True, help="the name that vLLM serves the base model under")
    parser.add_argument("--adapter", required=True, help="a folder with a manifest, as memkit-train publishes it")
    parser.add_argument("--store", default="./memory")
    parser.add_argument("--rank", type=int, default=16, help="the server's --max-lora-rank")
    parser.add_argument("--ungated", action="store_true")
    args = parser.parse_args()
    try:
        return walk(args)
    except ModelUnavailable as error:
        print(f"{error}\nstart it: {START.format(base=args.base, rank=args.rank)}", file=sys.stderr)
    except MemkitError as error:
        print(error, file=sys.stderr)
    return 1


def walk(args: argparse.Namespace) -> int:
    gateway = f"{(args.gateway or args.url[0]).rstrip('/').removesuffix('/v1')}/v1"
    with (
        VLLMHost(args.url, base=args.base, max_rank=args.rank) as host,
        Memory(args.store, model=f"openai:{args.base}", base_url=gateway, adapters={"host": host}, **LOCAL) as memory,
    ):
        print(f"1 server    {len(host.urls)} replica(s) answer; loaded there: {names(host)}")
        digest = memory.adapters.publish(args.adapter)
        print(f"2 publish   {digest[:12]} is in the registry and serves nobody")
        report = memory.adapters.promote("production", digest, ungated=args.ungated)
        print(f"3 promote   verified, loaded on every replica: {names(host)}; {probed(report.probes.get(digest))}")
        said = memory.add("I adopted a dog named Buddy.", user_id="walk-through")
        for decision in memory.decisions(user_id="walk-through", trace_id=said.trace_id):
            print(f"4 serve     the {decision['role']} was asked as {str(decision['adapter'])[:12]}")
        state = memory.adapters.rollback("production")
        print(f"5 rollback  version {state.version}: new turns are decided by {args.base} again")
        memory.erase(user_id="walk-through")
    return 0


def names(host: VLLMHost) -> str:
    return ", ".join(one.name[:12] for one in host.resident()) or "no adapter"


def probed(result: object) -> str:
    return "not probed (its manifest has no probe)" if result is None else "its probe's log-probs agree"


if __name__ == "__main__":
    sys.exit(main())
