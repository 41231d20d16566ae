// Calls the embed plane with a token that is renewed before it expires. The token is kept in memory only. A 401 fetches
// a new one and retries once; a second 401 means that access has ended.
import type { Token } from "./types.ts";

/** Why a call failed. Pages get it as `detail.trouble` of `keyrack-error`. */
/** `preview`: refused by a transport, which knows why. */
export type ErrorKind =
  | "ended"
  | "origin"
  | "scope"
  | "gone"
  | "conflict"
  | "busy"
  | "server"
  | "network"
  | "setup"
  | "preview";

export class ApiError extends Error {
  readonly kind: ErrorKind;
  readonly retryAfter: number;
  readonly requestId: string;
  constructor(kind: ErrorKind, message: string, extra: { retryAfter?: number; requestId?: string } = {}) {
    super(message);
    this.kind = kind;
    this.retryAfter = extra.retryAfter ?? 0;
    this.requestId = extra.requestId ?? "";
  }
}

/** Responds to the portal's calls in place of the network. `path` is relative to `/v1/embed/`. */
export type Transport = (call: { method: "GET" | "POST"; path: string; body: unknown }) => Promise<{
  status: number;
  body: unknown;
}>;

type TokenSource = {
  baseUrl(): string;
  /** Asks the page for a token; null if the page has set no way to get one. */
  fetchToken(): Promise<Token | null>;
  /** While it is set there is no token and no request. */
  transport(): Transport | null;
  /** A token that the page set itself is about to expire. */
  onExpiring(): void;
};

type Input = { body: string | undefined; idempotencyKey: string };

const LIFETIME_MS = 300_000;
const REFRESH_BEFORE_MS = 60_000;

export class Api {
  readonly #source: TokenSource;
  #token: string | null = null;
  #pending: Promise<string | null> | null = null;
  #timer = 0;
  /** When the token is due for renewal; null without one. */
  #dueAt: number | null = null;
  #stopped = new AbortController();

  constructor(source: TokenSource) {
    this.#source = source;
  }

  /** Uses a token and schedules its renewal. */
  use(token: Token | null): void {
    this.#token = typeof token === "string" ? token : (token?.token ?? null);
    this.#dueAt = token ? Date.now() + refreshDelay(token) : null;
    this.start();
  }

  /** Schedules the renewal of the token. Also after `stop`: a page may move the element. */
  start(): void {
    clearTimeout(this.#timer);
    if (this.#dueAt === null) return;
    this.#timer = window.setTimeout(() => void this.#renew(), Math.max(0, this.#dueAt - Date.now()));
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#stopped.abort();
    this.#stopped = new AbortController();
  }

  async #renew(): Promise<void> {
    try {
      if ((await this.#fetchToken()) === null) this.#source.onExpiring();
    } catch {
      // The next call fetches a token again and shows the error.
    }
  }

  /** Deduplicates concurrent calls into one request for a token. */
  #fetchToken(): Promise<string | null> {
    this.#pending ??= (async () => {
      try {
        const token = await this.#source.fetchToken();
        if (token !== null) this.use(token);
        return token === null ? null : this.#token;
      } finally {
        this.#pending = null;
      }
    })();
    return this.#pending;
  }

  async #requireToken(): Promise<string> {
    const token = this.#token ?? (await this.#fetchTokenOrFail());
    if (token === null) throw new ApiError("setup", "no token");
    return token;
  }

  async #fetchTokenOrFail(): Promise<string | null> {
    try {
      return await this.#fetchToken();
    } catch (error) {
      // The page's request to its backend failed, or the backend refused a token.
      throw new ApiError(error instanceof TypeError || !navigator.onLine ? "network" : "ended", String(error));
    }
  }

  get<T>(path: string): Promise<T> {
    return this.#call<T>("GET", path);
  }

  /** `idempotencyKey`: makes a repeated request return the first response, while the token is the same. */
  post<T>(path: string, body: object = {}, idempotencyKey = ""): Promise<T> {
    return this.#call<T>("POST", path, body, idempotencyKey);
  }

  async #call<T>(method: "GET" | "POST", path: string, content?: object, idempotencyKey = ""): Promise<T> {
    const transport = this.#source.transport();
    if (transport) return unwrap(await transport({ method, path, body: content ?? null })) as T;
    const body = content && JSON.stringify(content);
    const input = { body, idempotencyKey };
    const first = await this.#send(method, path, await this.#requireToken(), input);
    if (first.status !== 401) return parseResponse<T>(first);
    this.#token = null;
    const fresh = await this.#fetchTokenOrFail();
    if (fresh === null) throw new ApiError("ended", "the token has ended");
    return parseResponse<T>(await this.#send(method, path, fresh, input));
  }

  async #send(method: string, path: string, token: string, { body, idempotencyKey }: Input): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (idempotencyKey !== "") headers["idempotency-key"] = idempotencyKey;
    const { signal } = this.#stopped;
    try {
      return await fetch(`${this.#source.baseUrl()}/v1/embed/${path}`, {
        method,
        headers,
        signal,
        credentials: "omit",
        cache: "no-store",
        referrerPolicy: "no-referrer",
        ...(body !== undefined && { body }),
      });
    } catch (error) {
      throw new ApiError("network", String(error));
    }
  }
}

/** A refusal's own message is shown: the transport knows why. */
function unwrap({ status, body }: Awaited<ReturnType<Transport>>): unknown {
  if (status < 400) return body;
  const { error } = body as { error?: { message?: string } };
  throw new ApiError("preview", error?.message ?? "");
}

function unreadable(error: unknown): never {
  throw new ApiError("network", String(error));
}

async function parseResponse<T>(response: Response): Promise<T> {
  // The connection was cut, or a proxy has responded.
  if (response.ok) return (await response.json().catch(unreadable)) as T;
  const parsed = (await response.json().catch(() => ({}))) as { error?: { code?: string; message?: string } };
  const { code = "", message = "" } = parsed.error ?? {};
  const requestId = response.headers.get("request-id") ?? "";
  const retryAfter = Number(response.headers.get("retry-after") ?? 0);
  throw new ApiError(errorKind(response.status, code), message, { requestId, retryAfter });
}

function errorKind(status: number, code: string): ErrorKind {
  if (status === 401) return "ended";
  if (code === "origin_not_allowed") return "origin";
  if (status === 403) return "scope";
  if (status === 404) return "gone";
  if (status === 409 || status === 400) return "conflict";
  return status === 429 ? "busy" : "server";
}

/** Delay until renewal, from the token's own times and relative to now, so that a wrong local clock does not matter. */
function refreshDelay(token: Token): number {
  if (typeof token !== "string" && token.issued_at && token.refresh_after) {
    return (
      Math.max(0, Date.parse(token.refresh_after) - Date.parse(token.issued_at)) || LIFETIME_MS - REFRESH_BEFORE_MS
    );
  }
  const { iat, exp } = decodeClaims(typeof token === "string" ? token : token.token);
  const lifetime = iat && exp ? (exp - iat) * 1000 : LIFETIME_MS;
  return Math.max(1000, lifetime - REFRESH_BEFORE_MS);
}

function decodeClaims(token: string): { iat?: number; exp?: number } {
  try {
    const part = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(atob(part)) as { iat?: number; exp?: number };
  } catch {
    return {};
  }
}
