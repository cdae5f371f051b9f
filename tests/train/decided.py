"""Random decisions as a hosted model makes them, logged in memory: any operations, in any language, by the runtime's
own generator; and a check that what was written anew does the same."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memkit.embedders import make_embedder
from memkit.engine.record import decision_record, prompt_text
from memkit.engine.served_with import ServedWith
from memkit.journal import Intake
from memkit.models import Bank, Turn, to_json
from memkit.roles import Shown
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit.text.words import terms
from memkit_train.log.records import Decision, Trajectory, TurnLog
from memkit_train.log.source import from_record
from memkit_train.replay.env import Env, Policy, State, Step
from memkit_train.replay.rewrite import RewrittenCall
from memkit_train.replay.script import script_of, scripts_of

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
EMBEDDER = make_embedder("hash")
SENTENCES = (
    "{who} has a dog named {what}.",
    '{who} calls the boat "{what}" and keeps it in Vigo.',
    "3 of {who}'s cousins live in {what}; the others don't.",
    "{who} möchte im Mai nach {what} umziehen.",
    "{who} ne mange plus de {what} (allergie).",
    "{who} paid 12.50 € for {what} - twice!",
    "{who}は{what}に住んでいます。",
    "{who} живёт в городе {what} с 2019 года.",
    "{who} يعمل في {what} منذ مارس",
    "{who} likes {what}: every day, rain or shine 🙂",
)
WHO, WHAT = ("Ana", "Ben", "Cleo"), ("Oslo", "Bergen", "Buddy", "Scout", "Lisbon", "Quito", "pears", "chess", "tea")


class RandomTeacher:
    """Adds, rewrites, ends and leaves alone as it pleases, of what it is shown; asked for facts, it lists the
    sentences. What it ends or says again, the turn speaks of."""

    identity, max_parallel = "random", 64

    def __init__(self, rng: random.Random, style: str) -> None:
        self.rng, self.style = rng, style

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [GenReply(self._reply(one), model=self.identity) for one in requests]

    def _reply(self, request: GenRequest) -> str:
        view = request.prompt.view
        if request.prompt.role == "extractor":
            facts = [
                (n, sentence(self.rng)) for n, _ in enumerate(view.turns, 1) for _ in range(self.rng.randint(0, 2))
            ]
            if self.style == "json":
                return to_json({"facts": [{"turn": n, "fact": text} for n, text in facts]})
            return "\n".join(f"{n} {text}" for n, text in facts) or "NONE"
        shown = view.shown if view.turns else view.shown[:3]  # beyond these, a prompt in JSON has room for more
        ops = self._operations(shown, [one.text for one in view.turns or view.facts])
        if self.style == "json":
            for op in ops if request.prompt.role == "manager" else ():
                del op["turn"]
            return to_json({"operations": ops})
        fused = request.prompt.role == "fused"
        lines = [[op["op"], op["id"], op["turn"] if fused else None, op["text"]] for op in ops]
        return "\n".join(" ".join(str(one) for one in line if one is not None) for line in lines) or "NOOP"

    def _operations(self, shown: Sequence[Shown], said: Sequence[str]) -> list[dict[str, object]]:
        """`said`: the turns, or the fact."""
        near = sorted(
            (-len(set(terms(text)) & set(terms(one.record.text))), self.rng.random(), n, one)
            for n, text in enumerate(said, 1)
            for one in shown
        )
        out, taken, room = list[dict[str, object]](), set[int](), 1
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            kind = self.rng.choice(("ADD", "ADD", "UPDATE", "DELETE", "NOOP"))
            left = [(n, one) for _, _, n, one in near if one.handle not in taken]
            if kind == "ADD" or not left:
                text = said[0] if self.rng.random() < 0.2 else sentence(self.rng)
                out.append({"op": "ADD", "id": None, "text": text, "turn": self.rng.randint(1, len(said))})
                continue
            turn, target = left[0]
            if kind in ("UPDATE", "DELETE"):  # the guard lets a turn change half of a bank at most
                kind, room = (kind, room - 1) if room else ("NOOP", 0)
            taken.add(target.handle)
            text = self._rewritten(target.record.text) if kind == "UPDATE" else None
            out.append({"op": kind, "id": target.handle, "text": text, "turn": turn})
        return out

    def _rewritten(self, text: str) -> str:
        """With something more, or with another value."""
        more = f"{text} {sentence(self.rng)}"
        return (
            more if self.rng.random() < 0.5 and len(more) < 300 else re.sub(r"\d+", str(self.rng.randint(1, 999)), text)
        )

    def close(self) -> None:
        """Nothing is held."""


def sentence(rng: random.Random) -> str:
    return rng.choice(SENTENCES).format(who=rng.choice(WHO), what=f"{rng.choice(WHAT)}{rng.randint(1, 999)}")


def logged(rng: random.Random, *, mode: str = "fused", style: str = "json", scenes: int = 12) -> Trajectory:
    """One user's log."""
    turns = [
        Turn(f"t{n}", "", Bank("u"), 0, "user", _said(rng), START + timedelta(hours=n), rng.choice(WHO), f"s{n // 8}")
        for n in range(2 * scenes)
    ]
    script = script_of("u", turns, turns_per_add=2)
    env = Env(EMBEDDER, ServedWith(mode=mode))
    (trail,) = env.run([(env.start(script), Policy(RandomTeacher(rng, style)))], upto=None)
    intakes, decisions = list[TurnLog](), []
    for step in trail.steps:
        scene, ops = step.scene, step.ops
        intake = Intake(scene.intake_id, script.bank, scene.session_id, scene.turns, True, None, scene.now)
        seqs = (ops[0].seq, ops[-1].seq) if ops else None
        intakes.append(TurnLog(intake, "parked" if step.error else "applied", seqs))
        ids = [turn.turn_id for turn in scene.turns]
        for call in step.calls:
            record = decision_record(
                call, bank=script.bank, intake_id=scene.intake_id, source_turns=ids, created_at=scene.now
            )
            decisions.append(from_record(len(decisions), record))
    return Trajectory("u", "subject", tuple(intakes), tuple(trail.ops), tuple(decisions), (), {}, 4)


def _said(rng: random.Random) -> str:
    return " ".join(sentence(rng) for _ in range(rng.randint(1, 3)))


@dataclass(frozen=True)
class Reader:
    """Replies what was written for a prompt, and nothing to any other."""

    replies: dict[str, str]
    style: str
    identity = "reader"
    max_parallel = 1 << 20

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [GenReply(self.replies.get(prompt_text(one.prompt), "?")) for one in requests]

    def close(self) -> None:
        """Nothing is held."""


def decided_alike(episode: Trajectory, env: Env, calls: Sequence[RewrittenCall], style: str) -> Iterator[bool]:
    """For every scene that was applied: a model that says what was written leaves the bank that the log says."""
    replies = {to_json([[m.role, m.content] for m in one.messages]): one.reply for one in calls}
    (script,) = scripts_of(episode)
    states = env.list_states(script)
    trails = env.run([(state, Policy(Reader(replies, style))) for state in states[:-1]])
    applied = {one.intake.intake_id for one in episode.intakes if one.status == "applied"}
    for state, trail in zip(states, trails, strict=False):
        step = trail.steps[0]
        same = step.error is None and _told(state, step) == _logged(state)
        yield same or state.scene.intake_id not in applied


def _told(state: State, step: Step) -> list[tuple[object, ...]]:
    return _texts(state, step.after.state)


def _logged(state: State) -> list[tuple[object, ...]]:
    return _texts(state, state.live.after(state.scene.ops, EMBEDDER).state)


def _texts(before: State, bank) -> list[tuple[object, ...]]:  # type: ignore[no-untyped-def]
    """Every memory: what it says, since when, and which one it was, if it was there before. (Of what one scene wrote
    and wrote again, operations taken together name the later turn alone.)"""
    known = {record.id for record in before.live.state}
    return sorted((one.text, str(one.at), one.id if one.id in known else "") for one in bank)


def with_longer_texts(decision: Decision) -> Decision:
    """As if what it wrote were longer than an adapter may write."""
    ops, drafts = json.loads(decision.reply or "")["operations"], decision.payload["drafts"]
    for one in (*ops, *drafts):
        one["text"] = one["text"] and "very long " * 50 + one["text"]
    other = copy(decision)
    object.__setattr__(other, "_payload", decision.payload | {"reply": to_json({"operations": ops}), "drafts": drafts})
    return other
