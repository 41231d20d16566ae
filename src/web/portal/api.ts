// Calls to the embed plane with a token that is renewed in time. The token lives in memory only; it is asked for again
// when it is due, and once more when a call is refused with 401. A second refusal means that access has ended.
import type { Token } from "./types.ts";

/** Why a call failed, in the words the portal has texts for. */
export type Trouble = "ended" | "origin" | "scope" | "gone" | "conflict" | "busy" | "server" | "network" | "setup";

export class ApiError extends Error {
  readonly trouble: Trouble;
  readonly retryAfter: number;
  readonly requestId: string;
  constructor(trouble: Trouble, message: string, extra: { retryAfter?: number; requestId?: string } = {}) {
    super(message);
    this.trouble = trouble;
    this.retryAfter = extra.retryAfter ?? 0;
    this.requestId = extra.requestId ?? "";
  }
}

export type Source = {
  baseUrl(): string;
  /** Asks the page for a token; null when it has no way to give one. */
  fetchToken(): Promise<Token | null>;
  /** A token that the page set itself is about to end. */
  expiring(): void;
};

const LIFE_MS = 300_000;
const REFRESH_BEFORE_MS = 60_000;

export class Api {
  readonly #source: Source;
  #token: string | null = null;
  #asking: Promise<string | null> | null = null;
  #timer = 0;
  #stopped = new AbortController();

  constructor(source: Source) {
    this.#source = source;
  }

  /** Takes a token that the page set. */
  use(token: Token | null): void {
    clearTimeout(this.#timer);
    this.#token = typeof token === "string" ? token : (token?.token ?? null);
    if (token) this.#timer = window.setTimeout(() => void this.#due(), refreshDelay(token));
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#stopped.abort();
    this.#stopped = new AbortController();
  }

  async #due(): Promise<void> {
    try {
      if ((await this.#ask()) === null) this.#source.expiring();
    } catch {
      // The next call asks again and tells the person.
    }
  }

  /** One question at a time, however many calls wait for its answer. */
  #ask(): Promise<string | null> {
    this.#asking ??= (async () => {
      try {
        const token = await this.#source.fetchToken();
        if (token !== null) this.use(token);
        return token === null ? null : this.#token;
      } finally {
        this.#asking = null;
      }
    })();
    return this.#asking;
  }

  async #tokenOrAsk(): Promise<string> {
    const token = this.#token ?? (await this.#askOrEnd());
    if (token === null) throw new ApiError("setup", "no token");
    return token;
  }

  async #askOrEnd(): Promise<string | null> {
    try {
      return await this.#ask();
    } catch (error) {
      // The page could not ask its backend (a failed fetch), or its backend gave no token.
      throw new ApiError(error instanceof TypeError || !navigator.onLine ? "network" : "ended", String(error));
    }
  }

  get<T>(path: string): Promise<T> {
    return this.#call<T>("GET", path);
  }

  post<T>(path: string, body: object = {}): Promise<T> {
    return this.#call<T>("POST", path, JSON.stringify(body));
  }

  async #call<T>(method: string, path: string, body?: string): Promise<T> {
    const first = await this.#send(method, path, await this.#tokenOrAsk(), body);
    if (first.status !== 401) return settle<T>(first);
    this.#token = null;
    const fresh = await this.#askOrEnd();
    if (fresh === null) throw new ApiError("ended", "the token has ended");
    return settle<T>(await this.#send(method, path, fresh, body));
  }

  async #send(method: string, path: string, token: string, body?: string): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
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

async function settle<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  const said = (await response.json().catch(() => ({}))) as { error?: { code?: string; message?: string } };
  const { code = "", message = "" } = said.error ?? {};
  const requestId = response.headers.get("request-id") ?? "";
  const retryAfter = Number(response.headers.get("retry-after") ?? 0);
  throw new ApiError(troubleOf(response.status, code), message, { requestId, retryAfter });
}

function troubleOf(status: number, code: string): Trouble {
  if (status === 401) return "ended";
  if (code === "origin_not_allowed") return "origin";
  if (status === 403) return "scope";
  if (status === 404) return "gone";
  if (status === 409 || status === 400) return "conflict";
  return status === 429 ? "busy" : "server";
}

/** How long to wait: by the token's own account, measured from now, so that a wrong clock here does not matter. */
function refreshDelay(token: Token): number {
  if (typeof token !== "string" && token.issued_at && token.refresh_after) {
    return Math.max(0, Date.parse(token.refresh_after) - Date.parse(token.issued_at)) || LIFE_MS - REFRESH_BEFORE_MS;
  }
  const { iat, exp } = claimsOf(typeof token === "string" ? token : token.token);
  const life = iat && exp ? (exp - iat) * 1000 : LIFE_MS;
  return Math.max(1000, life - REFRESH_BEFORE_MS);
}

function claimsOf(token: string): { iat?: number; exp?: number } {
  try {
    const part = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(atob(part)) as { iat?: number; exp?: number };
  } catch {
    return {};
  }
}
