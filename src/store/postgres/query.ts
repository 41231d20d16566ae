// A statement as pg takes it, and what its refusal means.
import { createHash } from "node:crypto";
import type { QueryConfig } from "pg";
import type { Query } from "../engine/statement.ts";

// The server's own limits end a statement earlier; this one is for a server that has gone silent.
export const ANSWER_MAX_MS = 15_000;

const names = new Map<string, string>();

/** A server-side prepared statement is known by a name; the same text always has the same one. */
function nameOf(sql: string): string {
  let name = names.get(sql);
  if (!name) {
    name = `k${createHash("sha256").update(sql).digest("hex").slice(0, 24)}`;
    names.set(sql, name);
  }
  return name;
}

/** pg takes a time limit per query, though its types do not know it. */
export type TimedQuery = QueryConfig & { query_timeout: number };

export function toConfig(query: Query): TimedQuery {
  return {
    name: nameOf(query.sql),
    text: query.sql,
    values: query.values as unknown[],
    query_timeout: ANSWER_MAX_MS,
  };
}

/** A statement that took too long, or a server short of connections or memory: the request may be tried again. */
export function isOverloaded(error: unknown): boolean {
  return /^(57014|53[0-4]00)$/.test((error as { code?: string }).code ?? "");
}
