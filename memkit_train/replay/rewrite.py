"""Decisions of a log as another model would have been asked for them, and would have said them.

A hosted model is asked in one call and replies in JSON; an adapter may be asked fact by fact and reply in lines. What
was asked, shown and done is the same. So each scene is entered as it was, and decided once more by the runtime's own
generator, in the mode and style of `env.served`; who replies is the log: its operations, written as they are asked
for now. What comes out is kept where it reads as the very operations that were logged; the rest is counted.

    calls, left_out = Rewriter(env).rewrite(episode)

One call becomes several with hindsight (hindsight.py); several become one by taking their operations together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from memkit.engine.served_with import ROLES, ServedWith
from memkit.errors import BadReply
from memkit.models import MemoryRecord, OpDraft, Turn
from memkit.roles import Answerer, ChatMessage, Extractor, Fact, Fused, Manager, Parsed, Prompt, Shown
from memkit_train.log.records import AnswerEvent, Decision, Trajectory
from memkit_train.replay.env import Env, Policy, State, Step
from memkit_train.replay.script import scripts_of
from memkit_train.replay.voice import LoggedVoice, ToldFact, draft_key
from memkit_train.replay.writing import write_answer

T = TypeVar("T")

NO_REPLY, UNREADABLE, OTHERWISE = "its words are not on record", "its reply cannot be read", "reads otherwise"
NOT_SHOWN, UNSAYABLE, RULE = "its memory would not be shown", "cannot be said in this style", "breaks a rule"

Shelf = Mapping[tuple[str, int], MemoryRecord]
"""Every revision of a user's memories."""


@dataclass(frozen=True, slots=True)
class RewrittenCall:
    role: str
    messages: tuple[ChatMessage, ...]
    reply: str
    decision_ids: tuple[str, ...]
    """The logged decisions that it says again."""
    guessed: bool = False
    """Facts in it are nobody's words."""


@dataclass(frozen=True, slots=True)
class ToldScene:
    state: State
    heard: str
    """The decision that read the turns."""
    told: tuple[ToldFact, ...]
    shown: Mapping[str, MemoryRecord]


class Unwritable(Exception):
    """Why a scene is left out, in a few words."""


class Rewriter:
    def __init__(self, env: Env, style: str = "compact") -> None:
        self._env, self._style = env, style

    @property
    def served(self) -> ServedWith:
        return self._env.served

    def is_asked_so(self, decision: Decision) -> bool:
        """Whether it was asked as it would be asked now. Lessons are not learned to be written yet."""
        if decision.role == "reflector":
            return False
        if decision.role == "answerer":
            return decision.style == self._style
        return decision.style == self._style and (decision.role == "fused") == (self.served.mode == "fused")

    def rewrite(
        self, episode: Trajectory, only: Collection[str] | None = None
    ) -> tuple[list[RewrittenCall], Counter[str]]:
        """A user's decisions that were asked otherwise, and why those are missing that are. `only`: scenes with one of
        these decisions."""
        left_out: Counter[str] = Counter()
        shelf = {(op.after.id, op.after.revision): op.after for op in episode.ops if op.after is not None}
        by_id = {one.decision_id: one for one in episode.decisions}
        applied = {one.intake.intake_id for one in episode.intakes if one.status == "applied"}
        scenes: list[ToldScene] = []
        for script in scripts_of(episode):
            states = self._env.list_states(script)
            for state in states[:-1]:
                decisions = [by_id[one] for one in state.scene.decision_ids]
                wanted = only is None or any(one.decision_id in only for one in decisions)
                if wanted and state.scene.intake_id in applied and not all(map(self.is_asked_so, decisions)):
                    try:
                        scenes.append(_read(state, decisions, shelf))
                    except Unwritable as error:
                        left_out[str(error)] += len(decisions)
        calls = self._say_again(scenes, left_out)
        events = {event.decision_id: event for event in episode.answers if event.decision_id is not None}
        for decision in episode.decisions:
            wanted = only is None or decision.decision_id in only
            if wanted and decision.role == "answerer" and decision.ok and not self.is_asked_so(decision):
                try:
                    calls.append(self._answer(decision, events.get(decision.decision_id), shelf))
                except Unwritable as error:
                    left_out[str(error)] += 1
        return calls, left_out

    def _say_again(self, scenes: Sequence[ToldScene], left_out: Counter[str]) -> list[RewrittenCall]:
        """All scenes in step. Where a fact does not bring its memory into sight, the next one is told instead."""
        waiting = [(at, self._voice(scene)) for at, scene in enumerate(scenes)]
        done: dict[int, list[RewrittenCall]] = {}
        while waiting:
            trails = self._env.run([(scenes[at].state, Policy(voice)) for at, voice in waiting])
            again: list[tuple[int, LoggedVoice]] = []
            for (at, voice), trail in zip(waiting, trails, strict=True):
                if voice.missed is not None and voice.tell_other():
                    again.append((at, voice))
                    continue
                try:
                    done[at] = _checked(trail.steps[0], voice, scenes[at])
                except Unwritable as error:
                    left_out[str(error)] += len(scenes[at].state.scene.decision_ids)
            waiting = again
        return [call for at in sorted(done) for call in done[at]]

    def _voice(self, scene: ToldScene) -> LoggedVoice:
        told = scene.told
        if self.served.mode == "fused":
            told = (ToldFact(_together(scene), scene.heard, None),)
        return LoggedVoice(self._style, scene.state.scene.turns, told, scene.shown)

    def _answer(self, decision: Decision, event: AnswerEvent | None, shelf: Shelf) -> RewrittenCall:
        if event is None or decision.reply is None:
            raise Unwritable(NO_REPLY)
        shown = _shown(decision, shelf)
        draft = _parsed(Answerer("", decision.style).parse, decision.reply, _as_numbered(event, shown, decision))
        role = Answerer(self.served.instructions, self._style, self._wording("answerer"))
        prompt = role.render(event.question, shown, event.at)
        reply = write_answer(prompt, draft)
        again = _parsed(role.parse, reply, prompt)
        if _unsayable(prompt, reply):
            raise Unwritable(UNSAYABLE)
        if (again.text, set(again.memory_ids)) != (draft.text, set(draft.memory_ids)):
            raise Unwritable(OTHERWISE)
        return RewrittenCall("answerer", prompt.messages, reply, (decision.decision_id,))

    def _wording(self, role: str) -> int:
        return self.served.in_styles(dict.fromkeys(ROLES, self._style)).wording(role)


# -- what the log says -------------------------------------------------------------------------------------------------


def _read(state: State, decisions: Sequence[Decision], shelf: Shelf) -> ToldScene:
    turns = state.scene.turns
    shown = {one.record.id: one.record for decision in decisions for one in _shown(decision, shelf)}
    heard, *managed = decisions
    if heard.role == "fused":
        told = [ToldFact(_drafts(heard, Fused, turns, shelf), heard.decision_id, None)]
    else:
        role = Extractor("", heard.style)
        facts = _parsed(role.parse, _reply(heard), role.render(turns))
        if len(facts) != len(managed):
            raise Unwritable(OTHERWISE)
        told = [
            ToldFact(_drafts(one, Manager, turns, shelf, fact), one.decision_id, fact)
            for fact, one in zip(facts, managed, strict=True)
        ]
    return ToldScene(state, heard.decision_id, tuple(told), shown)


def _drafts(
    decision: Decision,
    kind: type[Fused] | type[Manager],
    turns: Sequence[Turn],
    shelf: Shelf,
    fact: Fact | None = None,
) -> tuple[OpDraft, ...]:
    """Read anew from the reply, because the record of drafts does not say from which turn each comes; they must be
    those of the record."""
    shown = _shown(decision, shelf)
    if kind is Manager:
        assert fact is not None
        manager = Manager("", decision.style)
        drafts = _parsed(manager.parse, _reply(decision), manager.render(fact, shown, turns))
    else:
        fused = Fused("", decision.style)
        drafts = _parsed(fused.parse, _reply(decision), fused.render(turns, shown))
    known = [(one["action"], one["memory_id"], one["text"]) for one in decision.payload["drafts"]]
    if [(one.action, one.memory_id, one.text) for one in drafts] != known:
        raise Unwritable(OTHERWISE)
    return tuple(drafts)


def _reply(decision: Decision) -> str:
    if not decision.reply:
        raise Unwritable(NO_REPLY)
    return decision.reply


def _parsed(parse: Callable[[str, Prompt], Parsed[T]], reply: str, prompt: Prompt) -> T:
    try:
        return parse(reply, prompt).value
    except BadReply:
        raise Unwritable(UNREADABLE) from None


def _shown(decision: Decision, shelf: Shelf) -> list[Shown]:
    out: list[Shown] = []
    for one in decision.payload.get("candidates", ()):
        record = shelf.get((one["id"], one["revision"]))
        if record is None:
            raise Unwritable(NO_REPLY)
        out.append(Shown(one["handle"], record, one["score"], one["signals"]))
    return out


def _as_numbered(event: AnswerEvent, shown: Sequence[Shown], decision: Decision) -> Prompt:
    """The prompt that the reply's numbers belong to."""
    prompt = Answerer("", decision.style).render(event.question, shown, event.at)
    return replace(prompt, view=replace(prompt.view, shown=tuple(shown)))


# -- what is said now --------------------------------------------------------------------------------------------------


def _together(scene: ToldScene) -> tuple[OpDraft, ...]:
    """The operations of several calls as one batch: of those on one memory, what they come to."""
    written = {
        (op.decision_id, place): op.memory_id
        for decision_id in {op.decision_id for op in scene.state.scene.ops}
        for place, op in enumerate(one for one in scene.state.scene.ops if one.decision_id == decision_id)
    }
    final: dict[str, OpDraft] = {}
    for number, told in enumerate(scene.told):
        for place, draft in enumerate(told.drafts):
            target = draft.memory_id or written.get((told.decision_id, place)) or f"{number}/{place}"
            before = final.get(target)
            if before is None or before.action == "noop":
                final[target] = draft
            elif draft.action == "delete" and before.action == "add":
                del final[target]
            elif draft.action == "delete":
                final[target] = draft
            elif draft.action == "update":
                final[target] = replace(draft, action=before.action, memory_id=before.memory_id)
    return tuple(final.values())


def _checked(step: Step, voice: LoggedVoice, scene: ToldScene) -> list[RewrittenCall]:
    if voice.missed is not None:
        raise Unwritable(NOT_SHOWN)
    if step.error is not None:
        raise Unwritable(UNSAYABLE if isinstance(step.error, BadReply) else RULE)
    said = Counter(draft_key(one) for call in step.calls for one in call.drafts)
    wanted = Counter(draft_key(one) for one in voice.drafts)
    del said[None], wanted[None]
    if said != wanted:
        raise Unwritable(OTHERWISE)
    whole = tuple(dict.fromkeys((scene.heard, *(one.decision_id for one in scene.told))))
    of_facts = iter(voice.plan)
    out: list[RewrittenCall] = []
    for call in step.calls:
        assert call.reply is not None
        if _unsayable(call.prompt, call.reply.text):
            raise Unwritable(UNSAYABLE)
        guessed = call.role == "extractor" and any(one.guessed for one in voice.plan)
        named = {"extractor": (scene.heard,), "fused": whole}.get(call.role) or (next(of_facts).decision_id,)
        out.append(RewrittenCall(call.role, call.prompt.messages, call.reply.text, named, guessed))
    return out


def _unsayable(prompt: Prompt, reply: str) -> bool:
    return prompt.grammar is not None and not prompt.grammar.matches(reply)
