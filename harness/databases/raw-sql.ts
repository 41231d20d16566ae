// A plain connection to a test's database, beside the store: to inspect what is really stored, and to tamper with it.
import Database from "better-sqlite3";
import { connectPostgres } from "../../src/store/postgres/client.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { DEADLINE_MS, until } from "../waiting.ts";
import { withKept } from "./kept-connections.ts";

export type Row = Record<string, string | number | null | Uint8Array>;

export type Raw = { all(sql: string, values?: readonly unknown[]): Promise<Row[]>; close(): Promise<void> };

/** A connection for many statements; `$1` is the first value in either dialect. */
export async function openRaw(target: DatabaseTarget): Promise<Raw> {
  if (target.kind === "sqlite") {
    const db = new Database(target.file, { timeout: 0 });
    const run = (sql: string, values: readonly unknown[]): Row[] => {
      const statement = db.prepare(sql.replace(/\$\d+/g, "?"));
      if (statement.reader) return statement.all(values) as Row[];
      statement.run(values);
      return [];
    };
    return {
      all: async (sql, values = []) => {
        const rows = await whenFree(() => run(sql, values));
        // A store in this process sees another connection's write from the next event-loop turn on.
        await new Promise((resolve) => setImmediate(resolve));
        return rows;
      },
      close: async () => void db.close(),
    };
  }
  const client = await connectPostgres(target.url, { connectionTimeoutMillis: DEADLINE_MS });
  return {
    all: async (sql, values = []) => (await client.query(sql, [...values])).rows as Row[],
    close: () => client.end(),
  };
}

/** Runs one statement. */
export async function rawSql(target: DatabaseTarget, sql: string, values: (string | number)[] = []): Promise<Row[]> {
  if (target.kind === "postgres")
    return withKept(target.url, async (client) => (await client.query(sql, values)).rows as Row[]);
  const raw = await openRaw(target);
  try {
    return await raw.all(sql, values);
  } finally {
    await raw.close();
  }
}

/** Retries a locked write without blocking the event loop: the store that holds the lock may be in this process. */
async function whenFree<T>(work: () => T): Promise<T> {
  let result: T | undefined;
  await until(() => {
    try {
      result = work();
      return true;
    } catch (error) {
      if (!(error as { code?: string }).code?.startsWith("SQLITE_BUSY")) throw error;
      return false;
    }
  });
  return result as T;
}

/** Drops the triggers that make the audit log append-only, as an attacker with database access would. */
export async function dropAppendOnly(target: DatabaseTarget): Promise<void> {
  const names =
    target.kind === "sqlite"
      ? ["audit_log_no_update", "audit_log_no_delete"]
      : ["audit_log_no_change on audit_log", "audit_log_no_truncate on audit_log"];
  for (const name of names) await rawSql(target, `drop trigger ${name}`);
}
