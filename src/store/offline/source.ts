// Reads a database outside the store: plain SQL on a read-only connection of its own; no query builder, migration or
// lock. For workers, and for commands that run beside a server.
import { connectPostgres } from "../postgres/client.ts";
import { connectSqlite } from "../sqlite/open.ts";
import { PING } from "../postgres/query.ts";
import type { DatabaseTarget } from "../target.ts";

export type Source = {
  readonly kind: DatabaseTarget["kind"];
  begin(): Promise<void>;
  commit(): Promise<void>;
  /** `values`: in the order of the text. */
  all<R>(sql: string, values: readonly (string | number)[]): Promise<R[]>;
  /** Rejects unless the database responds soon. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

export function openSource(target: DatabaseTarget): Promise<Source> {
  return target.kind === "sqlite" ? openSqlite(target.file) : openPostgres(target.url);
}

/** Opens a source for `work` and closes it afterwards. */
export async function withSource<T>(target: DatabaseTarget, work: (source: Source) => Promise<T>): Promise<T> {
  const source = await openSource(target);
  try {
    return await work(source);
  } finally {
    await source.close();
  }
}

/** No rows if the release that made the database has no such table or column. Any other error is one. */
export function allIfKnown<R>(source: Source, sql: string, values: readonly (string | number)[]): Promise<R[]> {
  return source.all<R>(sql, values).catch((error: unknown) => {
    if (isUnknownName(error)) return [];
    throw error;
  });
}

/** PostgreSQL has codes for it, SQLite only a text. */
function isUnknownName(error: unknown): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "SQLITE_ERROR") return /^no such (table|column):/.test(message);
  return code === "42P01" || code === "42703";
}

async function openSqlite(file: string): Promise<Source> {
  const db = connectSqlite(file, { readonly: true, timeout: 5_000 });
  for (const pragma of ["query_only=ON", "trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"]) db.pragma(pragma);
  return {
    kind: "sqlite",
    begin: async () => void db.exec("begin"),
    commit: async () => void db.exec("commit"),
    all: async <R>(sql: string, values: readonly (string | number)[]) =>
      db.prepare(sql.replace(/\$\d+/g, "?")).all(values) as R[],
    ping: async () => {},
    close: async () => void db.close(),
  };
}

async function openPostgres(url: string): Promise<Source> {
  const client = await connectPostgres(url, { application_name: "keyrack verify" });
  return {
    kind: "postgres",
    begin: async () => void (await client.query("begin isolation level repeatable read read only")),
    commit: async () => void (await client.query("commit")),
    all: async <R>(sql: string, values: readonly (string | number)[]) =>
      (await client.query(sql, [...values])).rows as R[],
    ping: async () => void (await client.query(PING)),
    close: () => client.end(),
  };
}
