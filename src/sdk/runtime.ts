// The library's view of its runtime: clocks, timers, randomness, fetch and the log. Nothing is imported from node:, so
// the same files run wherever fetch does; tests pass their own Ports.

import { toHex } from "../kernel/crypto/bytes.ts";
import { HOUR_MS } from "../kernel/durations.ts";
import { redactCredentials } from "./telemetry/redact.ts";

export type Ports = {
  /** Wall clock, milliseconds since 1970. It may jump. */
  now: () => number;
  /** Monotonic milliseconds. */
  elapsed: () => number;
  /** Runs `task` once after `ms`; returns a cancel function. Only `keepsProcess` timers keep a Node process alive. */
  after: (ms: number, task: () => void, keepsProcess?: boolean) => () => void;
  /** Runs `task` every `ms`; returns a cancel function. Does not keep the process alive. */
  every: (ms: number, task: () => void) => () => void;
  /** In [0, 1), from the system's random generator. */
  random: () => number;
  fetch: (url: string, init: RequestInit) => Promise<Response>;
};

// setTimeout takes 31 bits; a longer delay would fire at once.
const TIMER_MAX = 2 ** 31 - 1;

export function defaultPorts(): Ports {
  return {
    now: () => Date.now(),
    elapsed: () => performance.now(),
    after,
    every,
    random: pooledRandom(),
    fetch: (url, init) => fetch(url, init),
  };
}

function after(ms: number, task: () => void, keepsProcess = false): () => void {
  const timer = setTimeout(task, Math.min(Math.max(ms, 0), TIMER_MAX));
  if (!keepsProcess) unrefTimer(timer);
  return () => clearTimeout(timer);
}

function every(ms: number, task: () => void): () => void {
  const timer = setInterval(task, ms);
  unrefTimer(timer);
  return () => clearInterval(timer);
}

/** On Node and Bun; elsewhere a timer is a number and keeps nothing alive. */
function unrefTimer(timer: unknown): void {
  if (typeof timer === "object" && timer !== null && "unref" in timer) (timer as { unref(): void }).unref();
}

/** One system call for 256 numbers: sampling needs one per request. */
function pooledRandom(): () => number {
  const pool = new Uint32Array(256);
  let next = pool.length;
  return () => {
    if (next === pool.length) {
      crypto.getRandomValues(pool);
      next = 0;
    }
    return (pool[next++] ?? 0) / 2 ** 32;
  };
}

export type Level = "debug" | "info" | "warn" | "error";
/** Receives the library's log messages, which never contain a key. */
export type Log = (level: Level, message: string, fields: Record<string, unknown>) => void;

/** A vendor's log function that fails must not fail a request, the feed or the process. */
export function safeLog(log: Log | undefined, elapsed: Ports["elapsed"]): Log {
  const write = log ?? warnOfProcess(elapsed);
  return (level, message, fields) => {
    try {
      ignoreRejection<unknown>(write(level, message, redactWhy(fields)));
    } catch {
      // Nowhere left to report it.
    }
  };
}

/** `why` may be the text of an error that quotes the request's headers. */
function redactWhy(fields: Record<string, unknown>): Record<string, unknown> {
  return typeof fields.why === "string" ? { ...fields, why: redactCredentials(fields.why) } : fields;
}

/** For what a vendor's function returns and is not awaited: the rejection of an async one would end the process. */
export function ignoreRejection<T>(value: T): T {
  if (value instanceof Promise) value.catch(() => {});
  return value;
}

/**
 * Without a log function, errors and requests that are admitted without their limits would go unnoticed. Emits a
 * process warning, once an hour for each message, so that a later outage is seen too, and again if a warning becomes an
 * error.
 */
function warnOfProcess(elapsed: Ports["elapsed"]): Log {
  const given = new Map<string, number>();
  return (level, message, fields) => {
    if (level !== "error" && level !== "warn") return;
    const entry = `${level} ${message}`;
    const [now, last = Number.NEGATIVE_INFINITY] = [elapsed(), given.get(entry)];
    if (now - last < HOUR_MS) return;
    given.set(entry, now);
    const text = `keyrack: ${message} ${JSON.stringify(fields)}`;
    const node = (globalThis as { process?: { emitWarning?: (text: string, name: string) => void } }).process;
    node?.emitWarning?.(text, "KeyrackWarning");
  };
}

/** 64 random bits as hex: unique per process and request. */
export function randomHex(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(8)));
}
