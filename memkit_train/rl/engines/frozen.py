"""Beside an engine that samples elsewhere, a frozen copy of the base: it plays the states, says what each sampled reply
is worth, and judges the adapters that come back.

    with hold_frozen(stage, base, start, env, heldout, episodes) as frozen:
        places = frozen.draw(talks)                   the states of all steps, in their order
        scorer = frozen.scorer(places)
        scorer.advantages([(0, ids), …])              group after group
        frozen.look(10, folder)                       True: enough
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memkit.adapters.manifest import CONFIG, WEIGHTS
from memkit.backbones.hf import HFBackbone, ScoreRequest, checkpoint
from memkit.backbones.hf.checkpoint import Checkpoint
from memkit.backbones.hf.prompting import Prompter
from memkit.seams.backbone import GenReply
from memkit_train.errors import NoRows
from memkit_train.lab.worlds import Episode
from memkit_train.replay.env import Env, Policy, Trail
from memkit_train.replay.forks import DrawnReply
from memkit_train.rewards.base import metrics
from memkit_train.rl.acting import Acting, Stopwatch
from memkit_train.rl.algorithms.advantages import group_advantages
from memkit_train.rl.algorithms.values import share_earned
from memkit_train.rl.decisions import Decisions
from memkit_train.rl.engines.stage import StageRun, cut, pick_judged
from memkit_train.rl.judge import DecisionExam, Exam, Judge, Marks
from memkit_train.rl.pool import Place, Pool
from memkit_train.rl.rollouts import steps_of
from memkit_train.rl.scoring import Scoring, others, scoring
from memkit_train.rl.talks import Talk
from memkit_train.rows import Row

START = "start"
Drawn = tuple[int, tuple[int, ...]]
"""The number of a state, and what was sampled for it."""


@dataclass(slots=True)
class Frozen:
    stage: StageRun
    loaded: Checkpoint
    env: Env
    scores: Scoring
    policy: Policy
    """What the stage began with."""
    exam: FolderExam
    judge: Judge
    engine: HFBackbone

    def draw(self, talks: Sequence[Talk]) -> list[Place]:
        """The states of all steps, in their order: those in which the role decides once."""
        stage, settings, found = self.stage, self.stage.settings, list[Place]()
        pool = Pool(self.env, cut(talks, stage.stage), settings, stage.seed, single=True)
        for batch in range(-(-stage.stage.steps // settings.iterations)):
            if pool.due(batch):
                pool.play(batch, self.policy)
            drawn = pool.draw(batch, settings.states)
            if not drawn:
                raise NoRows(
                    f"{len(pool.played)} conversations were played, and no decision in them stands alone and can be "
                    "asked about",
                    why="no question holds right after a scene in which the role decides once",
                    fix="use conversations with more questions, check online.roles, or set online.engine=memkit",
                )
            found += [drawn[at % len(drawn)] for at in range(settings.states)]
        return found

    def scorer(self, places: Sequence[Place]) -> Scorer:
        once = replace(self.env, served=replace(self.env.served, reasks=0))
        settings, seed = self.stage.settings, self.stage.seed
        decisions = Decisions(once, Pool(once, (), settings, seed), self.scores, settings, seed)
        return Scorer(
            decisions, places, self.policy, frozenset(settings.roles), self.loaded, Prompter(self.loaded.tokenizer)
        )

    def score(self, rows: Sequence[Row]) -> list[tuple[float, ...]]:
        """Log-probs of these replies under what the stage began with."""
        return self.engine.score([ScoreRequest(row.prompt_ids, row.completion_ids, START) for row in rows])

    def look(self, step: int, adapter: Path) -> bool:
        """True: nothing gets better any more."""
        self.exam.of = adapter
        return self.judge.look_on(step)


@contextlib.contextmanager
def hold_frozen(
    stage: StageRun, base: Path | str, start: Path, env: Env, heldout: Sequence[Talk], episodes: Sequence[Episode]
) -> Generator[Frozen]:
    """`start`: the adapter that the stage begins with."""
    settings, machine, roles = stage.settings, stage.machine, stage.settings.roles
    loaded = checkpoint.load(checkpoint.find(base), dtype=machine.dtype, device=machine.device)
    with HFBackbone(loaded, threads=1, max_batch=machine.batch, window_ms=0.0) as engine:
        engine.load_adapter(START, start)
        acting = Acting(engine, roles, Stopwatch(), others(settings.others, episodes))
        scores = scoring(settings.reward, env, acting, episodes)
        judged = pick_judged(cut(heldout, stage.stage), settings.stop)
        exam = FolderExam(DecisionExam(env, judged, scores.answers, settings.reward.metric), acting, engine, roles)
        judge = Judge(exam, exam.keep, stage.folder / "best", settings.stop, stage.note)
        policy = Policy(acting, START, roles=roles, name="policy")
        made = Frozen(stage, loaded, env, scores, policy, exam, judge, engine)
        made.look(0, start)
        yield made


@dataclass(slots=True)
class Scorer:
    """What each sampled reply is worth, beside the others of its group."""

    decisions: Decisions
    places: Sequence[Place]
    policy: Policy
    trained: frozenset[str]
    loaded: Checkpoint
    prompter: Prompter
    batches: int = 0
    generated: int = 0
    told: dict[str, float] = field(default_factory=dict[str, float])
    """Of the last batch, in the words of memkit's own engine."""

    def advantages(self, drawn: Sequence[Drawn]) -> list[float | None]:
        """`drawn`: group after group. None: refused, and so not to be praised, whatever befell the others."""
        settings = self.decisions.settings
        size = settings.group
        chosen = [self.places[drawn[at][0]] for at in range(0, len(drawn), size)]
        members = [[ids for _, ids in drawn[at : at + size]] for at in range(0, len(drawn), size)]
        trails = self._apply(chosen, members)
        scores = self.decisions.score(self.batches, self.policy, chosen, trails)
        flat = [one for scored in scores for one in scored]
        steps = [steps_of(trail, self.trained) for group in trails for trail in group]
        earned = [share_earned(one.total, taken) for one, taken in zip(flat, steps, strict=True)]
        groups = {str(at): list(enumerate(earned))[at : at + size] for at in range(0, len(drawn), size)}
        found, stats = group_advantages(groups, baseline="mean", std_floor=settings.std_floor)
        values: list[float | None] = [0.0] * len(drawn)
        for _, at, advantage in found:
            refused = any(step.refused for step in steps[at])
            values[at] = None if refused and advantage > 0 else advantage
        self.batches, self.generated = self.batches + 1, self.generated + len(drawn)
        rows = float(sum(bool(value) for value in values))
        self.told = metrics(flat) | stats.metrics | {"num_generations": float(len(drawn)), "rows": rows}
        return values

    def _apply(self, chosen: Sequence[Place], members: Sequence[Sequence[tuple[int, ...]]]) -> list[list[Trail]]:
        """Equal replies are applied once."""
        ahead = [(at, ids) for at, group in enumerate(members) for ids in dict.fromkeys(group)]
        starts = [(chosen[at].state, self._by(chosen[at], ids)) for at, ids in ahead]
        trails = dict(zip(ahead, self.decisions.env.run(starts), strict=True))
        return [[trails[at, ids] for ids in group] for at, group in enumerate(members)]

    def _by(self, place: Place, ids: tuple[int, ...]) -> Policy:
        assert place.call is not None
        ended = ids[-1] in self.loaded.stop_ids
        said = [one for one in ids if one not in self.loaded.stop_ids]
        text = self.loaded.tokenizer.decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        reply = GenReply(
            text,
            prompt_ids=self.prompter.ids(place.call.prompt.messages),
            token_ids=ids,
            finish="stop" if ended else "length",
        )
        return replace(self.policy, backbone=DrawnReply(self.policy.backbone, reply, self.trained))


class FolderExam:
    """Of the adapter in a folder."""

    def __init__(self, exam: Exam, acting: Acting, engine: HFBackbone, roles: tuple[str, ...]) -> None:
        self._exam, self._acting, self._engine, self._roles = exam, acting, engine, roles
        self.of = Path()

    def __call__(self) -> Marks:
        name = str(self.of)
        self._engine.load_adapter(name, self.of)
        try:
            return self._exam(Policy(self._acting, name, roles=self._roles, name="policy"))
        finally:
            self._engine.unload_adapter(name)

    def keep(self, folder: Path) -> None:
        """Weights and shape, without the machine's paths."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.of / WEIGHTS, folder / WEIGHTS)
        config = json.loads((self.of / CONFIG).read_text())
        config["base_model_name_or_path"] = Path(config.get("base_model_name_or_path") or "").name
        (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True))
