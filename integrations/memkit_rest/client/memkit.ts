// The client of memkit's REST service. Made from its OpenAPI description; do not edit.
//
//   const memkit = new Memkit("http://127.0.0.1:8787", TOKEN);
//   await memkit.add({ messages: "I moved to Oslo.", user_id: "ana" });
//   const { hits } = await memkit.search({ query: "where does Ana live?", user_id: "ana" });

export class MemkitError extends Error {
  readonly status: number;
  readonly why: string | undefined;
  readonly next: string | undefined;
  constructor(status: number, problem: Partial<ProblemShown>) {
    super([problem.title ?? `status ${status}`, problem.why, problem.next].filter(Boolean).join(". "));
    this.name = "MemkitError";
    this.status = status;
    this.why = problem.why ?? undefined;
    this.next = problem.next ?? undefined;
  }
}

type Values = Record<string, unknown>;

export interface AddRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  /** What was said: a text, or messages as chat APIs have them. */
  messages: string | MessageGiven[];
  session_id?: string | null;
  /** When it was said: ISO 8601 with an offset. */
  at?: string | null;
  metadata?: Record<string, unknown> | null;
  /** false: each message is kept as it is, and nothing is drawn from it. */
  infer?: boolean;
  /** false: answer (202) as soon as it is durable. */
  wait?: boolean;
  expires_at?: string | null;
  keep_turns?: "all" | "uncovered" | "logged" | "none" | null;
}

export interface Added {
  trace_id: string;
  status: "applied" | "pending" | "parked";
  /** Why nothing was written, in plain words. */
  reason: string | null;
  /** true: the idempotency key had been seen, and nothing new was stored. */
  replayed: boolean;
  ops: OpShown[];
  turns: TurnShown[];
}

export interface AnswerRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  session_id?: string | null;
  /** Conditions on columns or `metadata.a.b`; see the guide. */
  filters?: Record<string, unknown> | null;
  /** A sequence number (what the store knew) or a time (what was said). */
  as_of?: string | number | null;
  question: string;
  max_tokens?: number | null;
  /** Server-sent events: `waiting` while the model works, then `answer`. */
  stream?: boolean;
}

export interface AnswerShown {
  trace_id: string;
  text: string;
  abstained: boolean;
  cited: MemoryShown[];
}

export interface ContextRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  session_id?: string | null;
  /** Conditions on columns or `metadata.a.b`; see the guide. */
  filters?: Record<string, unknown> | null;
  /** A sequence number (what the store knew) or a time (what was said). */
  as_of?: string | number | null;
  query: string;
  max_tokens?: number;
  kinds?: ("fact" | "episode" | "turn" | "lesson" | "chunk")[] | null;
  min_score?: number | null;
  spaces?: string[] | null;
}

export interface ContextShown {
  trace_id: string;
  /** Put this into the prompt as it is. */
  text: string;
  memory_ids: string[];
}

export interface Count {
  count: number;
}

export interface DecisionList {
  /** Trajectory records, oldest first; each says its version. */
  decisions: (Record<string, unknown>)[];
}

export interface DocumentRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  name: string;
  /** Read as Markdown or HTML where the name ends in .md or .html. */
  text: string;
  at?: string | null;
  metadata?: Record<string, unknown> | null;
  expires_at?: string | null;
}

export interface Entities {
  entities: EntityShown[];
}

export interface EntityShown {
  name: string;
  kind: "person" | "animal" | "place" | "project" | "other";
  /** All that it goes by. */
  names: string[];
  /** What it is said to be: "sister", "dog". */
  relations: string[];
  /** The live memories that name it, oldest first. */
  memory_ids: string[];
}

export interface EraseRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  turn_id?: string | null;
  memory_id?: string | null;
  session_id?: string | null;
  /** true: all of the user. Cannot be undone. */
  everything?: boolean;
}

export interface Erased {
  subject: string;
  counts: Record<string, number>;
  tainted_adapters: string[];
}

export interface FeedbackRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  trace_id: string;
  label?: "up" | "down" | null;
  reward?: number | null;
  expected?: string | null;
  comment?: string | null;
}

export interface ForgetRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  id?: string | null;
  /** All that say these words. */
  words?: string | null;
}

export interface GrantRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  /** Of a revocation: all where none is named. */
  rights: ("read" | "write" | "share" | "forget")[];
  /** A user. */
  to?: string | null;
  /** Or whoever calls in a role. */
  to_role?: string | null;
  until?: string | null;
}

export interface GrantShown {
  right: "read" | "write" | "share" | "forget";
  to: string;
  is_role: boolean;
  until: string | null;
}

export interface Grants {
  grants: GrantShown[];
}

export interface HitList {
  trace_id: string;
  hits: HitShown[];
}

export interface HitShown {
  memory: MemoryShown;
  score: number;
  /** How likely it bears on the question; means the same for every user. */
  relevance: number;
  why: string;
  sources: TurnShown[];
}

export interface LearnRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  /** The run's messages and tool calls, as chat APIs have them. */
  steps: (Record<string, unknown>)[];
  task: string;
  outcome: "success" | "failure" | "unknown" | boolean;
  /** How it ended, in words. */
  note?: string | null;
  /** Of the context that the run was given. */
  trace_id?: string | null;
  metadata?: Record<string, unknown> | null;
  wait?: boolean;
}

export interface Memories {
  memories: MemoryShown[];
}

export interface MemoryPage {
  memories: MemoryShown[];
  /** Pass it back to go on; null at the end. */
  cursor: string | null;
}

export interface MemoryShown {
  id: string;
  text: string;
  kind: string;
  metadata: Record<string, unknown>;
  source_turns: string[];
  revision: number;
  standing: boolean;
  speaker: string;
  session_id: string;
  origin: string;
  at: string | null;
  created_at: string | null;
  updated_at: string | null;
  confirmed_at: string | null;
  expires_at: string | null;
}

export interface MessageGiven {
  role?: string;
  content?: string | unknown[] | null;
  name?: string | null;
  /** When it was said, where it was not when the others were. */
  at?: string | null;
}

export interface Noted {
  feedback_id: string;
}

export interface ObserveRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  trace_id: string;
  answer: string;
}

export interface Observed {
  /** The memories that the answer seems to have used. */
  memory_ids: string[];
}

export interface OpList {
  ops: OpShown[];
}

export interface OpShown {
  op_id: string;
  seq: number;
  action: "add" | "update" | "delete" | "noop";
  memory_id: string | null;
  text: string | null;
  before: MemoryShown | null;
  after: MemoryShown | null;
  source_turns: string[];
  cause: string;
  undoes: string | null;
  at: string;
  recorded_at: string;
}

export interface ParkedList {
  parked: ParkedShown[];
}

export interface ParkedShown {
  trace_id: string;
  user_id: string;
  agent_id: string | null;
  reason: string;
  detail: string;
  attempts: number;
  turns: TurnShown[];
}

export interface ProblemShown {
  type: string;
  title: string;
  status: number;
  why?: string | null;
  next?: string | null;
}

export interface PromoteRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  id: string;
  /** Else it is the user's own. */
  from_space?: string | null;
}

export interface RetryRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  trace_ids?: string[] | null;
}

export interface RightsRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  /** Of a revocation: all where none is named. */
  rights: ("read" | "write" | "share" | "forget")[];
  /** A user. */
  to?: string | null;
  /** Or whoever calls in a role. */
  to_role?: string | null;
}

export interface Scoped {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
}

export interface SearchRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  session_id?: string | null;
  /** Conditions on columns or `metadata.a.b`; see the guide. */
  filters?: Record<string, unknown> | null;
  /** A sequence number (what the store knew) or a time (what was said). */
  as_of?: string | number | null;
  query: string;
  /** As many as the store allows: 200, unless it was opened otherwise. */
  k?: number;
  kinds?: ("fact" | "episode" | "turn" | "lesson" | "chunk")[] | null;
  min_score?: number | null;
  spaces?: string[] | null;
  /** With the turns that each memory was drawn from. */
  sources?: boolean;
}

export interface ServiceHealth {
  status: "ok";
  version: string;
}

export interface Spaces {
  spaces: string[];
}

export interface TidyRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  /** Decisions of the manager, at most. */
  budget?: number | null;
}

export interface TidyShown {
  /** Send it to /undo to take the whole pass back. */
  trace_id: string;
  changes: number;
  asked: number;
  left: number;
  live_before: number;
  live_after: number;
  reason: string | null;
}

export interface TurnShown {
  turn_id: string;
  role: string;
  text: string;
  at: string;
  speaker: string;
  session_id: string;
  origin: string;
}

export interface UndoRequest {
  /** Whose memories. A token of one user needs none and admits no other. */
  user_id?: string | null;
  /** Narrows to one agent of the user. */
  agent_id?: string | null;
  /** In this space, as the user: what a grant allows. */
  space?: string | null;
  /** In which role the user calls in spaces; an app's token may say so. */
  role?: string | null;
  op_id?: string | null;
  /** All that one add led to. */
  trace_id?: string | null;
  /** All since a sequence number or a time. */
  since?: number | string | null;
}

export interface Users {
  users: string[];
  cursor: string | null;
}

export class Memkit {
  readonly #url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;

  constructor(url: string, token: string, options: { fetch?: typeof fetch } = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** Remember what was said. */
  add(asked: AddRequest, options: { idempotencyKey?: string } = {}): Promise<Added> {
    return this.#call("POST", "/memkit/v1/add", {}, { ...asked }, options.idempotencyKey);
  }

  /** Make a document findable, or replace the one of its name. */
  addDocument(asked: DocumentRequest): Promise<Added> {
    return this.#call("POST", "/memkit/v1/documents", {}, { ...asked });
  }

  /** Learn from an agent's run. */
  learn(asked: LearnRequest, options: { idempotencyKey?: string } = {}): Promise<Added> {
    return this.#call("POST", "/memkit/v1/learn", {}, { ...asked }, options.idempotencyKey);
  }

  /** The best memories for a query. */
  search(asked: SearchRequest): Promise<HitList> {
    return this.#call("POST", "/memkit/v1/search", {}, { ...asked });
  }

  /** A block to put into a prompt. */
  context(asked: ContextRequest): Promise<ContextShown> {
    return this.#call("POST", "/memkit/v1/context", {}, { ...asked });
  }

  /** Answer from memory with the configured model. */
  answer(asked: AnswerRequest): Promise<AnswerShown> {
    return this.#call("POST", "/memkit/v1/answer", {}, { ...asked });
  }

  /** Tell what the app answered. */
  observe(asked: ObserveRequest): Promise<Observed> {
    return this.#call("POST", "/memkit/v1/observe", {}, { ...asked });
  }

  /** Rate what a trace led to. */
  feedback(asked: FeedbackRequest): Promise<Noted> {
    return this.#call("POST", "/memkit/v1/feedback", {}, { ...asked });
  }

  /** Live memories, page by page. */
  list(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
    limit?: number;
    /** `cursor` of the page before. */
    cursor?: string;
    session_id?: string;
    /** Of this kind alone; else facts, episodes and lessons. */
    kind?: "fact" | "episode" | "turn" | "lesson" | "chunk";
  } = {}): Promise<MemoryPage> {
    return this.#call("GET", "/memkit/v1/memories", { ...asked });
  }

  /** End every memory of a user. */
  deleteAll(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
  } = {}): Promise<Count> {
    return this.#call("DELETE", "/memkit/v1/memories", { ...asked });
  }

  /** One memory. */
  get(id: string, asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
  } = {}): Promise<MemoryShown> {
    return this.#call("GET", `/memkit/v1/memories/${encodeURIComponent(id)}`, { ...asked });
  }

  /** Change or pin it. */
  update(id: string, asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string | null;
    /** Narrows to one agent of the user. */
    agent_id?: string | null;
    /** In this space, as the user: what a grant allows. */
    space?: string | null;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string | null;
    text?: string | null;
    /** Replaces what is there. */
    metadata?: Record<string, unknown> | null;
    expected_revision?: number | null;
    /** true: every context carries it. */
    pinned?: boolean | null;
  } = {}): Promise<MemoryShown> {
    return this.#call("PATCH", `/memkit/v1/memories/${encodeURIComponent(id)}`, {}, { ...asked });
  }

  /** End one memory. */
  delete(id: string, asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
  } = {}): Promise<OpShown> {
    return this.#call("DELETE", `/memkit/v1/memories/${encodeURIComponent(id)}`, { ...asked });
  }

  /** What every context carries. */
  profile(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
  } = {}): Promise<Memories> {
    return this.#call("GET", "/memkit/v1/profile", { ...asked });
  }

  /** Whom and what memories name. */
  entities(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
    limit?: number;
  } = {}): Promise<Entities> {
    return this.#call("GET", "/memkit/v1/entities", { ...asked });
  }

  /** The memories about one of them. */
  about(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
    limit?: number;
    /** A name, what it is to the user ("my sister"), or any word. */
    name: string;
  }): Promise<Memories> {
    return this.#call("GET", "/memkit/v1/about", { ...asked });
  }

  /** Every operation, oldest first. */
  history(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
    memory_id?: string;
    limit?: number;
  } = {}): Promise<OpList> {
    return this.#call("GET", "/memkit/v1/history", { ...asked });
  }

  /** Take operations back. */
  undo(asked: UndoRequest = {}): Promise<OpList> {
    return this.#call("POST", "/memkit/v1/undo", {}, { ...asked });
  }

  /** Turns that could not be decided. */
  parked(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
  } = {}): Promise<ParkedList> {
    return this.#call("GET", "/memkit/v1/parked", { ...asked });
  }

  /** Decide parked turns again. */
  retry(asked: RetryRequest = {}): Promise<Count> {
    return this.#call("POST", "/memkit/v1/retry", {}, { ...asked });
  }

  /** Merge, settle, let go. */
  tidy(asked: TidyRequest = {}): Promise<TidyShown> {
    return this.#call("POST", "/memkit/v1/tidy", {}, { ...asked });
  }

  /** How it was decided. */
  decisions(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
    trace_id?: string;
    last?: number;
  } = {}): Promise<DecisionList> {
    return this.#call("GET", "/memkit/v1/decisions", { ...asked });
  }

  /** Destroy. Cannot be undone. */
  erase(asked: EraseRequest = {}): Promise<Erased> {
    return this.#call("POST", "/memkit/v1/erase", {}, { ...asked });
  }

  /** Spaces that may be read. */
  spaces(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
  } = {}): Promise<Spaces> {
    return this.#call("GET", "/memkit/v1/spaces", { ...asked });
  }

  /** A new space. */
  createSpace(asked: Scoped = {}): Promise<Spaces> {
    return this.#call("POST", "/memkit/v1/spaces", {}, { ...asked });
  }

  /** Who may do what. */
  grants(asked: {
    /** Whose memories. A token of one user needs none and admits no other. */
    user_id?: string;
    /** Narrows to one agent of the user. */
    agent_id?: string;
    /** In this space, as the user: what a grant allows. */
    space?: string;
    /** In which role the user calls in spaces; an app's token may say so. */
    role?: string;
  } = {}): Promise<Grants> {
    return this.#call("GET", "/memkit/v1/grants", { ...asked });
  }

  /** Allow it. */
  grant(asked: GrantRequest): Promise<Grants> {
    return this.#call("POST", "/memkit/v1/grants", {}, { ...asked });
  }

  /** Take rights back. */
  revoke(asked: RightsRequest): Promise<Grants> {
    return this.#call("POST", "/memkit/v1/revoke", {}, { ...asked });
  }

  /** Take a memory into a space. */
  promote(asked: PromoteRequest): Promise<MemoryShown> {
    return this.#call("POST", "/memkit/v1/promote", {}, { ...asked });
  }

  /** Destroy it with its copies. */
  forget(asked: ForgetRequest = {}): Promise<Erased> {
    return this.#call("POST", "/memkit/v1/forget", {}, { ...asked });
  }

  /** Who has memories. */
  users(asked: {
    limit?: number;
    cursor?: string;
  } = {}): Promise<Users> {
    return this.#call("GET", "/memkit/v1/users", { ...asked });
  }

  /** Whether it serves. */
  health(): Promise<ServiceHealth> {
    return this.#call("GET", "/memkit/v1/health", {});
  }

  async #call<T>(method: string, path: string, query: Values, body?: Values, key?: string): Promise<T> {
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value != null) asked.set(name, String(value));
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (key !== undefined) headers["idempotency-key"] = key;
    const answer = await this.#fetch(this.#url + path + (asked.size ? `?${asked}` : ""), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    let text = await answer.text();
    let failed = !answer.ok;
    if (answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      const last = text.trimEnd().split("\n\n").at(-1) ?? "";
      failed = !last.startsWith("event: answer\n");
      text = last.slice(last.indexOf("data: ") + 6);
    }
    let told: unknown = {};
    try {
      told = JSON.parse(text);
    } catch {
      // somebody between client and server answered in words of his own
    }
    const problem = told as Partial<ProblemShown>;
    if (failed) throw new MemkitError(problem.status ?? answer.status, problem);
    return told as T;
  }
}
