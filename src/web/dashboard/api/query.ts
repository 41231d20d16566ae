// Reads that components share: one request for the same data, the last state shown while a newer one is on its
// way, polling while the page is visible, back-off after errors.
import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Route, RouteInput, RouteOutput } from "../../../client.ts";
import { call } from "./call.ts";
import { toProblem, type Problem } from "./problems.ts";
import { lock, workspaceId } from "./session.ts";

/** How often pages poll: what a person waits for, what they look at, what changes seldom, and what costs the most. */
export const POLL_MS = { live: 2_000, usual: 10_000, seldom: 30_000, rare: 60_000 } as const;

const KEPT_MAX = 40;
const JITTER = 0.1;
const BACKOFF_MAX_MS = 60_000;

type ReadState<T> = {
  data: T | null;
  problem: Problem | null;
  /** When `data` arrived. */
  at: number | null;
  /** With `keeps`: the data is that of the query before, until this one has its own. */
  isOld?: boolean;
};

type Load<T> = (abort: AbortSignal) => Promise<T>;

class Query<T> {
  readonly state = signal<ReadState<T>>({ data: null, problem: null, at: null });
  #load: Load<T>;
  #users = 0;
  #wasUsed = false;
  /** The intervals at which components want it polled. */
  readonly #wishes = new Set<{ everyMs: number }>();
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortController | null = null;

  constructor(load: Load<T>) {
    this.#load = load;
  }

  get isUsed(): boolean {
    return this.#users > 0;
  }

  /** Not one that a component is about to use. */
  get isLeft(): boolean {
    return this.#users === 0 && (this.#wasUsed || this.state.peek().at !== null);
  }

  /** The shortest interval that a component wants; 0 = none. */
  get #everyMs(): number {
    const shortest = Math.min(...[...this.#wishes].map(({ everyMs }) => everyMs));
    return Number.isFinite(shortest) ? shortest : 0;
  }

  /** Polls for a component at this interval or a shorter one; the returned function ends it. */
  pollEvery(everyMs: number): () => void {
    const wish = { everyMs };
    const change = (action: () => unknown): void => {
      const before = this.#everyMs;
      action();
      if (this.#everyMs === before) return;
      clearTimeout(this.#timer);
      if (!this.#abort) this.#plan();
    };
    change(() => this.#wishes.add(wish));
    return () => change(() => this.#wishes.delete(wish));
  }

  /** Starts loading for a component; the returned function ends it. */
  use(): () => void {
    this.#wasUsed = true;
    // One listener for all users: with several, each would abort the request of the one before.
    if (this.#users++ === 0) document.addEventListener("visibilitychange", this.#onVisible);
    if (!this.#abort) this.refresh();
    return () => {
      if (--this.#users > 0) return;
      document.removeEventListener("visibilitychange", this.#onVisible);
      this.stop();
    };
  }

  readonly #onVisible = (): void => {
    if (!document.hidden && this.#everyMs > 0) this.refresh();
  };

  stop(): void {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
  }

  refresh(): void {
    void this.#run();
  }

  async #run(): Promise<void> {
    this.stop();
    const abort = new AbortController();
    this.#abort = abort;
    try {
      const data = await this.#load(abort.signal);
      if (abort.signal.aborted) return;
      this.#failures = 0;
      this.state.value = { data, problem: null, at: Date.now() };
    } catch (error) {
      if (abort.signal.aborted) return;
      this.#failures++;
      this.state.value = { ...this.state.value, problem: toProblem(error) };
    }
    this.#abort = null;
    this.#plan();
  }

  #plan(): void {
    const { problem } = this.state.value;
    const retries = problem !== null && (problem.status === 0 || problem.status >= 429);
    // What the server refuses for good is not asked again.
    const polls = this.#everyMs > 0 && problem === null;
    if (this.#users === 0 || !(polls || retries)) return;
    const base = this.#everyMs || 2_000;
    const backOff = problem ? Math.min(BACKOFF_MAX_MS, Math.max(base, 1_000) * 2 ** this.#failures) : base;
    const waitMs = Math.max(backOff, (problem?.retryAfterSeconds ?? 0) * 1_000);
    const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
    const jitter = 1 + JITTER * (random / 2 ** 31 - 1);
    // Polling must not keep a session alive that no person uses.
    const due = (): void => (document.hidden || lock.value ? this.#plan() : this.refresh());
    this.#timer = setTimeout(due, waitMs * jitter);
  }
}

const queries = new Map<string, Query<unknown>>();

function queryFor<T>(key: string, load: Load<T>): Query<T> {
  const known = queries.get(key) as Query<T> | undefined;
  const query = known ?? new Query(load);
  queries.delete(key);
  queries.set(key, query);
  for (const [oldest, { isLeft }] of queries) {
    if (queries.size <= KEPT_MAX) break;
    if (isLeft) queries.delete(oldest);
  }
  return query;
}

/** Forgets everything, when the person or the workspace changes. */
export function clearQueries(): void {
  for (const query of queries.values()) query.stop();
  queries.clear();
}

const OVERVIEW = "GET /v1/overview ";
/** What every change may change: it has a row in the log, and counts in the figures. */
const ALWAYS = ["GET /v1/audit_logs ", OVERVIEW];
/** The server keeps its figures for 2 seconds. */
const FIGURES_MS = 2_500;
let figuresTimer: ReturnType<typeof setTimeout> | undefined;

function refreshSome(parts: readonly string[]): void {
  for (const [key, query] of queries) {
    if (!parts.some((part) => key.includes(part))) continue;
    if (query.isUsed) query.refresh();
    else queries.delete(key);
  }
}

/**
 * Loads again what is on the screen and forgets what is not, after a change. `about`: part of the route, "/v1/keys".
 */
export function refreshReads(about = ""): void {
  refreshSome([about, ...ALWAYS]);
  clearTimeout(figuresTimer);
  figuresTimer = setTimeout(() => refreshSome([OVERVIEW]), FIGURES_MS);
}

/** After a refusal for the state of a record, or for its absence: it has changed since it was read. */
export function refreshAfter({ status }: Problem): void {
  if (status === 404 || status === 409) refreshReads();
}

export type Read<T> = { state: Pick<ReadonlySignal<ReadState<T>>, "value">; refresh: () => void };

/** Whether the record that is read does not exist. */
export const isNotFound = ({ state }: Read<unknown>): boolean => state.value.problem?.status === 404;

type ReadOptions = {
  everyMs?: number;
  /** False: sends no request. */
  isNeeded?: boolean;
  /** Shows what was read before while another query is on its way, for lists that are searched and paged. */
  keeps?: boolean;
};

/** A list without rows is not kept: after Clear filters, "no keys yet" would be wrong. */
const hasRows = (data: unknown): boolean => (data as { data?: unknown[] }).data?.length !== 0;

/** The state of a query, or of the one before it while it has none. Never that of another workspace. */
function useKept<T>(state: ReadonlySignal<ReadState<T>>, keeps: boolean): Read<T>["state"] {
  const last = useRef<{ state: ReadState<T>; of: string | null } | null>(null);
  if (!keeps) return state;
  const [now, of] = [state.value, workspaceId.value];
  if (now.data !== null || now.problem || last.current?.of !== of) last.current = { state: now, of };
  const { state: shown } = last.current;
  const isOld = shown !== now && shown.data !== null && hasRows(shown.data);
  return { value: { ...(isOld ? shown : now), isOld } };
}

/** Loads data with a custom function. `key` identifies the query. */
export function useQuery<T>(key: string, load: Load<T>, options: ReadOptions = {}): Read<T> {
  const { everyMs = 0, isNeeded = true, keeps = false } = options;
  const whole = `${workspaceId.value ?? ""} ${key}`;
  const query = useMemo(() => queryFor(whole, load), [whole]);
  useEffect(() => (isNeeded && everyMs > 0 ? query.pollEvery(everyMs) : undefined), [query, everyMs, isNeeded]);
  // Before the first paint, after which other effects run. bench: dashboard/login
  useLayoutEffect(() => (isNeeded ? query.use() : undefined), [query, isNeeded]);
  return { state: useKept(query.state, keeps), refresh: () => query.refresh() };
}

/** Returns the cached result if it is recent; otherwise loads it and updates the cache. */
export async function readRecent<T>(key: string, load: Load<T>, abort: AbortSignal): Promise<T> {
  const query = queryFor(`${workspaceId.value ?? ""} ${key}`, load);
  const { data, at } = query.state.peek();
  if (data !== null && Date.now() - (at ?? 0) < POLL_MS.seldom) return data;
  const loaded = await load(abort);
  query.state.value = { data: loaded, problem: null, at: Date.now() };
  return loaded;
}

/** Reads one endpoint: `useRead("GET /v1/keys", { query: { env } }, { everyMs: POLL_MS.usual })`. */
export function useRead<R extends Route>(
  route: R,
  input: RouteInput<R>,
  options: ReadOptions = {},
): Read<RouteOutput<R>> {
  return useQuery(`${route} ${JSON.stringify(input)}`, (abort) => call(route, input, { signal: abort }), options);
}
