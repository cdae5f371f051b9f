"""Answers judged by a language model, over any OpenAI-compatible endpoint.

Two prompts, always named with the number: *strict*, and *lenient*, which asks for generosity as the peers' prompt does
(that kind of prompt has been measured to pass most vague wrong answers). A verdict that cannot be read is asked for
once more and then counts as unreadable, never as right or wrong.
"""

from __future__ import annotations

import json
import math
import random
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memkit.errors import InvalidConfig, ModelError, ModelUnavailable
from memkit.models import digest
from memkit_train.files.reading import need, records, refuse_line

Prompting = Literal["strict", "lenient"]
Ask = Callable[[Sequence[Mapping[str, str]]], str]
"""Chat messages → reply."""

_RULES: Mapping[Prompting, str] = {
    "strict": (
        "The answer is CORRECT only if it states what the gold answer states: the same person, place, number, or date, "
        "complete where the gold is a list. Vague, partial, hedged or merely related answers are WRONG. "
        "An answer that adds a claim which contradicts the gold is WRONG."
    ),
    "lenient": (
        "Be generous: the answer is CORRECT if it touches on the same topic as the gold answer, or names the same day "
        "or period in whatever form, however long it is. Otherwise it is WRONG."
    ),
}
_CALLS = 4
"""At most so many for one verdict."""
_FORMS = "Several gold answers are forms of the same: agreeing with any one of them is enough."
_FORM = 'Reply with JSON only: {"label": "CORRECT"} or {"label": "WRONG"}.'
_LABEL = re.compile(r"""["']label["']\s*:\s*["']([^"']*)["']""", re.IGNORECASE)
_VERDICTS = {"CORRECT": True, "WRONG": False}
RESUME = (
    "then run again: an evaluation with a cache goes on after the last pair of system and conversation that it finished"
)


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    right: bool | None
    """None: the judge's reply could not be read."""
    reply: str


def judge_messages(question: str, gold: str | Sequence[str], answer: str, prompting: Prompting) -> list[dict[str, str]]:
    """`gold`: the right answer, or all its acceptable forms."""
    forms = (gold,) if isinstance(gold, str) else gold
    rules = [_RULES[prompting], *([_FORMS] if len(forms) > 1 else []), _FORM]
    system = f"You grade an answer against a gold answer. {' '.join(rules)}"
    lines = [("Question", question), *(("Gold answer", form) for form in forms), ("Answer", answer)]
    user = "\n".join(f"{name}: {json.dumps(text, ensure_ascii=False)}" for name, text in lines)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def read_verdict(reply: str) -> bool | None:
    """The label of a reply, which may also be the whole of it. Anything else is unreadable: a sentence ("not correct",
    "nothing is wrong"), another label, or two that differ."""
    bare = reply.strip(string.whitespace + string.punctuation)
    labels = {label.strip().upper() for label in _LABEL.findall(reply) or [bare]}
    return _VERDICTS.get(labels.pop()) if len(labels) == 1 else None


def judge(
    ask: Ask, question: str, gold: str | Sequence[str], answer: str, prompting: Prompting = "strict"
) -> JudgeVerdict:
    messages = judge_messages(question, gold, answer, prompting)
    reply = ask(messages)
    right = read_verdict(reply)
    if right is None:
        messages += [
            {"role": "assistant", "content": reply[:500]},
            {"role": "user", "content": f"That could not be read. {_FORM}"},
        ]
        reply = ask(messages)
        right = read_verdict(reply)
    return JudgeVerdict(right, reply)


def endpoint(
    base_url: str,
    model: str,
    api_key: str = "",
    *,
    timeout_s: float = 60.0,
    allow_insecure: bool = False,
    transport: Any = None,
) -> Ask:
    """`ask` for an OpenAI-compatible `/chat/completions`, at temperature 0, over the runtime's own client: the URL and
    the key are checked before anything is sent and never quoted, what may pass (429, 5xx) is asked again, and no proxy
    of the environment sees the answers. `timeout_s` is for one verdict, with all its calls."""
    from memkit.net.client import Budget, JsonClient, read_capped
    from memkit.net.endpoint import resolve_endpoint
    from memkit.net.loop import network
    from memkit.seams.clock import SystemClock

    if not model:
        raise InvalidConfig("the judge has no model", fix="name one with --judge-model")
    url, key = resolve_endpoint(base_url, api_key or None, allow_insecure=allow_insecure)
    client = JsonClient(
        url, key=key, max_parallel=1, trust_env=False, transport=transport, rng=random.Random(), clock=SystemClock()
    )

    async def answered(response: Any) -> tuple[int, bytes]:
        return response.status_code, await read_capped(response)

    async def post(body: Mapping[str, Any]) -> tuple[int, bytes]:
        return await client.post("/chat/completions", body, Budget(timeout_s, _CALLS), answered)

    def ask(messages: Sequence[Mapping[str, str]]) -> str:
        try:
            status, raw = network.run(post({"model": model, "messages": list(messages), "temperature": 0}))
        except ModelError as error:
            raise _away(url, "; ".join(filter(None, (error.what, error.why)))) from error
        if status != 200:
            raise _away(url, f"it answered with status {status}")
        try:
            content = json.loads(raw)["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            raise _away(url, f"its reply is no chat completion ({type(error).__name__})") from error
        return content if isinstance(content, str) else ""

    return ask


def _away(url: object, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"the judge at {url} did not answer",
        why=why,
        fix=f"check the base URL, the model name and the key, {RESUME}",
    )


def judge_digest(prompting: Prompting) -> str:
    """Version of the judge's fixed text."""
    return digest([_RULES[prompting], _FORMS, _FORM])[:12]


def agreement(path: Path, ask: Ask, prompting: Prompting = "strict") -> dict[str, float]:
    """How well a judge agrees with a person: lines of {question, gold, answer, label: true|false}. Agreement and kappa
    are of the rows on which the judge could be read, NaN where there is none."""
    table = {"both_right": 0, "both_wrong": 0, "judge_only": 0, "person_only": 0, "unreadable": 0}
    for line, raw in records(path):
        if not isinstance(raw.get("label"), bool):
            refuse_line(path, line, "no 'label' that is true or false", "label each answer by hand")
        texts = [str(need(path, line, raw, key, (str, int, float))) for key in ("question", "gold", "answer")]
        verdict = judge(ask, *texts, prompting=prompting)
        if verdict.right is None:
            table["unreadable"] += 1
        elif verdict.right:
            table["both_right" if raw["label"] else "judge_only"] += 1
        else:
            table["person_only" if raw["label"] else "both_wrong"] += 1
    n = sum(table.values())
    if not n:
        raise InvalidConfig(
            f"{path} has no labelled answers", fix="one JSON object per line: question, gold, answer, label"
        )
    agreed, kappa = _agreed(table)
    return {
        "n": float(n),
        "agreement": agreed,
        "kappa": kappa,
        "unreadable_share": table["unreadable"] / n,
        **{name: float(count) for name, count in table.items()},
    }


def _agreed(table: Mapping[str, int]) -> tuple[float, float]:
    """Agreement, and Cohen's kappa: what of it is beyond chance."""
    n = sum(count for name, count in table.items() if name != "unreadable")
    if not n:
        return math.nan, math.nan
    agreed = (table["both_right"] + table["both_wrong"]) / n
    judged, said = table["both_right"] + table["judge_only"], table["both_right"] + table["person_only"]
    chance = (judged * said + (n - judged) * (n - said)) / n**2
    return agreed, (agreed - chance) / (1 - chance) if chance < 1 else 1.0
