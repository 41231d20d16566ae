// Converts a query for pg.
import { createHash } from "node:crypto";
import type { QueryConfig } from "pg";
import { codeOf } from "../../platform/errors.ts";
import type { Query } from "../engine/tx.ts";

// For a server that stops responding; otherwise its statement_timeout ends a query earlier.
export const QUERY_MAX_MS = 15_000;

/** Above what the code can build: a text that depended on a caller's input must not fill the server's memory. */
const NAMES_MAX = 4_000;
const names = new Map<string, string>();

/** The name of a server-side prepared statement, kept by each connection: the same text has the same name. */
function nameOf(sql: string): string | undefined {
  let name = names.get(sql);
  if (!name && names.size < NAMES_MAX) {
    name = `k${createHash("sha256").update(sql).digest("hex").slice(0, 24)}`;
    names.set(sql, name);
  }
  return name;
}

/** pg supports a timeout per query, but its types lack it. */
export type TimedQuery = QueryConfig & { query_timeout: number };

/** Finds out whether a connection that was idle still works. */
export const PING: TimedQuery = { text: "select 1", query_timeout: 2_000 };

export function toConfig(query: Query): TimedQuery {
  const name = nameOf(query.sql);
  return {
    ...(name !== undefined && { name }),
    text: query.sql,
    values: query.values as unknown[],
    query_timeout: QUERY_MAX_MS,
  };
}

/** A statement timeout, or a server out of connections or memory: the caller may retry. */
export function isOverloaded(error: unknown): boolean {
  return /^(57014|53[0-4]00)$/.test(codeOf(error));
}

export const isDeadlock = (error: unknown): boolean => codeOf(error) === "40P01";

/**
 * A newer version of Keyrack has added a column to a table of this prepared statement, which selects every column. It
 * must be prepared again, on another connection.
 */
export function isStalePlan(error: unknown): boolean {
  const { code, routine } = error as { code?: string; routine?: string };
  return code === "0A000" && routine === "RevalidateCachedQuery";
}
