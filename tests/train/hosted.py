"""A hosted model, as users pass one: a function of messages. It knows a generated world's sentences, and replies in
JSON where it is asked for JSON, in one call or in two."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from memkit_train.lab.worlds import Episode, Truth, language
from memkit_train.lab.worlds.policies import HABITS, answer, imperfect

_LINE = re.compile(r'^(?:(\d+) )?(NEW fact )?\[[^\]]*\](?: from)?(?: (.*?):)? "(.*)"$', re.MULTILINE)
Op = dict[str, object]


class HostedTeacher:
    """`habits`: how often it does the right thing, by kind of decision; what is not named, always."""

    def __init__(self, episodes: Sequence[Episode], habits: Mapping[str, float] | None = None) -> None:
        self.truth = Truth(episodes)
        self.habits = {**dict.fromkeys(HABITS, 1.0), **(habits or {})}

    def __call__(self, messages: Sequence[dict[str, str]]) -> str:
        asked, in_json = messages[-1]["content"], "JSON" in messages[0]["content"]
        lines = [(int(number or 0), speaker, text) for number, _, speaker, text in _LINE.findall(asked)]
        if "Question (asked" in asked:
            return self._answer(asked, [(number, text) for number, _, text in lines], in_json)
        if "NEW fact" in asked:
            (fact,) = (text for number, _, text in lines if not number)
            ops = self._manage(fact, [(number, text) for number, _, text in lines if number], 0)
            return _operations(ops, in_json)
        before, _, after = asked.partition("NEW turns:")
        said = [(int(number), speaker, text) for number, _, speaker, text in _LINE.findall(after)]
        facts = [(number, fact) for number, speaker, text in said for fact in self.truth.facts(speaker, text)]
        if not asked.startswith("Memories"):
            if in_json:
                return json.dumps({"facts": [{"turn": number, "fact": fact} for number, fact in facts]})
            return "\n".join(f"{number} {fact}" for number, fact in facts) or "NONE"
        shown = [(int(number), text) for number, _, _, text in _LINE.findall(before) if number]
        ops = list[Op]()
        for number, fact in facts:
            ops += self._manage(fact, [one for one in shown if one[0] not in {op["id"] for op in ops}], number)
        return _operations(ops, in_json)

    def _manage(self, fact: str, shown: Sequence[tuple[int, str]], turn: int) -> list[Op]:
        drawn = hashlib.sha256(repr((fact, shown)).encode()).digest()
        noise = int.from_bytes(drawn[:6], "big") / 2**48
        ops: list[Op] = []
        for line in imperfect(fact, shown, noise, self.habits):
            name, handle, text = re.fullmatch(r"(\w+)(?: (\d+))?(?: (.*))?", line).groups()  # type: ignore[union-attr]
            writes = name in ("ADD", "UPDATE")
            ops.append({"op": name, "id": int(handle) if handle else None, "text": (text or fact) if writes else None})
            if turn:
                ops[-1]["turn"] = turn
        return ops

    def _answer(self, asked: str, lines: Sequence[tuple[int, str]], in_json: bool) -> str:
        (question,) = re.findall(r'Question \(asked.*?\): "(.*)"', asked)
        meanings = [(number, [found] if (found := language.read(text)) else []) for number, text in lines if number]
        said, used = answer(question, meanings)
        if in_json:
            return json.dumps({"memories": sorted(used), "answer": said})
        return f"USE {' '.join(map(str, sorted(used))) or 'NONE'}\nANSWER {said}"


def _operations(ops: Sequence[Op], in_json: bool) -> str:
    if in_json:
        return json.dumps({"operations": ops})
    keys = ("op", "id", "turn", "text")
    lines = (" ".join(str(op[key]) for key in keys if op.get(key) is not None) for op in ops)
    return "\n".join(lines) or "NOOP"
