"""A terminal chatbot with memory and thumbs.

    python examples/chatbot.py ana                                  # built-in rules; shows what would go into a prompt
    python examples/chatbot.py ana --model openai:gpt-4.1-mini      # answers; needs OPENAI_API_KEY, or --base-url

Type to talk, `+` or `-` to rate the last answer, `?` to see what is remembered, an empty line to leave.
"""

from __future__ import annotations

import argparse
from typing import Any

from memkit import Memory
from memkit.errors import MemkitError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("user")
    parser.add_argument("--store", default="./memory")
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    args = parser.parse_args()
    options: dict[str, Any] = {"base_url": args.base_url} if args.base_url else {}
    with Memory(args.store, model=args.model, **options) as memory:
        chat(memory, args.user, answers=args.model is not None)


def chat(memory: Memory, user: str, *, answers: bool) -> None:
    ana = memory.user(user)
    last_trace = ""
    while True:
        try:
            said = input("you> ").strip()
        except EOFError:
            return
        if not said:
            return
        if said in "+-":
            if last_trace:
                ana.feedback(last_trace, label="up" if said == "+" else "down")
                print("   (noted)")
            continue
        if said == "?":
            for record in ana.list():
                print(f"   {record.text}")
            continue
        try:
            last_trace = reply(ana, said, answers)
            ana.add(said, wait=False)  # durable at once, decided in the background
        except MemkitError as error:
            print(f"   {error}")


def reply(ana: Any, said: str, answers: bool) -> str:
    """The trace id that a thumb refers to."""
    if answers:
        answer = ana.answer(said)
        print(f"bot> {answer.text}")
        return answer.trace_id
    block = ana.context(said, max_tokens=300)
    words = block or "(nothing is remembered yet)"
    print(f"bot> this would go into my prompt:\n{words}")
    if block:
        ana.observe(block.trace_id, str(block))
    return block.trace_id


if __name__ == "__main__":
    main()
