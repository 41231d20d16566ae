// A counter as it is saved in a table between runs: its name and its counts as two short texts.
// Caution: these texts outlive the program that wrote them; a reader skips what it cannot parse and never throws.
//
// `key` is the counter's name, its parts joined by "/" (`keyOf`). `windows` is the first span's index, ":", then the
// counts of consecutive spans joined by ",", all in base 36, a zero left empty: "1tn8q0:5,,a" is 5, 0 and 10 units.
import { MINUTE_MS } from "../../kernel/durations.ts";
import { LIMIT_MAX } from "../../kernel/ratelimit/rule.ts";

/** After `lapses_at` (ms since the epoch) a counter is empty and its row may be deleted. */
export type SavedCounter = { key: string; lapses_at: number; windows: string };

/** Shorter windows start empty after a restart. */
export const SAVED_WINDOW_MIN_MS = MINUTE_MS;

export type CounterName = {
  workspace_id: string;
  project_id: string;
  env: "live" | "test";
  scope: "key" | "tenant";
  subject: string;
  id: string;
  algorithm: "sliding" | "fixed";
  window_ms: number;
};

export function keyOf(n: CounterName): string {
  return `${n.workspace_id}/${n.project_id}/${n.env}/${n.scope}/${n.subject}/${n.id}/${n.algorithm}/${n.window_ms}`;
}

/** Null for a key that this version would not have written. */
export function parseKey(key: string): CounterName | null {
  const [workspace_id, project_id, env, scope, subject, id, algorithm, text, ...more] = key.split("/");
  const window_ms = Number(text);
  if (!workspace_id || !project_id || !subject || !id || more.length > 0) return null;
  if (env !== "live" && env !== "test") return null;
  if (scope !== "key" && scope !== "tenant") return null;
  if (algorithm !== "sliding" && algorithm !== "fixed") return null;
  if (!Number.isSafeInteger(window_ms) || window_ms < 1) return null;
  return { workspace_id, project_id, env, scope, subject, id, algorithm, window_ms };
}

export function formatWindows(first: number, counts: readonly number[]): string {
  return `${first.toString(36)}:${counts.map((n) => (n === 0 ? "" : n.toString(36))).join(",")}`;
}

export function parseWindows(text: string): { first: number; counts: number[] } | null {
  const match = /^([0-9a-z]{1,10}):([0-9a-z,]*)$/.exec(text);
  if (match === null) return null;
  const counts = match[2]!.split(",").map((n) => (n === "" ? 0 : Number.parseInt(n, 36)));
  const total = counts.reduce((sum, n) => sum + n, 0);
  // No limit is higher, so no counter holds more: such a row was not written by us.
  return total <= LIMIT_MAX ? { first: Number.parseInt(match[1]!, 36), counts } : null;
}
