// Keeps servers away from a PostgreSQL database while a command replaces it, copies it or changes its master key. The
// command takes a lock and then looks for servers (assertNotInUse in restore.ts); a server connects and then looks for
// the lock, on every connection that it opens: it may have been cut off while the command looked for it. So at least
// one of two that begin at the same time sees the other. SQLite has the data dir's lock.
import type { Client } from "pg";
import type { DatabaseTarget } from "../target.ts";
import { MAINTENANCE_LOCK } from "./advisory-locks.ts";
import { withPostgres } from "./client.ts";
import { MaintenanceRunning, ReadOnlyServer, StandbyServer } from "./connection-lost.ts";
import { QUERY_MAX_MS, type TimedQuery } from "./query.ts";
import { ToolRefused } from "./tools.ts";

const BUSY = "A command such as keyrack restore is working on this database. Try again when it has ended.";
const STANDBY = "this PostgreSQL is a standby: set KEYRACK_DATABASE_URL to an address that leads to the primary";

const NO_WRITES =
  "this PostgreSQL is read-only for Keyrack (default_transaction_read_only is on): turn that off for its database and user";

const LOST = "The connection that keeps servers away from this database was lost. Nothing was changed: try again.";
const RESPONSE_MAX_MS = 10_000;

/** Throws if the lock was lost, so that a server may have started. Called right before a change takes effect. */
type AssertAlone = () => Promise<void>;

export async function withMaintenance<T>(
  target: DatabaseTarget,
  work: (assertAlone: AssertAlone) => Promise<T>,
): Promise<T> {
  if (target.kind === "sqlite") return work(async () => {});
  const hold = async (client: Client): Promise<T> => {
    await client.query("set idle_session_timeout = 0"); // the session only holds the lock
    const { rows } = await client.query(`select pg_try_advisory_lock(${MAINTENANCE_LOCK}) as free`);
    if (!(rows[0] as { free: boolean }).free) throw new ToolRefused(BUSY);
    return work(async () => {
      await client.query("select 1").catch(() => {
        throw new ToolRefused(LOST);
      });
    });
  };
  return withPostgres(target.url, hold, { keepAlive: true, query_timeout: RESPONSE_MAX_MS });
}

/**
 * For a new connection of a process that must not run beside such a command, or read from a standby: that lags, so it
 * would serve revoked keys. A primary becomes a standby only by a restart, so open connections need no check.
 */
export async function assertUsable(client: Client): Promise<void> {
  const text = `select pg_try_advisory_xact_lock_shared(${MAINTENANCE_LOCK}) as free, pg_is_in_recovery() as standby`;
  const query: TimedQuery = { text, query_timeout: QUERY_MAX_MS };
  const { rows } = await client.query<{ free: boolean; standby: boolean }>(query);
  if (rows[0]?.standby) throw new StandbyServer(STANDBY);
  if (!rows[0]?.free) throw new MaintenanceRunning(BUSY);
}

/** For a new write connection: a session keeps for its life what `default_transaction_read_only` was at its start. */
export async function assertWritable(client: Client): Promise<void> {
  const query: TimedQuery = { text: "show transaction_read_only", query_timeout: QUERY_MAX_MS };
  const { rows } = await client.query<{ transaction_read_only: string }>(query);
  if (rows[0]?.transaction_read_only === "on") throw new ReadOnlyServer(NO_WRITES);
}
