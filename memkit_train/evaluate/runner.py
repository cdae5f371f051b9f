"""`evaluate(config) -> Report`: systems × conversations, cached per pair, resumable, with progress.

A row is one question under one system. Everything in a report is computed from rows and bank figures, so a report can
be made again from its JSON alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit import __version__
from memkit.engine.answer import Answered
from memkit.engine.call import Attempt
from memkit.engine.served_with import NEWEST, ServedWith
from memkit.errors import InvalidConfig, ModelError, ModelUnavailable
from memkit.models import JSON, MemoryRecord, digest, to_json
from memkit.retrieval.weights import DEFAULT as DEFAULT_WEIGHTS
from memkit.roles import role_prompt_hashes
from memkit.seams.embedder import Embedder
from memkit_train.evaluate.banks import bank_figures
from memkit_train.evaluate.conversations import Conversation, Dataset, GoldQuestion
from memkit_train.evaluate.loaders import load
from memkit_train.evaluate.recall import first_words, recall_at, trace_evidence
from memkit_train.evaluate.systems import Built, System, make_answerer, make_system, serve
from memkit_train.lab.worlds import Episode, Question, Truth, matches
from memkit_train.lab.worlds.reader import WorldReader
from memkit_train.metrics.scores import gold_held, score_answer, stale_answer
from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.rewards import judge as judging

FORMAT = 4
"""Of reports and of cached pairs: a pair that was scored otherwise is measured again."""
RANKS = (5, 10, 30, 60)
BUDGETS = (25, 50, 100, 200, 400, 800)
"""Words of the best memories: the compression curve."""


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    prompts: tuple[judging.Prompting, ...] = ("strict",)
    allow_insecure: bool = False
    """Plain http beyond this machine."""


@dataclass(frozen=True, slots=True)
class EvalConfig:
    """What to evaluate. Strict: unknown fields are errors where it is read from a file."""

    data: str
    """`locomo:PATH`, `longmemeval:PATH`, `msc:PATH`, `jsonl:PATH`, `world:closed[,count=20,…]`."""
    systems: tuple[str, ...] = ("full", "raw", "add-only", "rules", "none")
    answerer: str | None = None
    """Model that answers (`tiny`, `hf:PATH`, `openai:NAME`); None: the world's reader where there is one, else no
    answers, and only what needs no model is measured."""
    embedder: str = "hash"
    k: int = 10
    """Memories served to the answerer."""
    words: int = 400
    """Budget of the model-free checks, equal for every system (the world's reader gets `reader_words`)."""
    reader_words: int = 40
    streaming: bool = False
    """Ask each question as soon as it can be answered, from the memory before, instead of all at the end."""
    limit: int | None = None
    instructions: str = ""
    judge: JudgeConfig | None = None
    cache: str | None = None
    draws: int = 1000

    def __post_init__(self) -> None:
        if not self.systems:
            raise InvalidConfig("no systems are named", why="there is nothing to compare", fix="name one, e.g. raw")
        for name in ("k", "words", "reader_words", "limit", "draws"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidConfig(f"{name} is {value}", why="it counts from 1", fix=f"set {name} to 1 or more")


@dataclass(slots=True)
class Report:
    """Rows, bank figures, and what they were made with."""

    config: JSON
    dataset: JSON
    systems: list[str]
    rows: list[JSON]
    banks: list[JSON]
    made: JSON = field(default_factory=dict[str, Any])

    def to_json(self) -> JSON:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Report:
        return cls(**{key: raw[key] for key in ("config", "dataset", "systems", "rows", "banks", "made")})


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int
    system: str
    conversation: str
    eta_s: float | None
    cached: int


def evaluate(
    config: EvalConfig, *, progress: Callable[[Progress], None] | None = None, ask_judge: judging.Ask | None = None
) -> Report:
    """Run (or finish) an evaluation. Interrupted runs resume from the cache, pair by pair."""
    from memkit.embedders import close_embedder, make_embedder

    dataset = load(config.data, config.limit)
    embedder = make_embedder(config.embedder)
    served = ServedWith(instructions=config.instructions)
    world = dataset.name.startswith("world")
    systems = [make_system(spec, served, world=world) for spec in dict.fromkeys(config.systems)]
    answerer = make_answerer(config.answerer, served) if config.answerer else None
    if config.judge is not None and answerer is None and not world:
        raise InvalidConfig(
            "there is nothing to judge", why="without an answerer this data gets no answers", fix="name an answerer"
        )
    if config.judge is not None and ask_judge is None:
        named = config.judge
        ask_judge = judging.endpoint(named.base_url, named.model, named.api_key, allow_insecure=named.allow_insecure)
    cache = Path(config.cache) if config.cache else None
    rows: list[JSON] = []
    banks: list[JSON] = []
    pairs = [(system, conversation) for system in systems for conversation in dataset.conversations]
    started, fresh, cached = time.monotonic(), 0, 0
    try:
        for done, (system, conversation) in enumerate(pairs):
            if progress is not None:
                eta = (time.monotonic() - started) / fresh * (len(pairs) - done) if fresh else None
                progress(Progress(done, len(pairs), system.name, conversation.conversation_id, eta, cached))
            key = _cache_key(config, system, conversation, embedder, answerer)
            result = _read(cache, key)
            if result is None:
                run = _Run(config, system, conversation, embedder, answerer, ask_judge)
                result = run.measure()
                _write(cache, key, result)
                fresh += 1
            else:
                cached += 1
            # one identity may go by several names (`oracle`, `oracle:0`): the name is no part of what is kept
            rows += [{"system": system.name} | row for row in result["rows"]]
            banks.append({"system": system.name} | result["bank"])
    finally:
        for system in systems:
            if system.backbone is not None:
                system.backbone.close()
        if answerer is not None and answerer.backbone is not None:
            answerer.backbone.close()
        close_embedder(embedder)
    if progress is not None:
        progress(Progress(len(pairs), len(pairs), "", "", 0.0, cached))
    made = {
        "embedder": embedder.identity,
        "answerer": answerer.identity if answerer else None,
        "systems": {system.name: system.identity for system in systems},
        "judge": None
        if config.judge is None
        else {"model": config.judge.model} | {prompt: judging.judge_digest(prompt) for prompt in config.judge.prompts},
        "seconds": round(time.monotonic() - started, 1),
        "cached": cached,
    }
    shown = asdict(config)
    if shown["judge"]:
        shown["judge"].pop("api_key")
    described = dataset.describe()
    if not config.streaming:
        described["left_out"] = sum(
            asked.after_session is not None for one in dataset.conversations for asked in one.questions
        )
    return Report(shown, described, [system.name for system in systems], rows, banks, made)


class _Run:
    """One system over one conversation."""

    def __init__(
        self,
        config: EvalConfig,
        system: System,
        conversation: Conversation,
        embedder: Embedder,
        answerer: System | None,
        ask_judge: judging.Ask | None,
    ) -> None:
        self.config, self.system, self.conversation, self.embedder = config, system, conversation, embedder
        self.answerer, self.ask_judge = answerer, ask_judge
        self.texts = {turn.ref: turn.text for turn in conversation.turns}
        self.names = sorted({turn.speaker for turn in conversation.turns if turn.speaker})
        self.last = max(turn.at for turn in conversation.turns)
        self.ends = {turn.session_id: (n, turn.at) for n, turn in enumerate(conversation.turns)}
        self.order = {session: step for step, session in enumerate(conversation.sessions, start=1)}
        self.session_of = {turn.ref: turn.session_id for turn in conversation.turns}
        self.depth = max(config.k, config.words, *RANKS, *BUDGETS)
        """Memories ranked: none is shorter than a word, so so many hold whatever fits the budget."""
        episode = conversation.info.get("episode")
        self.episode = episode if isinstance(episode, Episode) else None

    def measure(self) -> JSON:
        started = time.process_time()
        questions = self._questions()
        try:
            built = self.system.build(self.conversation, self.embedder)
            if built.trail is not None:
                _need_a_reply([attempt for call in built.trail.calls for attempt in call.attempts])
            answers = self._answers(built, questions)
        except ModelError as error:
            raise ModelUnavailable(
                f"{self.system.name} cannot be measured on {self.conversation.conversation_id}: {error.what}",
                why=error.why,
                fix=f"{error.fix or 'check the model and its endpoint'}, {judging.RESUME}",
            ) from error
        rows = [
            self._row(built, asked, step, answer) for (asked, _, step), answer in zip(questions, answers, strict=True)
        ]
        figures = bank_figures(list(built.final.state), built.ops, self.conversation, self.names)
        figures |= {"parked": float(built.parked), "decisions": float(built.decisions)}
        figures["cpu_s"] = time.process_time() - started
        if self.system.name == "full":
            figures["size"] = 1.0
        return {"rows": rows, "bank": {"conversation": self.conversation.conversation_id, **figures}}

    def _questions(self) -> list[tuple[GoldQuestion, str | None, int]]:
        """(question, session after which it is asked, step). At the end, only what is still true then is asked."""
        out: list[tuple[GoldQuestion, str | None, int]] = []
        steps = len(self.order)
        for asked in self.conversation.questions:
            if not self.config.streaming:
                if asked.after_session is None:
                    out.append((asked, None, steps))
                continue
            session = asked.after_session
            if session is None and asked.evidence and not self.episode:
                session = max((self.session_of[ref] for ref in asked.evidence), key=lambda one: self.ends[one])
            out.append((asked, session, self.order.get(session or "", steps)))
        return out

    def _now(self, asked: GoldQuestion, session: str | None) -> datetime:
        """Asked in the middle of a conversation, a question knows nothing of the time after it."""
        return asked.as_of or asked.at or (self.ends[session][1] if session else self.last)

    def _answers(self, built: Built, questions: Sequence[tuple[GoldQuestion, str | None, int]]) -> list[JSON]:
        """text, served, cited: per question."""
        banks = [built.at(session, asked.as_of, self.embedder) for asked, session, _ in questions]
        if self.answerer is not None and self.answerer.backbone is not None:
            return self._generated(built, questions, banks)
        reader = None
        if self.episode is not None:
            reader = WorldReader(Truth([self.episode]), self.embedder, words=self.config.reader_words)
        out: list[JSON] = []
        for (asked, session, _), bank in zip(questions, banks, strict=True):
            ranked = serve(built, bank, asked.text, self._now(asked, session), self.embedder, self.depth)
            question = self._world_question(asked)
            if reader is None or question is None:
                out.append({"answer": None, "ranked": ranked, "bank": bank, "cited": None, "served": None})
                continue
            if built.everything:  # the reader reads all of it
                wide = WorldReader(reader.truth, self.embedder, words=1 << 30)
                reading = wide.ask(question, bank)
            else:
                reading = reader.ask(question, bank)
            cited = {record.id for record in reading.used}
            out.append(
                {
                    "answer": reading.text,
                    "ranked": ranked,
                    "bank": bank,
                    "cited": cited,
                    "served": list(reading.served),
                }
            )
        return out

    def _generated(
        self, built: Built, questions: Sequence[tuple[GoldQuestion, str | None, int]], banks: Sequence[Any]
    ) -> list[JSON]:
        assert self.answerer is not None
        assert self.answerer.backbone is not None
        tasks = [
            AnswerTask(asked.text, bank, self._now(asked, session), asked.question_id)
            for (asked, session, _), bank in zip(questions, banks, strict=True)
        ]
        served = self.answerer.served
        if built.everything:
            served = replace(served, answer_candidates=max((len(bank) for bank in banks), default=0), answer_tokens=0)
        found = answer_all(tasks, self.answerer.backbone, self.embedder, served)
        _need_a_reply(found)
        out: list[JSON] = []
        for task, answered in zip(tasks, found, strict=True):
            ranked = serve(built, task.bank, task.question, task.now, self.embedder, self.depth)
            cited = set(answered.draft.memory_ids) if answered.draft else set()
            shown = [one.record for one in answered.served]
            out.append({"answer": answered.text, "ranked": ranked, "bank": task.bank, "cited": cited, "served": shown})
        return out

    def _row(self, built: Built, asked: GoldQuestion, step: int, found: JSON) -> JSON:
        ranked: list[MemoryRecord] = found["ranked"]
        answer: str | None = found["answer"]
        row: JSON = {
            "conversation": self.conversation.conversation_id,
            "id": asked.question_id,
            "category": asked.category,
            "step": step,
            "question": asked.text,
            "gold": list(asked.gold),
            "answer": answer,
            "evidence": list(asked.evidence),
        }
        scores: dict[str, float] = {}
        if answer is not None:
            scores |= score_answer(answer, asked.gold, asked.number)
            question = self._world_question(asked)
            if question is not None:
                scores["right"] = float(matches(question, answer))
            if asked.stale:
                scores["stale_answer"] = stale_answer(answer, asked.stale, asked.gold)
            if self.ask_judge is not None and self.config.judge is not None and asked.gold:
                for prompting in self.config.judge.prompts:
                    verdict = judging.judge(self.ask_judge, asked.text, asked.gold, answer, prompting)
                    scores[f"judge_{prompting}_unreadable"] = float(verdict.right is None)
                    if verdict.right is not None:
                        scores[f"judge_{prompting}"] = float(verdict.right)
        live = list(found["bank"].state)
        served: list[MemoryRecord] = ranked if built.everything else ranked[: self.config.k]
        if found["served"] is not None:
            served = found["served"]
        split = trace_evidence(
            asked.evidence if _traceable(asked) else (),
            live,
            served,
            self.texts,
            cited=found["cited"],
            names=self.names,
        )
        if split is not None:
            scores |= {f"evidence_{name}": value for name, value in asdict(split).items()}
            if not built.everything:
                scores |= {f"recall@{k}": recall_at(asked.evidence, ranked, k) for k in RANKS}
                seen = ranked[: max(self.config.k, *RANKS)]
                full = trace_evidence(asked.evidence, live, seen, self.texts, names=self.names)
                assert full is not None
                scores["mrr"] = full.reciprocal_rank
        if asked.gold and asked.number in (None, 1, 4):
            kept = " ".join(record.text for record in live)
            top = kept if built.everything else first_words(ranked, self.config.words)
            scores["gold_in_bank"] = gold_held(kept, asked.gold)
            scores["gold_in_top"] = gold_held(top, asked.gold)
            if not built.everything:
                scores |= {f"gold@{n}": gold_held(first_words(ranked, n), asked.gold) for n in BUDGETS}
        row["scores"] = {name: round(value, 6) for name, value in scores.items()}
        row["served"] = [[record.text, list(record.source_turns)] for record in served[:6]]
        return row

    def _world_question(self, asked: GoldQuestion) -> Question | None:
        if self.episode is None:
            return None
        every = [*self.episode.questions, *(q for session in self.episode.sessions for q in session.probes)]
        return next((one for one in every if one.question_id == asked.question_id), None)


def _need_a_reply(calls: Sequence[Attempt] | Sequence[Answered]) -> None:
    """A prompt that a model refuses and a reply that cannot be read are data. A model that never replied is not
    measured: its name or its endpoint is wrong."""
    errors = [one.error for one in calls if one.reply is None and one.error is not None]
    if errors and len(errors) == len(calls):
        raise errors[0]


def _traceable(asked: GoldQuestion) -> bool:
    """Whether a good memory holds the evidence. Of a fact that was taken back it is the turn that took it back, which a
    right DELETE leaves in no memory. LoCoMo's recall is published over all its categories, the unanswerable one too."""
    return bool(asked.gold) or asked.number is not None


def _cache_key(
    config: EvalConfig, system: System, conversation: Conversation, embedder: Embedder, answerer: System | None
) -> str:
    """Whatever a result hangs on. Turns and questions go in whole, so that a field that is added later counts too. A
    release may decide, rank or answer otherwise with the same prompts, so it counts as well."""
    kept = {name: value for name, value in asdict(config).items() if name not in ("systems", "cache", "limit", "draws")}
    if config.judge is not None:
        kept["judge"].pop("api_key")
        kept["judge"]["texts"] = [judging.judge_digest(prompting) for prompting in config.judge.prompts]
    said = [asdict(turn) for turn in conversation.turns]
    asked = [asdict(question) for question in conversation.questions]
    return digest(
        [
            FORMAT,
            __version__,
            DEFAULT_WEIGHTS.digest,
            kept,
            system.origin,
            _origin(embedder),
            answerer.origin if answerer else None,
            role_prompt_hashes(config.instructions),
            role_prompt_hashes(config.instructions, "json", NEWEST["json"]),
            conversation.conversation_id,
            digest(said),
            digest(asked),
        ]
    )[:32]


def _origin(embedder: Embedder) -> str:
    """As `System.origin`: another server may mean another model by the same name."""
    return " at ".join(filter(None, (embedder.identity, getattr(embedder, "endpoint", ""))))


def _read(cache: Path | None, key: str) -> JSON | None:
    if cache is None:
        return None
    try:
        found = json.loads((cache / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"rows", "bank"} <= found.keys() else None


def _write(cache: Path | None, key: str, result: JSON) -> None:
    """Whole files only: a run that is killed here leaves the pair to be measured again."""
    if cache is None:
        return
    cache.mkdir(parents=True, exist_ok=True)
    part = cache / f"{key}.{os.getpid()}.part"
    part.write_text(to_json(result), encoding="utf-8")
    part.replace(cache / f"{key}.json")


__all__ = ["Dataset", "EvalConfig", "JudgeConfig", "Progress", "Report", "evaluate"]
