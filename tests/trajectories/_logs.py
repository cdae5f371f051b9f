"""Logs to learn from: users of the world talk to a store whose manager has bad habits, and rate some answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memkit import Memory
from memkit.models import normalise
from memkit.roles import Extractor
from memkit_train.lab.worlds import Ask, Episode, Manners, Say, SimulatedUser, TeacherBackbone, Truth
from memkit_train.lab.worlds.policies import manage
from memkit_train.log import Decision
from memkit_train.log.records import Trajectory as Log


def talk(path: Path, episodes: Sequence[Episode], *, manners: Manners | None = None, seed: int = 1) -> float:
    """Every user's whole script; returns the share of right answers. No words are kept: the world's short sentences
    answer nearly everything, and hide what a manager does."""
    right: list[bool] = []
    with Memory(path, model=TeacherBackbone(Truth(episodes)), keep_turns="logged") as memory:
        for episode in episodes:
            user = SimulatedUser(episode, seed=seed, manners=manners)
            for item in user.script():
                waiting: list[Say | Ask] = [item]
                while waiting:
                    one = waiting.pop(0)
                    if isinstance(one, Say):
                        message = {"role": "user", "name": one.turn.speaker, "content": one.turn.text}
                        memory.add(message, user_id=episode.user_id, session_id=one.session_id, at=one.turn.at)
                        continue
                    answer = memory.answer(one.question.text, user_id=episode.user_id)
                    reaction = user.react(one, answer.text)
                    right.append(reaction.right)
                    if reaction.rating is not None:
                        memory.feedback(answer.trace_id, reward=reaction.rating, user_id=episode.user_id)
                    waiting += [reaction.follow_up] if reaction.follow_up else []
        memory.flush()
    return sum(right) / len(right)


class Judge:
    """Whether a manager's decision left its memories as the oracle would have: same texts, whatever the verbs."""

    def __call__(self, log: Log, decision: Decision) -> bool | None:
        if decision.role != "manager":
            return None
        texts = {(op.after.id, op.after.revision): op.after.text for op in log.ops if op.after}
        shown: list[tuple[int, str]] = []
        for one in decision.payload["candidates"]:
            if (one["id"], one["revision"]) not in texts:
                return None
            shown.append((one["handle"], texts[one["id"], one["revision"]]))
        fact = _fact(log, decision)
        if fact is None:
            return None
        return _after(manage(fact, shown), fact, shown) == _after((decision.reply or "").splitlines(), fact, shown)


def _fact(log: Log, decision: Decision) -> str | None:
    together = [one for one in log.decisions if one.intake_id == decision.intake_id]
    turns = next(one.turns for one in log.intakes if one.intake.intake_id == decision.intake_id)
    role = Extractor()
    facts = role.parse(together[0].reply or "", role.render(turns)).value
    place = [one.decision_id for one in together if one.role == "manager"].index(decision.decision_id)
    return facts[place].text if place < len(facts) else None


def _after(lines: Sequence[str], fact: str, shown: Sequence[tuple[int, str]]) -> set[str]:
    held = {str(handle): normalise(text) for handle, text in shown}
    new: set[str] = set()
    for line in lines:
        verb, *rest = line.split(" ", 2)
        if verb == "ADD":
            new.add(normalise(line.removeprefix("ADD").strip() or fact))
        elif verb == "UPDATE" and rest:
            held[rest[0]] = normalise(rest[1] if len(rest) > 1 else fact)
        elif verb == "DELETE" and rest:
            held.pop(rest[0], None)
    return new | set(held.values())


def day(number: int) -> datetime:
    from datetime import UTC, timedelta

    return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number)
