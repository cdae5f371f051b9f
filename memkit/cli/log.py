"""`memkit log`: a decision as a person would want to read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memkit.cli import show
from memkit.memory import Memory
from memkit.models import JSON, WORDS_NOT_KEPT

_NOT_KEPT = f"({WORDS_NOT_KEPT})"


def read(memory: Memory, user_id: str, trace_id: str | None, last: int, grep: str = "") -> list[JSON]:
    """The newest decisions (that say `grep`), oldest first, each with its turns and the ops it led to."""
    if grep and trace_id is None:
        return list(reversed(memory.views.decisions(user_id, limit=last, grep=grep).items))
    return [dict(one) for one in memory.decisions(user_id=user_id, trace_id=trace_id, last=last)]


def tell(decisions: Sequence[JSON]) -> None:
    for decision in decisions:
        show.out.print(f"[bold]{decision['role']}[/] {decision['decision_id']}  [dim]{decision['created_at'][:19]}[/]")
        for turn in decision["turns"]:
            who = turn["speaker"] or turn["role"]
            show.out.print(f"  [cyan]said[/]     {show.visible(who)}: {show.visible(turn['text']) or _NOT_KEPT}")
        for shown in decision["candidates"]:
            text = show.visible(shown["text"])
            show.out.print(f"  [cyan]shown[/]    {shown['handle']}. {text} [dim]{shown['score']:.3f} {shown['id']}[/]")
        reply = _NOT_KEPT if decision["missing"].get("reply") == WORDS_NOT_KEPT else decision["reply"] or "(nothing)"
        show.out.print(f"  [cyan]replied[/]  {show.visible(reply)}")
        if decision["parse"]["repairs"]:
            show.out.print(f"  [cyan]repaired[/] {', '.join(decision['parse']['repairs'])}")
        if why := decision.get("extra", {}).get("reason"):
            show.out.print(f"  [cyan]because[/]  {show.visible(why)}")
        for op in decision["ops"]:
            show.out.print(f"  [cyan]applied[/]  {_op(op)} [dim]seq {op['seq']}  {op['op_id']}[/]")
        refused = decision["parse"]["error"] or (decision.get("apply") or {}).get("error")
        if refused:
            show.out.print(f"  [red]refused[/]  {show.visible(refused['what'])}")
        show.out.print(f"  [cyan]by[/]       {show.visible(_by(decision))}")
        show.out.print()


def _op(op: JSON) -> str:
    before, after = (op["before"] or {}).get("text"), (op["after"] or {}).get("text")
    name = op["action"].upper()
    if op["action"] == "update" and before != after:
        return f"{name} {show.visible(str(before))} → {show.visible(str(after))}"
    return f"{name} {show.visible(after or before or 'nothing to remember')}"


def _by(decision: JSON) -> str:
    usage: dict[str, Any] = decision.get("usage") or {}
    parts = [decision.get("model") or "unknown model"]
    parts.append(f"adapter {decision['served_by']}" if decision.get("served_by") else "no adapter")
    if usage.get("prompt_tokens") is not None:
        parts.append(f"{usage['prompt_tokens']}+{usage.get('completion_tokens') or 0} tokens")
    if decision.get("latency_ms") is not None:
        parts.append(f"{decision['latency_ms']:.1f} ms")
    parts.append(f"prompt {decision['prompt_version']}")
    return ", ".join(parts)
