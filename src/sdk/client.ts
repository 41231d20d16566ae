// HTTP calls to the control plane: bounded in time and bytes, without redirects, JSON only. Every failure is a
// CallError; callers never see a TypeError of fetch or a partial response.

import { concatBytes } from "../kernel/crypto/bytes.ts";
import { MIB } from "../kernel/sizes.ts";
import type { Settings } from "./options.ts";
import type { Log, Ports } from "./runtime.ts";
import { redactCredentials } from "./telemetry/redact.ts";

type CallFault = "network" | "timeout" | "malformed" | "too_large" | "rejected";
const MISCONFIGURED: ReadonlySet<number> = new Set([401, 403, 404]);

/**
 * `origin`: the target's, empty if the redirect names none. `url`: the address to use instead, or null if the
 * target may be another server, which would get the secret key.
 */
export type Redirect = { origin: string; url: string | null };

export class CallError extends Error {
  override name = "CallError";
  readonly fault: CallFault;
  /** The HTTP status, or 0 without a response. */
  readonly status: number;
  readonly retryAfterMs: number;
  /** Paths of the fields that a 400 names, if the call reads them. */
  readonly problems: readonly string[];
  /** Where a redirect leads to; null for any other response. */
  redirect: Redirect | null = null;

  constructor(fault: CallFault, message: string, status = 0, retryAfterMs = 0, problems: readonly string[] = []) {
    super(message);
    this.fault = fault;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.problems = problems;
  }

  /** Whether the URL, the secret key or the project is wrong: repeating the call does not help. */
  get isMisconfigured(): boolean {
    return this.redirect !== null || MISCONFIGURED.has(this.status);
  }
}

export type Call = {
  method: "GET" | "POST";
  path: string;
  body?: string;
  headers?: Record<string, string>;
  timeoutMs: number;
  maxBytes?: number;
  signal?: AbortSignal;
  /** Reads the body of a 400. */
  readsProblems?: boolean;
};

/** `date`: the server's clock; NaN if the response does not say, or is a cache's. */
export type Reply = { status: number; etag: string | null; date: number; json: unknown };

const MAX_BYTES = MIB;

export class Client {
  readonly #settings: Settings;
  readonly #ports: Ports;

  constructor(settings: Settings, ports: Ports) {
    this.#settings = settings;
    this.#ports = ports;
  }

  /** Resolves a 2xx with its JSON and a 304 without. Everything else throws a CallError. */
  async call(call: Call): Promise<Reply> {
    const abort = new AbortController();
    const aborted = new Promise<never>((_, reject) => {
      abort.signal.addEventListener("abort", () => reject(abort.signal.reason as CallError));
    });
    // The final abort below rejects it after the race is over.
    aborted.catch(() => {});
    const onTimeout = () => abort.abort(new CallError("timeout", `No response within ${call.timeoutMs} ms.`));
    const onAbort = () => abort.abort(new CallError("network", "Stopped."));
    const cancel = this.#ports.after(call.timeoutMs, onTimeout, true);
    call.signal?.addEventListener("abort", onAbort);
    try {
      if (call.signal?.aborted) onAbort();
      // A race, because not every fetch implementation honours its signal.
      return await Promise.race([aborted, this.#exchange(call, abort.signal)]);
    } catch (error) {
      if (error instanceof CallError) throw error;
      throw new CallError("network", reason(error));
    } finally {
      cancel();
      call.signal?.removeEventListener("abort", onAbort);
      // A response that was not read to its end would hold its socket.
      abort.abort(new CallError("network", "Done."));
    }
  }

  async #exchange(call: Call, signal: AbortSignal): Promise<Reply> {
    const { url, secretKey, sdk } = this.#settings;
    const response = await this.#ports.fetch(url + call.path, {
      method: call.method,
      headers: {
        authorization: `Bearer ${secretKey}`,
        accept: "application/json",
        "keyrack-sdk": `${sdk.name}/${sdk.version}`,
        ...(call.body !== undefined && { "content-type": "application/json" }),
        ...call.headers,
      },
      ...(call.body !== undefined && { body: call.body }),
      // A redirect could send the secret key to another host.
      redirect: "manual",
      signal,
    });
    const { status } = response;
    const etag = response.headers.get("etag");
    const date = response.headers.has("age") ? Number.NaN : Date.parse(response.headers.get("date") ?? "");
    if (status === 304) return { status, etag, date, json: null };
    if ((status >= 300 && status <= 399) || response.type === "opaqueredirect") throw redirected(response, url, call);
    if (status < 200 || status > 299) {
      const problems = status === 400 && call.readsProblems ? await readProblems(response) : [];
      throw new CallError("rejected", `Rejected with status ${status}.`, status, retryAfter(response), problems);
    }
    return { status, etag, date, json: await readJson(response, call.maxBytes ?? MAX_BYTES) };
  }
}

/** What the parts of one instance share. */
export type Runtime = {
  readonly client: Client;
  readonly settings: Settings;
  readonly ports: Ports;
  readonly log: Log;
};

async function readJson(response: Response, maxBytes: number): Promise<unknown> {
  const bytes = await readBytes(response, maxBytes);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new CallError("malformed", "The response is not JSON: is url that of a Keyrack server?", response.status);
  }
}

/** Names only the target's origin, unless it is the same server: a path or query may hold credentials. */
function redirected({ status, headers }: Response, url: string, { path }: Call): CallError {
  const location = headers.get("location") ?? "";
  const target = location && URL.canParse(location, url + path) ? new URL(location, url + path) : null;
  const isWeb = target?.protocol === "https:" || target?.protocol === "http:";
  const origin = isWeb ? target.origin : "";
  const redirect = { origin, url: isWeb ? sameServer(url, target, path) : null };
  const message = `Redirected${origin && ` to ${origin}`} with status ${status}.`;
  return Object.assign(new CallError("rejected", message, status), { redirect });
}

/** The `url` to use instead: only if the target is this endpoint on the same origin, or on the same host with TLS. */
function sameServer(url: string, target: URL, path: string): string | null {
  const called = new URL(url);
  const isUpgrade = called.protocol === "http:" && target.protocol === "https:";
  if (isUpgrade ? called.hostname !== target.hostname : called.origin !== target.origin) return null;
  const endpoint = path.slice(0, path.search(/\?|$/));
  if (!target.pathname.endsWith(endpoint)) return null;
  const other = target.origin + target.pathname.slice(0, -endpoint.length);
  return other === url ? null : other;
}

/** Empty if the response names no field. */
async function readProblems(response: Response): Promise<string[]> {
  const body = (await readJson(response, MAX_BYTES).catch(() => null)) as { error?: { details?: unknown } } | null;
  const details = body?.error?.details;
  return Array.isArray(details) ? details.map((detail: { path?: unknown } | null) => String(detail?.path)) : [];
}

async function readBytes(response: Response, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const next = await reader?.read();
    if (!next || next.done) break;
    const chunk = next.value as Uint8Array;
    size += chunk.length;
    if (size > maxBytes) throw new CallError("too_large", `The response is over ${maxBytes} bytes.`, response.status);
    chunks.push(chunk);
  }
  return concatBytes(chunks);
}

function retryAfter(response: Response): number {
  const seconds = Number(response.headers.get("retry-after") ?? "");
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0;
}

/** fetch puts the useful part of its errors into `cause`: a code of the system, or a text such as "bad port". */
function reason(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  const why = typeof code === "string" ? code : message;
  return typeof why === "string" && why !== "" ? `Cannot be reached: ${redactCredentials(why)}.` : "Cannot be reached.";
}
