"""`Memory`: the verbs. Thin on purpose: arguments are checked here, the rooms do the work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit import inputs
from memkit.config import Config
from memkit.errors import NotFound
from memkit.inputs import optional_id, scope_id, text_of, verb, whole_number
from memkit.models import Bank, Kind, MemoryRecord, Op
from memkit.results import AddResult, Answer, ContextBlock, Hits, Page
from memkit.runtime import care, documents, erasure, lessons, pruning, writes
from memkit.runtime.read_request import AS_OF, ReadRequest
from memkit.runtime.runtime import Runtime
from memkit.seams.clock import Clock, Ids
from memkit.upkeep import Upkeep

if TYPE_CHECKING:
    from memkit.adapters import AdapterSet
    from memkit.principal import Principal
    from memkit.runtime.open_bank import OpenBank
    from memkit.user import UserMemory
    from memkit.views import Views

# Inside the class, `list` is a verb.
Ops = list[Op]
Records = list[MemoryRecord]
Decisions = list[care.ToldDecision]


class Memory(Upkeep):
    """A store of memories that a model (or built-in rules) manages. Thread-safe; processes may share it."""

    def __init__(
        self,
        path: str | Path = "./memory",
        *,
        model: Any = None,
        embedder: Any = None,
        adapters: Any = None,
        alias: str = "production",
        explore: float = 0.0,
        keep_turns: str = "all",
        instructions: str = "",
        redact: Callable[[str], str] | Collection[str] | None = None,
        reranker: Any = None,
        config: Config | Mapping[str, Any] | None = None,
        mode: str | None = None,
        lance: str | Path | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        **model_options: Any,
    ) -> None:
        """
        path: a folder, or "postgresql://…"; then lance= or ?lance= says where LanceDB is: a machine's own folder (else,
            in the user's cache), or "s3://bucket/prefix" for all machines.
        model: None (built-in rules), "small" (learned, on any CPU; it writes no answers), "openai:NAME",
            "anthropic:NAME", "gemini:NAME", "ollama:NAME", "litellm:NAME", "hf:PATH_OR_ID", a callable(messages) ->
            str, a Backbone, or a mapping of roles to these. base_url=, api_key= and other options go to the backbone.
        embedder: None (the store's own; a new store's is "hash"), "hash", "minilm" (English), "multilingual",
            "fastembed:NAME", "openai:NAME", a callable or an Embedder.
        adapters: folder of the adapter registry; by default the store's own. alias: the name that serves.
        explore: share of decisions that are sampled instead of greedy, so that there is something to learn from; only
            in the roles of the model that adapters are served with, where some of the roles have another one.
        keep_turns: whether what was said stays searchable beside the memories drawn from it: "all", "uncovered" (until
            a fact says it), "logged" (never; it is kept for training alone) or "none" (nor for training: the words, and
            prompts and replies that hold them, are not kept once they are decided).
        instructions: what to remember, in words; becomes part of the prompts and of their hashes.
        redact: applied to every text that callers hand in (messages, speakers, metadata, questions, answers, comments)
            before anything is written: str -> str, or names of "keys", "passwords", "cards", "mail", "phone"; "all".
        reranker: None, "fastembed", "fastembed:NAME", a function of (question, texts) or a Reranker: orders anew what
            `search` and `context` found.
        mode: "split" (extract, then manage each fact) or "fused" (one call); chosen by the model when None.
        """
        self._runtime = Runtime(
            path,
            model=model,
            embedder=embedder,
            adapters=adapters,
            alias=alias,
            explore=explore,
            keep_turns=keep_turns,
            instructions=instructions,
            redact=redact,
            reranker=reranker,
            config=config,
            mode=mode,
            lance=lance,
            clock=clock,
            ids=ids,
            model_options=model_options,
        )
        erasure.finish_erasures(self._runtime)
        pruning.finish_pruning(self._runtime)
        if self._runtime.config.tidy_every_s:
            from memkit.runtime.tidying import Tidier

            Tidier(self._runtime)

    # ---- writing -------------------------------------------------------------------------------------------------

    @verb
    def add(
        self,
        messages: Any,
        *,
        user_id: str,
        agent_id: str | None = None,
        session_id: str | None = None,
        at: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        infer: bool = True,
        wait: bool = True,
        expires_at: datetime | str | None = None,
        keep_turns: str | None = None,
    ) -> AddResult:
        """Remember what was said: a str, a message, or a list of messages as chat APIs have them.

        infer=True lets the manager decide what becomes of it; infer=False stores each turn as it is. What is written
        carries `metadata`. at: when it was said; a message may have its own. wait=False returns once the turn is
        durable. The same idempotency_key with the same body is stored once. expires_at: when the memories that this
        adds end; said again for longer, or without an end, they last as long. keep_turns: instead of the Memory's."""
        return writes.add(
            self._runtime.alive(),
            messages,
            bank=self._bank(user_id, agent_id),
            session_id=session_id,
            at=at,
            metadata=metadata,
            idempotency_key=idempotency_key,
            infer=infer,
            wait=wait,
            expires_at=expires_at,
            keep_turns=keep_turns,
        )

    @verb
    def learn(
        self,
        steps: Any,
        *,
        task: str,
        outcome: str | bool,
        user_id: str,
        agent_id: str | None = None,
        note: str | None = None,
        trace_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
    ) -> AddResult:
        """Learn from an agent's run: its messages and tool calls as chat APIs have them. At most three lessons are
        kept (kind `lesson`), which `context(task, kinds=("lesson",))` brings into the next run; without a model, the
        run itself under its task.

        outcome: "success", "failure", "unknown", or whether it succeeded; nothing in the steps changes it. note: how
        it ended, in words. trace_id: of the context that the run was given; the lessons in it that the run used are
        credited with the outcome."""
        return lessons.learn(
            self._runtime.alive(),
            steps,
            bank=self._bank(user_id, agent_id),
            task=text_of(task, "the task", self._runtime.config.max_message_bytes),
            outcome=outcome,
            note=note,
            trace_id=None if trace_id is None else scope_id(trace_id, "trace_id"),
            metadata=metadata,
            idempotency_key=idempotency_key,
            wait=wait,
        )

    @verb
    def add_document(
        self,
        source: str | Path,
        *,
        user_id: str,
        agent_id: str | None = None,
        name: str | None = None,
        at: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | None = None,
    ) -> AddResult:
        """Make a document findable: the Path of a text, Markdown, HTML or PDF file (`memkit[pdf]`), or its text and a
        `name`. It is kept in passages (kind `chunk`, which `list` leaves out unless it is asked for), each with its
        place (`heading`, `page`) in the metadata; nothing in it becomes a fact about the user. A document of the same
        name is replaced: what did not change stays."""
        bank = self._bank(user_id, agent_id)
        return documents.add_document(
            self._runtime.alive(), source, bank=bank, name=name, at=at, metadata=metadata, expires_at=expires_at
        )

    @verb
    def update(
        self,
        id: str,
        text: str | None = None,
        *,
        user_id: str,
        metadata: Mapping[str, Any] | None = None,
        expected_revision: int | None = None,
    ) -> MemoryRecord:
        """Change a memory's text or metadata (which is replaced whole). The earlier revision stays in history."""
        return writes.update(self._runtime.alive(), scope_id(user_id, "user_id"), id, text, metadata, expected_revision)

    @verb
    def pin(self, id: str, *, user_id: str, pinned: bool = True) -> MemoryRecord:
        """Make a memory standing: every context carries it. pinned=False lets it be found like any other again."""
        return writes.pin(self._runtime.alive(), scope_id(user_id, "user_id"), id, pinned)

    @verb
    def delete(self, id: str, *, user_id: str) -> Op:
        """End a memory. Its history stays; `erase` destroys."""
        return writes.delete(self._runtime.alive(), scope_id(user_id, "user_id"), id)

    @verb
    def delete_all(self, *, user_id: str, agent_id: str | None = None) -> int:
        """End every memory of the user (or of one of the user's agents). Returns how many."""
        return writes.delete_all(
            self._runtime.alive(), scope_id(user_id, "user_id"), optional_id(agent_id, "agent_id") or None
        )

    @verb
    def undo(
        self,
        *,
        user_id: str,
        op_id: str | None = None,
        turn_id: str | None = None,
        since: int | datetime | None = None,
    ) -> Ops:
        """Write compensating ops: for one op, for all that a turn (or an `add`, by its trace_id) led to, or for
        everything since a sequence number or record time. Refused while a later op that stands builds on one of
        them; the error names it. An undo is undone by its own op id, and brings back what it took."""
        return writes.undo(self._runtime.alive(), scope_id(user_id, "user_id"), op_id, turn_id, since)

    # ---- reading -------------------------------------------------------------------------------------------------

    @verb
    def search(
        self,
        query: str,
        *,
        user_id: str,
        agent_id: str | None = None,
        k: int = 10,
        kinds: Sequence[Kind] | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        as_of: AS_OF | str = None,
        expand: str | None = None,
        min_score: float | None = None,
    ) -> Hits:
        """The k best memories. as_of: a sequence number (what the store knew) or a time (what had been said).
        min_score: leave out hits whose `relevance` is below it. expand="sources": with the turns they came from."""
        words = self._words(query, "the query")
        ask = self._ask(words, user_id, agent_id, k, kinds, session_id, filters, as_of, expand, min_score)
        return self._runtime.alive().asking.search(ask)

    @verb
    def context(
        self,
        query: str,
        *,
        user_id: str,
        agent_id: str | None = None,
        max_tokens: int = 800,
        k: int = 60,
        kinds: Sequence[Kind] | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        as_of: AS_OF | str = None,
        expand: str | None = None,
        min_score: float | None = None,
    ) -> ContextBlock:
        """A block to put into a prompt: dated, chronological, rendered as data, never over max_tokens. It ends where
        what was said bears no longer on the query, and is empty where nothing does, as far as the embedder can tell;
        min_score, instead: what has that `relevance`. expand="sources": `block.hits` carry the turns they came from."""
        words = self._words(query, "the query")
        ask = self._ask(words, user_id, agent_id, k, kinds, session_id, filters, as_of, expand, min_score)
        budget = whole_number(max_tokens, "max_tokens", 1, 1_000_000)
        return self._runtime.alive().asking.context(ask, budget)

    @verb
    def answer(
        self,
        question: str,
        *,
        user_id: str,
        agent_id: str | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        as_of: AS_OF | str = None,
        max_tokens: int | None = None,
    ) -> Answer:
        """Answer from memory with the configured model; says which memories it used. max_tokens: of the memories that
        it is shown, instead of `Config.answer_tokens`."""
        words, shown = self._words(question, "the question"), self._runtime.config.answer_candidates
        ask = self._ask(words, user_id, agent_id, shown, None, session_id, filters, as_of)
        budget = None if max_tokens is None else whole_number(max_tokens, "max_tokens", 1, 1_000_000)
        return self._runtime.alive().asking.answer(ask, budget)

    @verb
    def get(self, id: str, *, user_id: str) -> MemoryRecord:
        found = self._runtime.alive().journal.get(scope_id(user_id, "user_id"), scope_id(id, "id"))
        if found is None:
            raise NotFound(
                f"no live memory {id} for this user",
                why="it was deleted, or belongs to somebody else",
                fix="list(user_id=...) shows what is there; history(user_id=..., memory_id=...) what became of it",
            )
        return found[1]

    @verb
    def list(
        self,
        *,
        user_id: str,
        agent_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        kinds: Sequence[Kind] | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> Page:
        """Live memories in the order in which they were last written; pass `page.cursor` back to go on."""
        ask = self._ask("*", user_id, agent_id, 1, kinds, session_id, filters)
        return care.list_page(self._runtime.alive(), ask, whole_number(limit, "limit", 1, 10_000), cursor)

    @verb
    def profile(self, *, user_id: str, agent_id: str | None = None) -> Records:
        """The standing memories, which every context carries: what could hurt if it were forgotten first, then how to
        answer and call the user, and what was pinned; of each, the newest first."""
        return self._runtime.alive().asking.profile(self._ask("*", user_id, agent_id, 1))

    @verb
    def history(self, *, user_id: str, memory_id: str | None = None, limit: int | None = None) -> Ops:
        """Every op of the user, or of one memory, oldest first: before- and after-images, causes, sources. What was
        done to the words of a turn is told for its id."""
        if limit is not None:
            whole_number(limit, "limit", 1, 1_000_000)
        user, memory = scope_id(user_id, "user_id"), None if memory_id is None else scope_id(memory_id, "memory_id")
        return self._runtime.alive().journal.ops(user_id=user, memory_id=memory, limit=limit, words=memory is not None)

    @verb
    def decisions(self, *, user_id: str, trace_id: str | None = None, last: int = 20) -> Decisions:
        """The newest decisions, oldest first: what was said, shown, replied, applied or refused, by which adapter, at
        what cost. Each is the versioned trajectory record that training reads."""
        user, trace = scope_id(user_id, "user_id"), None if trace_id is None else scope_id(trace_id, "trace_id")
        return care.decisions(self._runtime.alive(), user, trace, whole_number(last, "last", 1, 100_000))

    @verb
    def observe(self, trace_id: str, answer: str, *, user_id: str) -> tuple[str, ...]:
        """Tell what the app answered after a search or context. Returns the memories it seems to have used. After
        `answer` the model's own words stay, and are what feedback judges; the app's are kept beside them."""
        text = self._words(answer, "the answer")
        return self._runtime.alive().asking.observe(scope_id(trace_id, "trace_id"), text, scope_id(user_id, "user_id"))

    @verb
    def feedback(
        self,
        trace_id: str,
        *,
        user_id: str,
        reward: float | None = None,
        label: str | None = None,
        expected: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Rate what a trace led to; late, many times, idempotent. Returns the feedback's id."""
        return self._runtime.alive().asking.feedback(
            scope_id(trace_id, "trace_id"),
            scope_id(user_id, "user_id"),
            reward=reward,
            label=label,
            expected=None if expected is None else self._words(expected, "expected"),
            comment=None if comment is None else self._words(comment, "comment"),
        )

    @property
    def adapters(self) -> AdapterSet:
        """Which adapter serves: promote, roll back, canary, shadow."""
        return self._runtime.alive().adapters

    @property
    def views(self) -> Views:
        """What a person looks at: who is remembered, what became of what was said, why it was answered so."""
        from memkit.views import Views

        return Views(self._runtime.alive)

    def user(self, user_id: str, *, agent_id: str | None = None) -> UserMemory:
        """The same verbs, bound to a scope."""
        from memkit.user import UserMemory

        return UserMemory(self, scope_id(user_id, "user_id"), agent_id)

    @verb
    def principal(self, user_id: str, *, roles: Iterable[str] = ()) -> Principal:
        """Calls made as somebody, in spaces that several share. roles: those in which the app knows the caller."""
        from memkit.principal import Principal

        return Principal(self, self._runtime.alive, user_id, roles)

    @verb
    def bank(self, *, user_id: str, agent_id: str | None = None) -> OpenBank:
        """One bank below the verbs, for plugs: several memories in one commit, checked against what was read."""
        from memkit.runtime.open_bank import OpenBank

        return OpenBank(self._runtime.alive(), self._bank(user_id, agent_id))

    def close(self) -> None:
        """Drain and close. Safe to call twice."""
        self._runtime.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory({self._runtime.journal.name!r})"

    def __getattr__(self, name: str) -> Any:
        raise inputs.wrong_verb(name, "Memory")

    def _bank(self, user_id: str, agent_id: str | None) -> Bank:
        return Bank(scope_id(user_id, "user_id"), optional_id(agent_id, "agent_id"))

    def _words(self, value: Any, name: str) -> str:
        return self._runtime.redact_text(text_of(value, name, self._runtime.config.max_message_bytes))

    def _ask(self, text: str, user_id: str, agent_id: str | None, k: int, *more: Any) -> ReadRequest:
        user, agent = scope_id(user_id, "user_id"), None if agent_id is None else scope_id(agent_id, "agent_id")
        return ReadRequest.of(text, user, agent, whole_number(k, "k", 1, self._runtime.config.max_k), *more)
