"""Who replies when a logged scene is decided once more: the log itself, in whatever way it is asked now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memkit.errors import BadReply
from memkit.models import MemoryRecord, OpDraft, Turn, normalise
from memkit.roles import Fact
from memkit.roles.facts import FACT_CHARS
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit_train.replay.hindsight import Option, list_facts
from memkit_train.replay.writing import NotShown, write_drafts, write_facts


@dataclass(frozen=True, slots=True)
class ToldFact:
    """What was decided of one fact."""

    drafts: tuple[OpDraft, ...]
    decision_id: str
    fact: Fact | None
    """None: one call said all, and no fact by itself."""


@dataclass(slots=True)
class PlannedFact:
    turn_id: str
    text: str
    decision_id: str
    drafts: list[OpDraft] = field(default_factory=list[OpDraft])
    guessed: bool = False
    """Its words are not the teacher's."""


_NOBODY = PlannedFact("", "", "")


class LoggedVoice:
    """A backbone for one scene. `missed`: the place of an operation whose memory its fact did not bring into sight;
    `tell_other` takes the next fact that may have been meant."""

    identity, max_parallel = "log", 1 << 20

    def __init__(
        self, style: str, turns: Sequence[Turn], told: Sequence[ToldFact], shown: Mapping[str, MemoryRecord]
    ) -> None:
        self.style, self._told = style, told
        self.drafts = [draft for one in told for draft in one.drafts]
        self._options = list_facts(self.drafts, turns, shown)
        self._speakers = {turn.turn_id: turn.speaker or turn.role.capitalize() for turn in turns}
        self._taken = [0] * len(self.drafts)
        self._begin()

    def _begin(self) -> None:
        self.missed: int | None = None
        self.plan = [
            PlannedFact(one.fact.source_turns[0], one.fact.text, one.decision_id, list(one.drafts))
            for one in self._told
            if one.fact is not None
        ] or self._guessed()
        self._ahead = iter(self.plan)

    def tell_other(self) -> bool:
        """False: there is none."""
        place = self.missed
        if place is None or any(one.fact is not None for one in self._told):
            return False
        self._taken[place] += 1
        if self._taken[place] >= len(self._options[place]):
            return False
        self._begin()
        return True

    def _guessed(self) -> list[PlannedFact]:
        """What the turns were told to say, in the order of the operations. Equal facts are one, as an extractor's
        are."""
        facts: dict[str, PlannedFact] = {}
        home: dict[int, PlannedFact] = {}
        beside: list[tuple[OpDraft, int]] = []
        for place, draft in enumerate(self.drafts):
            if _is_bare(draft):
                continue
            turn = draft.source_turns[-1] if draft.source_turns else ""
            option = self._choose(place, turn, facts)
            if isinstance(option, int):
                beside.append((draft, option))
                continue
            fact = facts.setdefault(normalise(option), PlannedFact(turn, option, self._told[0].decision_id))
            home[place] = fact
            fact.drafts.append(draft)
            fact.guessed |= option != draft.text
        for draft, option in beside:
            home[option].drafts.append(draft)
        return list(facts.values())

    def _choose(self, place: int, turn: str, facts: Mapping[str, PlannedFact]) -> Option:
        """The next that may have been meant; not what another turn says already, unless with whoever says it here."""
        left = self._options[place][self._taken[place] :] or [""]
        free = [one for one in left if isinstance(one, int) or facts.get(normalise(one), _NOBODY).turn_id in ("", turn)]
        return free[0] if free else f"{self._speakers.get(turn, 'User')}: {left[0]}"[:FACT_CHARS].strip()

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._reply(one) for one in requests]

    def _reply(self, request: GenRequest) -> GenReply | BadReply:
        if "#" in request.key:
            return BadReply("asked again, it would say the same")
        prompt = request.prompt
        try:
            match prompt.role:
                case "extractor":
                    text = write_facts(prompt, [(one.turn_id, one.text) for one in self.plan])
                case "manager":
                    text = write_drafts(prompt, next(self._ahead).drafts)
                case _:
                    text = write_drafts(prompt, [one for one in self.drafts if not _is_bare(one)])
        except NotShown as error:
            self.missed = next(place for place, one in enumerate(self.drafts) if one is error.draft)
            return BadReply("a memory is not shown")
        except StopIteration:
            return BadReply("more facts are heard than were told")
        return GenReply(text, model=self.identity)

    def close(self) -> None:
        """Nothing is held."""


def _is_bare(draft: OpDraft) -> bool:
    """Nothing is kept, and nothing known is named."""
    return draft.action == "noop" and draft.memory_id is None


def draft_key(draft: OpDraft) -> tuple[object, ...] | None:
    """What a draft says, to the letter; None for one that says nothing."""
    if _is_bare(draft):
        return None
    source = (draft.source_turns, draft.at, draft.speaker, draft.session_id, draft.origin, draft.trainable)
    return (draft.action, draft.memory_id, draft.text, *source)
