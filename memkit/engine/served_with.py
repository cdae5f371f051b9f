"""What a store is served with, beside the model: everything that shapes a prompt, or what is made of a reply.

One value, on record in the store, so that the trainer replays the system that is served and not one of default values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, cast

from memkit.errors import InvalidConfig
from memkit.models import JSON
from memkit.ops import GuardLimits
from memkit.retrieval import RANKINGS, RankerWeights
from memkit.roles.prompting import FIRST, WORDINGS
from memkit.seams.backbone import Backbone, style_of

MODES = ("split", "fused")
STYLES = ("compact", "json")
ANSWER_EDITIONS = (1, 2)
ROLES = ("answerer", "extractor", "fused", "manager")
NEWEST = {"compact": FIRST, "json": max(WORDINGS)}
"""Style → version of the words for whoever is asked in it for the first time. Local models have adapters, and these
were trained on the first words."""


@dataclass(frozen=True, slots=True)
class ServedWith:
    """The defaults are those of a store that says nothing else, whichever version wrote it."""

    mode: str = "split"
    """split: extractor, then the manager per fact. fused: one call."""
    instructions: str = ""
    styles: tuple[tuple[str, str], ...] = ()
    """Role → reply style (compact or json)."""
    guard: GuardLimits = field(default_factory=GuardLimits)
    reasks: int = 2
    candidates: int = 5
    fused_candidates: int = 20
    context_turns: int = 4
    answer_candidates: int = 60
    wordings: tuple[tuple[str, int], ...] = ()
    """Role → version of the words that it is asked in; 1 where it is not named."""
    answer_tokens: int = 7_000
    """Of the memories shown for an answer, at most; 0 for no limit. Earlier versions had none, but 60 memories in
    letters that are not each a token take less."""
    facts_first: bool = False
    """Whether a language model writes the facts: they stand above words that fit a question as well. Those of the rules
    copy the words, and say less."""
    answer_edition: int = 1
    """The rules by which the memories of an answer are chosen. 1: the best; 2: replies only among the very best."""
    ranking: int = 1
    """Version of what reads rank by where no ranker was learned."""

    @property
    def weights(self) -> RankerWeights:
        """By which reads rank where no ranker was learned."""
        default, facts_first = RANKINGS[self.ranking]
        return facts_first if self.facts_first else default

    def style(self, role: str) -> str:
        return dict(self.styles).get(role, "compact")

    def wording(self, role: str) -> int:
        return dict(self.wordings).get(role, FIRST)

    def to(self, backbone: Backbone) -> ServedWith:
        """The same, in the reply styles of whoever is asked."""
        return self.in_styles({role: style_of(backbone, role) for role in ROLES})

    def by_writer(self) -> ServedWith:
        """Ranked by the newest weights: facts first where a language model writes them, whoever is asked in JSON."""
        writes = self.style("fused" if self.mode == "fused" else "manager")
        return replace(self, facts_first=writes == "json", ranking=max(RANKINGS))

    def in_styles(self, styles: Mapping[str, str]) -> ServedWith:
        """A role that was asked in another style until now has the newest words for its own."""
        known = dict(self.styles)
        if styles == known:
            return self
        wordings = {
            role: self.wording(role) if known.get(role) == style else NEWEST[style] for role, style in styles.items()
        }
        return replace(self, styles=tuple(styles.items())).in_words(wordings)._choosing_as(self)

    def in_words(self, wordings: Mapping[str, int]) -> ServedWith:
        """Whoever answers in the first words is shown the memories that went with them."""
        return replace(
            self,
            wordings=tuple(sorted(one for one in wordings.items() if one[1] != FIRST)),
            answer_edition=1 if wordings.get("answerer", FIRST) == FIRST else max(ANSWER_EDITIONS),
        )

    def in_words_of(self, before: ServedWith) -> ServedWith:
        """In the words that the same store was asked in before, where the style is the same: its adapters know them."""
        known = dict(before.styles)
        return self.in_words(
            {role: (before if known.get(role) == style else self).wording(role) for role, style in self.styles}
        )._choosing_as(before)

    def _choosing_as(self, before: ServedWith) -> ServedWith:
        """An answerer that is asked as before chooses among the memories that it knows."""
        same = self.style("answerer") == dict(before.styles).get("answerer")
        return replace(self, answer_edition=before.answer_edition) if same else self

    def to_json(self) -> JSON:
        return asdict(self) | {"styles": dict(self.styles), "wordings": dict(self.wordings)}

    @classmethod
    def of(cls, raw: Any) -> ServedWith:
        """As `to_json` gave it. What is missing is the default; what another version knows besides is left out."""
        if not isinstance(raw, Mapping):
            raise unreadable("it is no mapping")
        found: JSON = dict(raw)  # pyright: ignore[reportUnknownArgumentType]
        known = {one.name: _READ[one.name](found[one.name]) for one in fields(cls) if one.name in found}
        return cls(**known)


def _mode(value: Any) -> str:
    if value not in MODES:
        raise unreadable(f"mode {value!r} is unknown")
    return value


def _instructions(value: Any) -> str:
    if not isinstance(value, str):
        raise unreadable("its instructions are no text")
    return value


def _styles(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or not all(one in STYLES for one in cast("Mapping[str, Any]", value).values()):
        raise unreadable("its styles are no mapping of roles to compact or json")
    return tuple(sorted(cast("Mapping[str, str]", value).items()))


def _wordings(value: Any) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping) or not all(one in WORDINGS for one in cast("Mapping[str, Any]", value).values()):
        raise unreadable("its prompts are of a version that is unknown here")
    return tuple(sorted(cast("Mapping[str, int]", value).items()))


def _guard(value: Any) -> GuardLimits:
    try:
        return GuardLimits(**value)
    except (TypeError, InvalidConfig) as error:
        raise unreadable(f"its guard is none: {error}") from None


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise unreadable(f"{value!r} is no number from 0 up")
    return value


def _ranking(value: Any) -> int:
    if isinstance(value, bool) or value not in RANKINGS:
        raise unreadable("it ranks by a version that is unknown here")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise unreadable(f"{value!r} is neither true nor false")
    return value


def _answer_edition(value: Any) -> int:
    if value not in ANSWER_EDITIONS:
        raise unreadable("its answers are made by rules that are unknown here")
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "mode": _mode,
    "instructions": _instructions,
    "styles": _styles,
    "wordings": _wordings,
    "guard": _guard,
    "reasks": _number,
    "candidates": _number,
    "fused_candidates": _number,
    "context_turns": _number,
    "answer_candidates": _number,
    "answer_tokens": _number,
    "facts_first": _switch,
    "answer_edition": _answer_edition,
    "ranking": _ranking,
}


def unreadable(why: str) -> InvalidConfig:
    return InvalidConfig(
        "what the turns of this log were decided with cannot be read",
        why=why,
        fix="let the app that made it decide a turn, which records it again",
    )
