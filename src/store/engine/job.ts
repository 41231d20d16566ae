// A job of the group commit from its queueing to its answer: what it asks for, what it left behind, whom to tell.
import { fail, Failure } from "../../kernel/errors.ts";
import type { Entry, PreparedEntry } from "./audit-ledger.ts";
import type { Tx } from "./statement.ts";

/** What a job leaves behind: its answer, and the audit rows that record it. `unchanged` rolls its writes back. */
export type Outcome<T> = { value: T; entries: readonly Entry[]; unchanged?: boolean };

export type Job<T> = {
  /** The chains this job appends to; their heads are locked before any work. */
  chains: readonly string[];
  /** True when the job may run beside others of its kind: it decides on nothing that they write. */
  batch?: boolean;
  work(tx: Tx): Promise<Outcome<T>>;
};

export type Pending = {
  job: Job<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  outcome?: Outcome<unknown> | undefined;
  entries?: PreparedEntry[];
  error?: unknown;
};

export function refusalFor(trouble: string, error: unknown): unknown {
  if (error instanceof Failure) return error;
  if (trouble === "full") return fail("storage_full", { retryAfterSeconds: 5 });
  if (["lost", "busy", "slow", "fatal"].includes(trouble)) return fail("unavailable", { retryAfterSeconds: 1 });
  return error;
}

export function settle(group: Pending[]): void {
  for (const { outcome, error, resolve, reject } of group) {
    if (error === undefined && outcome) resolve(outcome.value);
    else reject(error);
  }
}

/** Neighbours that may run together form one segment; every other job is a segment of its own. */
export function segments(group: Pending[]): Pending[][] {
  const result: Pending[][] = [];
  for (const pending of group) {
    const last = result.at(-1);
    if (pending.job.batch && last?.[0]?.job.batch) last.push(pending);
    else result.push([pending]);
  }
  return result;
}

/** `Promise.allSettled` for one, which costs every job of a group less. */
export async function settled(work: Promise<void>): Promise<PromiseSettledResult<void>> {
  try {
    return { status: "fulfilled", value: await work };
  } catch (reason) {
    return { status: "rejected", reason };
  }
}
