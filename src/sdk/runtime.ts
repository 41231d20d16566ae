// What the library asks of its surroundings: time, timers, chance, fetch, and Node's own modules where there are any.
// Nothing is imported from node:, so the same files run wherever fetch does; tests put their own Ports in.

import { toHex } from "../kernel/crypto/bytes.ts";

export type Ports = {
  /** Wall clock, milliseconds since 1970. It may jump. */
  now: () => number;
  /** Milliseconds that only ever grow. */
  elapsed: () => number;
  /** Runs `task` once after `ms`; the answer cancels it. Only `keepsProcess` timers hold a Node process open. */
  after: (ms: number, task: () => void, keepsProcess?: boolean) => () => void;
  /** Runs `task` again and again; the answer stops it. It holds no process open. */
  every: (ms: number, task: () => void) => () => void;
  /** In [0, 1), from the system's generator. */
  random: () => number;
  fetch: (url: string, init: RequestInit) => Promise<Response>;
};

// setTimeout takes 31 bits; a longer wait would fire at once.
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
  if (!keepsProcess) letGo(timer);
  return () => clearTimeout(timer);
}

function every(ms: number, task: () => void): () => void {
  const timer = setInterval(task, ms);
  letGo(timer);
  return () => clearInterval(timer);
}

/** Node and Bun can; elsewhere a timer is a number and holds nothing. */
function letGo(timer: unknown): void {
  if (typeof timer === "object" && timer !== null && "unref" in timer) (timer as { unref(): void }).unref();
}

/** One system call serves 256 draws: sampling asks for one on every request. */
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

type Builtins = {
  "node:crypto": typeof import("node:crypto");
  "node:fs/promises": typeof import("node:fs/promises");
  "node:os": typeof import("node:os");
  "node:path": typeof import("node:path");
};

/** A module of Node's own, or undefined on a runtime without it (and on Node before 20.16). */
export function builtinModule<Name extends keyof Builtins>(name: Name): Builtins[Name] | undefined {
  const node = (globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }).process;
  try {
    return node?.getBuiltinModule?.(name) as Builtins[Name] | undefined;
  } catch {
    return undefined;
  }
}

export type Level = "debug" | "info" | "warn" | "error";
/** Where the library's few words go. It never prints by itself and never passes a key on. */
export type Log = (level: Level, message: string, fields: Record<string, unknown>) => void;

/** A vendor's log function that throws must not end a request or the feed. */
export function safeLog(log: Log | undefined): Log {
  if (!log) return () => {};
  return (level, message, fields) => {
    try {
      log(level, message, fields);
    } catch {
      // There is nowhere left to say it.
    }
  };
}

/** 16 random hex digits: enough that no two processes or requests share one. */
export function randomHex(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(8)));
}
