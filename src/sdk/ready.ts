// ready(): its options, the calls that wait for the first policy, and the errors that end them.

import { CallError, type Redirect, type Runtime } from "./client.ts";
import { need } from "./options.ts";
import type { Log, Ports } from "./runtime.ts";
import { redactCredentials } from "./telemetry/redact.ts";

export type KeyrackErrorCode = "timeout" | "rejected" | "closed";

/** Why ready() rejects. */
export class KeyrackError extends Error {
  override name = "KeyrackError";
  /**
   * `timeout`: no policy arrived in time; another ready() may resolve. `rejected`: the control plane rejects the URL,
   * the secret key or the project, and will until that is corrected. `closed`: close() was called.
   *
   * Wider than what ready() sets: a class that extended this one before it had a code may have one of its own.
   */
  readonly code: KeyrackErrorCode | (string & Record<never, never>) | number | null;
  /** The HTTP status of a rejection, else null. */
  readonly status: number | null;

  constructor(message?: string, options: { code?: KeyrackErrorCode; status?: number | null; cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = options.code ?? "rejected";
    this.status = options.status ?? null;
  }
}

type Waiter = { resolve(): void; reject(error: Error): void };

/** Whether the control plane rejects the configuration, so that the first policy will not arrive. */
function isRejection(error: CallError): boolean {
  return error.status === 400 || error.isMisconfigured;
}

const REASONS: Readonly<Record<number, string>> = {
  400: "the server does not accept the request. Check that url is that of a Keyrack server, and projectId and env",
  401: "the secret key is not accepted. Check secretKey (it may be revoked, expired or of another server) and the proxies before url",
  403: "the secret key may not read policies: it needs the permission verify. Or a proxy before url refuses the request",
  404: "there is no project with this id, or the URL is not that of a Keyrack server. Check projectId and url",
};

function startError({ status, redirect }: CallError): KeyrackError {
  const reason = redirect ? redirectReason(redirect) : (REASONS[status] ?? "the request is not accepted");
  return new KeyrackError(`Cannot start: ${reason} (status ${status}).`, { code: "rejected", status });
}

/** `last`: why the last call failed, or how far the calls are. */
function timeoutError(timeoutMs: number | undefined, url: string, last: Error | string): KeyrackError {
  const isText = typeof last === "string";
  const why = isText ? last : redactCredentials(last.message);
  const message = `keyrack has no policy after ${timeoutMs} ms from ${url}: ${why}`;
  return new KeyrackError(message, { code: "timeout", ...(!isText && { cause: last }) });
}

/** Never advises to call another site: it would get the secret key. */
function redirectReason({ origin, url }: Redirect): string {
  if (url !== null) return `the URL redirects to ${url}. Set url to that address`;
  return `the URL redirects${origin && ` to ${origin}`}. Check url and the proxies before it`;
}

/**
 * The `timeoutMs` of ready(). A value that earlier releases ignored or understood is only logged; one that is not a
 * number throws, because with it every wait ended at once.
 */
export function readTimeout(options: unknown, log: Log): number | undefined {
  if (options === undefined) return undefined;
  if (typeof options !== "object" || options === null) {
    log("warn", "ready takes an object, such as { timeoutMs: 5000 }; it waits without a limit", {});
    return undefined;
  }
  for (const name of Object.keys(options))
    if (name !== "timeoutMs") log("warn", `ready has no option "${name}", only timeoutMs; it is ignored`, {});
  const { timeoutMs } = options as { timeoutMs?: unknown };
  if (timeoutMs === undefined) return undefined;
  const isText = typeof timeoutMs === "string" && timeoutMs.trim() !== "";
  const ms = isText ? Number(timeoutMs) : timeoutMs;
  need(typeof ms === "number" && !Number.isNaN(ms), "timeoutMs must be a number of milliseconds");
  if (isText) log("warn", "timeoutMs of ready should be a number, not a text", {});
  return ms;
}

/** The calls of ready() that wait for the first policy. */
export class Waiters {
  readonly #ports: Ports;
  readonly #url: string;
  readonly #hasPolicy: () => boolean;
  #ready = false;
  #isLogged = false;
  /** Redirects in a row. */
  #redirects = 0;
  /** Why the last call for the first policy failed, or how far the calls are. */
  #last: Error | string = "no response yet.";
  #closed: KeyrackError | null = null;
  readonly #waiting = new Set<Waiter>();

  constructor(ports: Ports, url: string, hasPolicy: () => boolean) {
    this.#ports = ports;
    this.#url = url;
    this.#hasPolicy = hasPolicy;
  }

  /** After a page that is not the last one. */
  loading(): void {
    this.#last = "it is still being loaded.";
  }

  /** After a call for the first policy failed. */
  failed(runtime: Runtime, error: Error): void {
    const call = error instanceof CallError ? error : null;
    this.#last = error;
    this.#redirects = call?.redirect ? this.#redirects + 1 : 0;
    // A proxy may send a single one while the server behind it restarts.
    if (call && isRejection(call) && this.#redirects !== 1) this.reject(startError(call));
    else this.#logWait(runtime, error);
  }

  /** Once: a process that waits before it listens shows nothing else. */
  #logWait({ log, settings: { url } }: Runtime, { message: why }: Error): void {
    if (this.#waiting.size === 0 || this.#isLogged) return;
    this.#isLogged = true;
    log("error", "the first policy cannot be loaded yet", { url, why });
  }

  wait(timeoutMs?: number): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (this.#ready) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const onTimeout = () => {
        this.#waiting.delete(waiter);
        if (this.#hasPolicy()) return resolve();
        reject(timeoutError(timeoutMs, this.#url, this.#last));
      };
      const cancel = timeoutMs === undefined ? () => {} : this.#ports.after(timeoutMs, onTimeout, true);
      const waiter: Waiter = {
        resolve: () => (cancel(), resolve()),
        reject: (error) => (cancel(), reject(error)),
      };
      this.#waiting.add(waiter);
    });
  }

  /** A control plane that does not respond must not delay a start with the cache file's policy. */
  resolveIfPolicy(): void {
    if (this.#hasPolicy()) this.resolve();
  }

  resolve(): void {
    this.#ready = true;
    for (const waiter of this.#waiting) waiter.resolve();
    this.#waiting.clear();
  }

  reject(error: KeyrackError): void {
    for (const waiter of this.#waiting) waiter.reject(error);
    this.#waiting.clear();
  }

  close(): void {
    const when = this.#ready ? "" : " before its first policy arrived";
    this.#closed = new KeyrackError(`keyrack was closed${when}.`, { code: "closed" });
    this.reject(this.#closed);
  }
}
