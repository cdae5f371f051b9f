"""What a model can do in the world, through the runtime's own pipeline: extraction, operations and answers by kind.

The model plays held-out episodes on its own banks; each of its decisions is compared with what the oracle would have
done in the very same prompt, and its answers with the truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memkit.engine.call import ModelCall
from memkit.engine.served_with import ServedWith
from memkit.models import JSON, normalise
from memkit.roles import Shown
from memkit.seams.backbone import Backbone
from memkit.seams.embedder import Embedder
from memkit_train.lab.tiny.examples import heard_kind
from memkit_train.lab.worlds import Episode, OracleBackbone, Question, Truth, matches
from memkit_train.lab.worlds.dataset import as_conversation
from memkit_train.lab.worlds.policies import kind_of
from memkit_train.metrics.stats import Estimate, mean_by_cluster
from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.replay.env import Env, Policy, Trail
from memkit_train.replay.script import script_of


@dataclass(frozen=True, slots=True)
class Measured:
    """Each table: name → values by episode."""

    extraction: Mapping[str, Mapping[str, list[float]]]
    operations: Mapping[str, Mapping[str, list[float]]]
    """The operation and its target right, by kind of decision."""
    whole: Mapping[str, Mapping[str, list[float]]]
    """The whole reply right, texts included."""
    answers: Mapping[str, Mapping[str, list[float]]]
    parked: int
    turns: int

    def rows(self) -> JSON:
        out: JSON = {"parked": self.parked, "turns": self.turns}
        for name in ("extraction", "operations", "whole", "answers"):
            table: Mapping[str, Mapping[str, list[float]]] = getattr(self, name)
            out[name] = {kind: _shown(mean_by_cluster(values)) for kind, values in sorted(table.items())}
        return out


def measure(
    episodes: Sequence[Episode],
    backbone: Backbone,
    embedder: Embedder,
    *,
    answerer: Backbone | None = None,
    k: int = 8,
    candidates: int = 5,
) -> Measured:
    """Play, compare, ask. `answerer` answers in place of the backbone itself."""
    oracle = OracleBackbone(Truth(episodes))
    served = ServedWith(candidates=candidates, answer_candidates=k)
    env = Env(embedder, served)
    scripts = [
        script_of(one.user_id, [said.as_turn(one.user_id) for said in as_conversation(one).turns]) for one in episodes
    ]
    trails = env.run([(env.start(script), Policy(backbone)) for script in scripts], upto=None)
    tables: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    played = list(zip(episodes, trails, strict=True))
    for one, trail in played:
        for call in trail.calls:
            _compare(call, oracle, one.user_id, tables)
    asked = [(one.user_id, question) for one in episodes for question in one.questions]
    tasks = [_task(trail, question, embedder) for one, trail in played for question in one.questions]
    answered = answer_all(tasks, answerer or backbone, embedder, served)
    for (user_id, question), found in zip(asked, answered, strict=True):
        right = float(matches(question, found.text))
        tables["answers"][question.kind][user_id].append(right)
        tables["answers"]["all"][user_id].append(right)
    return Measured(
        tables["extraction"],
        tables["operations"],
        tables["whole"],
        tables["answers"],
        sum(len(trail.parked) for trail in trails),
        sum(map(len, scripts)),
    )


def _task(trail: Trail, question: Question, embedder: Embedder) -> AnswerTask:
    bank = trail.end.live if question.as_of is None else trail.as_of(question.as_of, embedder)
    return AnswerTask(question.text, bank, question.asked_at, question.question_id)


def _compare(
    call: ModelCall, oracle: OracleBackbone, user_id: str, tables: dict[str, dict[str, dict[str, list[float]]]]
) -> None:
    said = call.reply.text if call.reply else ""
    right = oracle.reply(call.request)
    if call.role == "extractor":
        kind = heard_kind(call.prompt, right)
        tables["extraction"][kind][user_id].append(float(said == right))
        return
    view = call.prompt.view
    kind = kind_of(view.facts[0].text, [(one.handle, one.record.text) for one in view.shown])
    for name in (kind, "all"):
        done, wanted = (_skeleton(reply, view.facts[0].text, view.shown) for reply in (said, right))
        tables["operations"][name][user_id].append(float(done == wanted))
        tables["whole"][name][user_id].append(float(said == right))


def _skeleton(reply: str, fact: str, shown: Sequence[Shown]) -> list[tuple[str, ...]]:
    """What a reply does, without its texts. As in `memkit.ops`: writing what is already there is a NOOP, and the number
    behind a NOOP only says where a restatement was found."""
    known = {str(one.handle): normalise(one.record.text) for one in shown}
    out: list[tuple[str, ...]] = []
    for line in reply.splitlines():
        verb, *rest = line.split(" ", 2)
        if verb == "UPDATE" and rest:
            text = rest[1] if len(rest) > 1 else fact
            out.append(("NOOP",) if known.get(rest[0]) == normalise(text) else (verb, rest[0]))
        elif verb == "ADD":
            text = line.removeprefix("ADD").strip() or fact
            out.append(("NOOP",) if normalise(text) in known.values() else (verb,))
        else:
            out.append((verb, rest[0]) if verb == "DELETE" and rest else (verb,))
    return sorted(out)


def _shown(estimate: Estimate) -> JSON:
    return {
        "value": round(estimate.value, 4),
        "low": round(estimate.low, 4),
        "high": round(estimate.high, 4),
        "n": estimate.n,
    }
