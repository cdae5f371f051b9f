"""How many tokens a model is asked with, per turn that is decided and per answer, over the talks: in the newest words,
beside the first ones and mem0."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memkit import Memory
from memkit.retrieval import estimate_tokens
from memkit.roles.prompting import WORDINGS
from memkit.seams.backbone import GenRequest, Replies
from tests.bench._peer import PeerMissing, run_peer
from tests.bench._real_talks import Talk, forms_of, holds, same, share
from tests.bench._scripted import Scripted
from tests.bench._table import Row
from tests.bench.manager import PEER, PEER_SCRIPT

MOST = 1.3
"""Times the tokens of the first words."""
IDLE_CHARS, FACT_CHARS = 25, 120
TURN, ANSWER = "decided turn", "answer"


@dataclass(slots=True)
class Asked:
    """Tokens of all calls for one turn, or one answer."""

    turns: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    calls: int = 0
    told: int = 0
    gold: list[bool] = field(default_factory=list)
    """Whether a memory that an answer is made of holds the gold."""
    evidence: list[bool] = field(default_factory=list)
    """… or they hold all the words that tell it."""


class Counting(Scripted):
    """Keeps, of each turn of the user that is no filler, a memory in its own words."""

    def __init__(self) -> None:
        super().__init__({"fused": _reply, "answerer": '{"memories": [], "answer": "unknown"}'})
        self.tokens = 0
        self.shown: list[str] = []

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        self.tokens += sum(estimate_tokens(said.content) for one in requests for said in one.prompt.messages)
        self.shown = [one.record.text for request in requests for one in request.prompt.view.shown]
        return super().generate(requests)

    def taken(self) -> int:
        tokens, self.tokens = self.tokens, 0
        return tokens


def rows(found: Sequence[Talk]) -> Iterator[Row]:
    first, newest = (_ours(found, wording) for wording in (min(WORDINGS), max(WORDINGS)))
    theirs, why = _mem0(found)
    for what, mine, before in ((TURN, newest.turns, first.turns), (ANSWER, newest.answers, first.answers)):
        for name, place in (("p50", 0.50), ("p95", 0.95)):
            ours, old = _quantile(mine, place), _quantile(before, place)
            note = f"{ours / old:.2f} × wording {min(WORDINGS)}'s {old}; n={len(mine)}"
            bar = f"<= {MOST} × {old}"
            yield Row(f"tokens per {what}, {name}", ours, "", bar, ours <= MOST * old, note)
            if what == TURN:
                value = _quantile(theirs.turns, place) if theirs else None
                yield Row(f"…mem0's, {name}", value, "", "reported", theirs is not None, why)
    seen, least = share(newest.evidence), share(first.evidence)
    note = f"n={len(newest.gold)}; the gold in so many words {share(newest.gold):.2f}, before {share(first.gold):.2f}"
    yield Row("answers made of the gold or of all evidence", seen, "%", f">= {least:.4g}", seen >= least, note)
    yield Row("…mem0's", None, "", "reported", True, "not counted: mem0 has no call that answers")
    calls, before = newest.calls / newest.told, first.calls / first.told
    yield Row("model calls per turn", calls, "", f"<= {before:.3g}", calls <= before)
    value = theirs.calls / theirs.told if theirs else None
    yield Row("…mem0's", value, "", "reported", theirs is not None, why)


def _ours(found: Sequence[Talk], wording: int) -> Asked:
    asked = Asked()
    for talk in found:
        model = Counting()
        config = {"wording": wording}
        with tempfile.TemporaryDirectory() as folder, Memory(folder + "/s", model=model, config=config) as memory:
            for turn in talk.turns:
                message = {"role": turn["role"], "content": turn["content"]}
                memory.add(message, user_id="u", session_id=turn["session"], at=turn["at"])
                if tokens := model.taken():
                    asked.turns.append(tokens)
            asked.calls += model.asked["fused"]
            for question in talk.questions:
                memory.answer(question["question"], user_id="u")
                asked.answers.append(model.taken())
                if question["answer"] is not None:
                    forms = forms_of(question["answer"])
                    asked.gold.append(any(holds(text, forms) for text in model.shown))
                    words = [turn["content"] for turn in talk.turns if turn["id"] in question["evidence"]]
                    told = all(any(same(text, said) for text in model.shown) for said in words)
                    asked.evidence.append(asked.gold[-1] or told)
        asked.told += len(talk.turns)
    return asked


def _mem0(found: Sequence[Talk]) -> tuple[Asked | None, str]:
    """The same turns, kept in the same words. Without it, why."""
    turns = [
        {
            "user": talk.name,
            "role": turn["role"],
            "content": turn["content"],
            "fact": _fact(turn["role"], turn["content"]),
        }
        for talk in found
        for turn in talk.turns
    ]
    try:
        told: dict[str, Any] = run_peer(PEER, PEER_SCRIPT, {"task": "asked", "with": {"turns": turns}})
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        return None, str(error)[:120]
    sizes = [estimate_tokens(text) for text in told["texts"]]
    calls = [[sum(sizes[place] for place in call) for call in turn] for turn in told["asked"]]
    return Asked([sum(turn) for turn in calls if turn], [], sum(map(len, calls)), len(calls)), f"n={len(calls)}"


def _reply(request: GenRequest) -> str:
    kept = [
        {"op": "ADD", "id": None, "text": fact, "turn": number}
        for number, turn in enumerate(request.prompt.view.turns, 1)
        if (fact := _fact(turn.role, turn.text))
    ]
    return json.dumps({"operations": kept}, ensure_ascii=False)


def _fact(role: str, text: str) -> str:
    return text[:FACT_CHARS] if role == "user" and len(text) > IDLE_CHARS else ""


def _quantile(values: Sequence[int], place: float) -> int:
    return sorted(values)[int(len(values) * place)]
