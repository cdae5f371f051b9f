"""Reads and what comes of them: search, context, answer, the app's own answer (observe), feedback.

Each read leaves a trace that says which memory revisions were served, in which order and why; an answer also says
which of them it cited. Feedback refers to the trace, so a label finds its way back to the decisions behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from memkit.config import Config
from memkit.engine.answer import answer
from memkit.engine.bank import LiveBank
from memkit.engine.call import Routing
from memkit.engine.citations import infer_citations
from memkit.engine.core import core
from memkit.engine.decide import Decided
from memkit.engine.drive import drive, within
from memkit.engine.record import decision_record
from memkit.engine.serve import serve, serve_people, with_sources
from memkit.engine.served_with import ServedWith
from memkit.errors import BadReply, InvalidInput, NoModel, NotFound
from memkit.journal import FeedbackRecord, Trace
from memkit.journal.records import TraceKind
from memkit.models import JSON, Bank, MemoryRecord, Op, digest
from memkit.results import Answer, ContextBlock, Hit, Hits
from memkit.retrieval import DEFAULT, Query, RankerWeights, Scored, nonce_of, render_context, why
from memkit.retrieval.relevance import Calibration, calibration_of
from memkit.runtime.banks import BankReader
from memkit.runtime.credited import credit_lessons
from memkit.runtime.read_request import ReadRequest
from memkit.runtime.traces import TraceBuffer
from memkit.seams.backbone import Backbone, Sampling
from memkit.seams.clock import Clock, Ids
from memkit.seams.embedder import Embedder, embed_queries

if TYPE_CHECKING:
    from memkit.filters import Condition
    from memkit.journal import Journal
    from memkit.rerankers import Reranker


class Asking:
    def __init__(
        self,
        journal: Journal,
        reader: BankReader,
        traces: TraceBuffer,
        embedder: Embedder,
        reranker: Reranker | None,
        backbone: Callable[[], Backbone | None],
        served: Callable[[], ServedWith],
        config: Config,
        *,
        clock: Clock,
        ids: Ids,
        route: Callable[[str], AbstractContextManager[dict[str, Routing]]],
        weights: Callable[[str], RankerWeights | None],
        deciding: Callable[[], None],
        watched: Callable[[Decided, dict[str, Routing], str | None], None],
        applied: Callable[[Bank, Sequence[Op]], None],
    ) -> None:
        self._journal, self._reader, self._traces, self._embedder = journal, reader, traces, embedder
        self._reranker = reranker
        self._backbone, self._served, self._config = backbone, served, config
        self._clock, self._ids, self._route, self._weights = clock, ids, route, weights
        self._deciding, self._watched, self._applied = deciding, watched, applied

    def look(self, ask: ReadRequest) -> Hits:
        """A search that leaves no trace: for whoever looks at a store, and uses nothing of it."""
        return Hits(self._hits(ask, self._relevant(self._rank(ask)[1], ask.min_score)))

    def search(self, ask: ReadRequest) -> Hits:
        live, scored, selection = self._rank(ask)
        scored = self._relevant(scored, ask.min_score)
        trace_id = self._ids.new("s")
        self._trace("search", trace_id, ask, live, scored, selection)
        return Hits(self._hits(ask, scored), trace_id="" if ask.owners else trace_id)

    def context(self, ask: ReadRequest, max_tokens: int) -> ContextBlock:
        live, scored, selection = self._rank(ask, serve_people)
        bearing = self._calibration.bearing
        scored = bearing(scored) if ask.min_score is None else self._relevant(scored, ask.min_score)
        trace_id = self._ids.new("c")
        now = ask.as_of if isinstance(ask.as_of, datetime) else self._clock.now()
        if not (ask.kinds or ask.session_id or ask.condition):
            scored = with_sources(live.index, scored, now)
        near = None
        if len(live) and not self._embedder.identity.startswith("hash/"):  # whose cosines know no meanings
            (near,) = embed_queries(self._embedder, [ask.text])
        standing = core(live.index, now, kinds=ask.kinds, condition=ask.condition, near=near)
        records = [one.record for one in scored]
        block = render_context(records, max_tokens=max_tokens, nonce=nonce_of(trace_id), core=standing)
        served = [one for one in scored if one.record.id in block.ids]
        found = {one.record.id for one in served}
        always = [Scored(one, 0.0, {}) for one in standing if one.id in block.ids and one.id not in found]
        told = [{"id": one.record.id, "revision": one.record.revision} for one in always]
        more = {"max_tokens": max_tokens} | ({"core": told} if told else {})
        self._trace("context", trace_id, ask, live, served, more | selection)
        hits = self._hits(ask, [*served, *always])
        return ContextBlock(block.text, trace_id="" if ask.owners else trace_id, hits=hits)

    def profile(self, ask: ReadRequest) -> list[MemoryRecord]:
        live, _, _ = self._rank(ask, rerank=False)
        return core(live.index, self._clock.now())

    @property
    def _calibration(self) -> Calibration:
        return calibration_of(self._embedder.identity)

    def _relevant(self, scored: list[Scored], least: float | None) -> list[Scored]:
        if not least:
            return scored
        relevance = self._calibration.relevance
        return [one for one in scored if relevance(one) >= least]

    def answer(self, ask: ReadRequest, max_tokens: int | None = None) -> Answer:
        """The memories that decide are selected, then answered from; what was shown and cited is kept."""
        backbone = self._backbone()
        if backbone is None:
            raise NoModel(
                "answer() needs a model, and none is configured",
                why="the built-in rules manage memories; they do not write answers",
                fix="use context(...) in your own prompt and observe(...) the reply, or open Memory(..., model=...)",
            )
        live, pool, selection = self._rank(ask, serve_people, rerank=False)  # the trainer replays an answer without it
        trace_id = self._ids.new("a")
        with self._route(ask.user_id) as routing:
            steps = answer(
                ask.text,
                pool,
                self._served() if max_tokens is None else replace(self._served(), answer_tokens=max_tokens),
                decision_id=self._ids.new("d"),
                state_seq=live.seq,
                now=self._clock.now(),
                routing=routing.get("answerer", Routing()),
                sampling=Sampling(),
            )
            answered = drive(steps, within(backbone, self._config.deadline_s))
            draft, call = answered.draft, answered.call
            failed = None if call.error is None else type(call.error).__name__
            self._watched(Decided([], [call], self._clock.now(), error=call.error), routing, failed)
        bank = Bank(ask.user_id, ask.agent_id or "")
        self._deciding()
        record = decision_record(call, bank=bank, intake_id=None, source_turns=(), created_at=self._clock.now())
        if draft is None:
            self._journal.record(record)
            raise call.error or BadReply("the model gave no answer")
        cited = [one.record for one in call.candidates if one.handle in draft.used]
        served = [Scored(one.record, one.score, dict(one.signals)) for one in call.candidates]
        self._journal.record(record)
        self._trace(
            "answer",
            trace_id,
            ask,
            live,
            served,
            {
                "answer": draft.text,
                "abstained": draft.abstained,
                "cited_by": "model",
                "cited": [{"id": r.id, "revision": r.revision} for r in cited],
                "decision_id": call.decision_id,
                "role": "answerer",
                "adapter": call.routing.adapter,
                "propensity": call.routing.propensity,
                "alias": call.routing.alias,
            }
            | selection,
            durable=True,
        )
        return Answer(draft.text, tuple(cited), trace_id, draft.abstained)

    def observe(self, trace_id: str, text: str, user_id: str) -> tuple[str, ...]:
        """Attach the app's own answer to what was served. Which memories it used is inferred by overlap and marked
        as inferred. Idempotent: the last answer counts. On the trace of `answer` it is kept beside what the model
        answered and cited, which is what feedback on that trace judges."""
        trace = self._traces.get(user_id, trace_id)
        served: Sequence[Mapping[str, Any]] = [*trace.payload.get("served", ()), *trace.payload.get("core", ())]
        texts = self._served_texts(trace.bank.user_id, served)
        cited = infer_citations(text, texts)
        named = [{"id": one["id"], "revision": one["revision"]} for one in served if one["id"] in cited]
        payload = dict(trace.payload) | {"observed_at": self._clock.now().isoformat()}
        if trace.kind == "answer":
            payload |= {"observed": text, "observed_cited": named}
        else:
            payload |= {"answer": text, "cited_by": "overlap", "cited": named}
        self._traces.write(replace(trace, payload=payload))
        return tuple(cited)

    def feedback(
        self,
        trace_id: str,
        user_id: str,
        *,
        reward: float | None,
        label: str | None,
        expected: str | None,
        comment: str | None,
    ) -> str:
        if all(value is None for value in (reward, label, expected, comment)):
            raise InvalidInput(
                "feedback says nothing", fix="pass reward=0…1, label='up'|'down', expected='…' or comment='…'"
            )
        if reward is not None and (
            isinstance(reward, bool) or not isinstance(reward, int | float) or not 0 <= reward <= 1
        ):
            raise InvalidInput("reward must be a number between 0 and 1", fix="pass reward=1.0 for good, 0.0 for bad")
        if label is not None and label not in ("up", "down"):
            raise InvalidInput(f"label {label!r} is unknown", fix="pass label='up' or label='down'")
        trace = self._known_trace(user_id, trace_id)
        reward = None if reward is None else float(reward)
        payload: JSON = {
            name: value
            for name, value in {"reward": reward, "label": label, "expected": expected, "comment": comment}.items()
            if value is not None
        }
        feedback_id = "f_" + digest([user_id, trace_id, payload])[:24]
        self._journal.add_feedback(
            FeedbackRecord(feedback_id, trace_id, payload, source="user", created_at=self._clock.now())
        )
        worth = {"up": 1.0, "down": 0.0}.get(label or "") if reward is None else reward
        if trace is not None and worth is not None:
            credit_lessons(self._journal, self._clock, self._applied, trace, feedback_id, worth)
        return feedback_id

    def _known_trace(self, user_id: str, trace_id: str) -> Trace | None:
        """A trace is that of a read, or of an add."""
        if trace_id.startswith("i_"):
            state = self._journal.intake(trace_id)
            if state is not None and state.intake.bank.user_id == user_id:
                return None
            raise NotFound(f"no trace {trace_id} for this user", fix="pass the trace_id of this user's own calls")
        return self._traces.get(user_id, trace_id)

    def _rank(
        self, ask: ReadRequest, serving: Callable[..., list[Scored]] = serve, *, rerank: bool = True
    ) -> tuple[LiveBank, list[Scored], JSON]:
        """The bank, its best rows, and what the trace says of how they were ranked."""
        if ask.as_of is not None:
            found = [self._reader.as_of(ask.user_id, ask.agent_id, ask.as_of)]
        else:
            found = [self._reader.scope(owner, ask.agent_id) for owner in ask.owners or (ask.user_id,)]
        weights = self._weights(ask.user_id)
        selection: JSON = {"ranker": (weights or DEFAULT).digest}
        if all(isinstance(one, LiveBank) and not len(one) for one in found):
            return LiveBank.join([one for one in found if isinstance(one, LiveBank)]), [], selection
        (vector,) = embed_queries(self._embedder, [ask.text])
        now = ask.as_of if isinstance(ask.as_of, datetime) else self._clock.now()
        query = Query(
            text=ask.text,
            vector=vector,
            k=ask.k,
            kinds=ask.kinds,
            condition=ask.condition,
            session_id=ask.session_id,
            now=now,
        )
        parts: list[LiveBank] = []
        for one in found:
            if not isinstance(one, LiveBank):
                size, one = len(one), one.narrow(ask.text, vector, ask.kinds, _within(ask))
                selection |= {"preselected": len(one), "of": size}
            parts.append(one)
        live = parts[0] if len(parts) == 1 else LiveBank.join(parts)
        asked: dict[str, Any] = {"weights": weights} if weights else {}
        if self._reranker is not None and rerank:
            from memkit.rerankers import reorder

            asked["reorder"] = partial(reorder, self._reranker, ask.text)
            selection |= {"reranker": self._reranker.identity}
        return live, serving(live.index, query, **asked), selection

    def _hits(self, ask: ReadRequest, scored: Sequence[Scored]) -> list[Hit]:
        turns: dict[str, Any] = {}
        relevance = self._calibration.relevance
        if ask.expand == "sources":
            wanted = {turn for one in scored for turn in one.record.source_turns}
            found = self._journal.turns(turn_ids=sorted(wanted))
            turns = {turn.turn_id: turn for turn in found if turn.text and turn.bank.user_id == ask.user_id}
        return [
            Hit(
                one.record,
                one.score,
                why(one),
                one.signals,
                tuple(turns[turn] for turn in one.record.source_turns if turn in turns),
                round(relevance(one), 4),
            )
            for one in scored
        ]

    def _trace(
        self,
        kind: TraceKind,
        trace_id: str,
        ask: ReadRequest,
        live: LiveBank,
        served: Sequence[Scored],
        more: JSON,
        *,
        durable: bool = False,
    ) -> None:
        if ask.owners or (not durable and not self._sampled(trace_id)):
            return
        seq, now = live.seq, self._clock.now()

        def trace() -> Trace:
            payload: JSON = {
                "v": 1,
                "question": ask.text,
                "k": ask.k,
                "kinds": ask.kinds,
                "as_of": ask.as_of if isinstance(ask.as_of, int) else ask.as_of.isoformat() if ask.as_of else None,
                "served": [
                    {
                        "id": one.record.id,
                        "revision": one.record.revision,
                        "rank": rank_no,
                        "score": round(one.score, 6),
                        "signals": {name: value and round(value, 6) for name, value in one.signals.items()},
                    }
                    for rank_no, one in enumerate(served, start=1)
                ],
            } | more
            if lessons := [one.record.id for one in served if one.record.kind == "lesson"]:
                payload["lessons"] = lessons
            return Trace(trace_id, kind, Bank(ask.user_id, ask.agent_id or ""), seq, payload, now)

        if durable:
            self._traces.write(trace())
        else:
            self._traces.write_later(trace)

    def _sampled(self, trace_id: str) -> bool:
        share = self._config.trace_sample
        return share >= 1 or int(hashlib.sha256(trace_id.encode()).hexdigest()[:12], 16) / 16**12 < share

    def _served_texts(self, user_id: str, served: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Texts of the revisions that were served, whatever became of the memories since."""
        texts: dict[str, str] = {}
        for one in served:
            for op in self._journal.ops(user_id=user_id, memory_id=one["id"]):
                if op.after is not None and op.after.revision == one["revision"]:
                    texts[one["id"]] = op.after.text
        return texts


def _within(ask: ReadRequest) -> Condition | None:
    """Everything that rows are filtered by, as one condition: what is selected before ranking must pass it."""
    from memkit.filters import Condition, parse_filters

    if ask.session_id is None:
        return ask.condition
    terms = () if ask.condition is None else ask.condition.terms
    return Condition((*terms, *parse_filters({"session_id": ask.session_id}).terms))
