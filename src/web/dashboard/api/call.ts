// Calls the API, typed by its declarations. The only file that fetches.
import { signal } from "@preact/signals";
import type { Route, RouteInput, RouteOutput } from "../../../client.ts";
import { learnServerTime } from "./clock.ts";
import { Problem, type ProblemFields } from "./problems.ts";
import { discards, requireLogin, session, workspaceId } from "./session.ts";

/** Asserts the workspace on the screen. A 409 that names it says that the session is in another one. */
const WORKSPACE_HEADER = "keyrack-workspace";

/** When the server responded last, once it has stopped; null while it does respond. */
export const offlineSince = signal<number | null>(null);
let respondedAt: number | null = null;

/** Set when the server says that this session is in another workspace than the one on the screen. */
export const moved = signal(false);
/** Counts the starts and ends of this tab's own switches: odd while one is under way. */
export const ownSwitches = { count: 0 };
/** Counts refusals for lack of rights: the person's role may have changed. */
export const forbidden = signal(0);

/** A request without an answer must not lock its dialog. Longer than the server's own deadline, which says more. */
const ANSWER_MS = 40_000;

type CallOptions = {
  signal?: AbortSignal | undefined;
  /** The body is read as it comes: only its beginning has a time limit. */
  isStream?: boolean;
  /** A token other than the signed-in person's; null sends none. */
  token?: string | null;
  keepalive?: boolean;
};

type Input = {
  params?: Record<string, string>;
  query?: object;
  body?: unknown;
  idempotencyKey?: string;
};

/** Relative, so that a proxy may serve Keyrack under a path. */
function urlFor(path: string, { params = {}, query = {} }: Input): string {
  const filled = path.replace(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(params[name] ?? ""));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query as Record<string, string | number | undefined>))
    if (value !== undefined) search.append(name, String(value));
  return `.${filled}${search.size > 0 ? `?${search}` : ""}`;
}

/** When the newest request that changes the workspace began, by `performance.now()`. */
export let changedAtMs = 0;

async function send(method: string, path: string, input: Input, token: string | null, options: CallOptions) {
  const { body, idempotencyKey } = input;
  // People's own endpoints work in every workspace.
  const workspace = token !== null && !path.startsWith("/v1/auth/") ? workspaceId.value : null;
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), ANSWER_MS);
  const sentAt = Date.now();
  if (method !== "GET" && workspace !== null) changedAtMs = performance.now();
  try {
    const response = await fetch(urlFor(path, input), {
      method,
      headers: {
        ...(token !== null && { authorization: `Bearer ${token}` }),
        ...(workspace !== null && { [WORKSPACE_HEADER]: workspace }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.any([limit.signal, ...(options.signal ? [options.signal] : [])]),
      credentials: "omit",
      cache: "no-store",
      keepalive: options.keepalive ?? false,
    });
    respondedAt = Date.now();
    offlineSince.value = null;
    learnServerTime(response.headers.get("date"));
    if (!options.isStream) await response.clone().arrayBuffer();
    return response;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    // The server has answered others since: it is reachable, and only this request is stuck.
    if (limit.signal.aborted && (respondedAt ?? 0) >= sentAt)
      throw new Problem(504, { message: method === "GET" ? "" : "The change may have been made." });
    offlineSince.value ??= respondedAt ?? Date.now();
    throw new Problem(0);
  } finally {
    clearTimeout(timer);
  }
}

async function refusal(response: Response): Promise<Problem> {
  const { error = {} } = (await response.json().catch(() => ({}))) as { error?: ProblemFields };
  return new Problem(response.status, error, response.headers);
}

/** The response itself, for streams and texts. Refusals throw; a 401 waits for a new login and repeats once. */
export async function request(route: string, input: Input = {}, options: CallOptions = {}): Promise<Response> {
  const [method = "GET", path = "/"] = route.split(" ");
  const own = options.token === undefined;
  // A locked page sends nothing.
  if (own && session.value?.token === "") await requireLogin();
  const token = own ? (session.value?.token ?? null) : (options.token ?? null);
  const switches = ownSwitches.count;
  const discarded = discards.peek();
  const response = await send(method, path, input, token, options);
  if (response.ok) return response;
  const problem = await refusal(response);
  if (own && token !== null && problem.status === 401) {
    // The session now may be another person's, who must not repeat this.
    if (discards.peek() !== discarded) throw problem;
    // A 401 did nothing, so the request can be repeated. Another request may have led to a new session since.
    if (session.value?.token === token) await requireLogin();
    const again = await send(method, path, input, session.value?.token ?? null, options);
    if (again.ok) return again;
    throw await refusal(again);
  }
  // Not by a switch of this tab, which ends with reading everything again.
  const isForeign = switches === ownSwitches.count && switches % 2 === 0;
  const hasMoved = problem.status === 409 && problem.details.some(({ path: named }) => named === WORKSPACE_HEADER);
  if (isForeign && hasMoved) {
    moved.value = true;
    // Shown when the person has returned to the workspace.
    throw new Problem(409, { message: "Nothing was changed. Try again." });
  }
  if (own && problem.status === 403) forbidden.value++;
  throw problem;
}

export async function call<R extends Route>(
  route: R,
  input: RouteInput<R>,
  options: CallOptions = {},
): Promise<RouteOutput<R>> {
  const response = await request(route, input, options);
  return (await response.json()) as RouteOutput<R>;
}

/** A key that makes a repeated creation return the first result. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
