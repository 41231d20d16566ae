// Keeps servers away from a PostgreSQL database while a command replaces it, copies it or changes its master key. The
// command takes a lock and then looks for servers (assertNotInUse in restore.ts); a server connects and then looks for
// the lock. So at least one of two that begin at the same time sees the other. SQLite has the data dir's lock.
import type { Reader } from "../engine/statement.ts";
import type { DatabaseTarget } from "../target.ts";
import { MAINTENANCE_LOCK } from "./advisory-locks.ts";
import { withPostgres } from "./client.ts";
import { ToolRefused } from "./tools.ts";

const BUSY = "A command such as keyrack restore is working on this database. Try again when it has ended.";

export async function withMaintenance<T>(target: DatabaseTarget, work: () => Promise<T>): Promise<T> {
  if (target.kind === "sqlite") return work();
  return withPostgres(target.url, async (client) => {
    const { rows } = await client.query(`select pg_try_advisory_lock(${MAINTENANCE_LOCK}) as free`);
    if (!(rows[0] as { free: boolean }).free) throw new ToolRefused(BUSY);
    return work();
  });
}

/** For a process that is connected, before it writes anything. */
export async function assertNoMaintenance(read: Reader): Promise<void> {
  const sql = `select pg_try_advisory_xact_lock_shared(${MAINTENANCE_LOCK}) as free`;
  const row = await read.first<{ free: boolean }>({ sql, values: [] });
  if (!row?.free) throw new ToolRefused(BUSY);
}
