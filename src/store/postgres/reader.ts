// PostgreSQL's reader: a few pipelined connections, each with many queries in flight. Checking a connection out of a
// pool for one query at a time costs more than most queries. bench: vendor/get-by-id-postgres
import type { Client } from "pg";
import { fail } from "../../kernel/errors.ts";
import type { Query, Reader } from "../engine/tx.ts";
import { connectPostgres, dropConnection, type ConnectOptions } from "./client.ts";
import { isConnectionLost, isTimeout, isUnreachable } from "./connection-lost.ts";
import { isDeadlock, isOverloaded, isStalePlan, QUERY_MAX_MS, toConfig, type TimedQuery } from "./query.ts";

/** Queries in flight per connection before another is opened: a slow query delays those behind it. */
const IN_FLIGHT_MAX = 12;

/** Tries again after a deadlock: each has waited for PostgreSQL's deadlock_timeout, by default a second. */
const DEADLOCKS_MAX = 3;

/** `retired`: takes no more queries, and is closed when those in flight are done. */
type Connection = { client: Promise<Client>; inFlight: number; retired: boolean; ending: boolean };

export class PostgresReader implements Reader {
  readonly dialect = "postgres";
  readonly #url: string;
  readonly #options: ConnectOptions;
  readonly #max: number;
  readonly #inFlightMax: number;
  readonly #connections: Connection[] = [];
  #ended = false;

  constructor(url: string, options: ConnectOptions, max: number, inFlightMax = IN_FLIGHT_MAX) {
    this.#url = url;
    this.#options = options;
    this.#max = max;
    this.#inFlightMax = inFlightMax;
  }

  async all<R>(query: Query): Promise<R[]> {
    for (let broken = 0, deadlocks = 0; ; ) {
      const connection = this.#leastBusy();
      try {
        return await this.#send<R>(connection, toConfig(query));
      } catch (error) {
        if (isStalePlan(error)) {
          while (this.#connections[0]) this.#retire(this.#connections[0]);
        } else if (isDeadlock(error) && deadlocks++ < DEADLOCKS_MAX) {
          // A migration of a newer version locks the tables in another order. The next try waits until it has ended.
        } else if (isCut(error) && broken++ < this.#max) {
          this.#retire(connection); // a failover cuts all of them, also those being opened, and a read can be repeated
        } else {
          throw isConnectionLost(error) || isOverloaded(error) || isDeadlock(error) ? fail("unavailable") : error;
        }
      }
    }
  }

  async first<R>(query: Query): Promise<R | undefined> {
    return (await this.all<R>(query))[0];
  }

  /** Not memoized here: each query is a transaction of its own, so an earlier result may be stale. */
  firstMemoized<R>(query: Query): Promise<R | undefined> {
    return this.first(query);
  }

  /** Runs SQL that is not kept prepared. Rejects with the database's own error. */
  query<R>(text: string): Promise<R[]> {
    return this.#send<R>(this.#leastBusy(), { text, query_timeout: QUERY_MAX_MS });
  }

  /** Closes all connections at once: they may be dead without an error. What is in flight is sent again on new ones. */
  replaceAll(): void {
    for (const connection of this.#connections.splice(0)) {
      connection.retired = true;
      connection.client.then(dropConnection).catch(() => {});
    }
  }

  async end(): Promise<void> {
    this.#ended = true;
    await Promise.allSettled(this.#connections.splice(0).map(async ({ client }) => (await client).end()));
  }

  async #send<R>(connection: Connection, query: TimedQuery): Promise<R[]> {
    connection.inFlight++;
    try {
      const client = await connection.client;
      const { rows } = await client.query(query);
      this.#options.onAttempt?.(); // only a further connection may have been refused
      return rows as R[];
    } finally {
      connection.inFlight--;
      if (connection.retired) endIfIdle(connection);
    }
  }

  #retire(connection: Connection): void {
    const at = this.#connections.indexOf(connection);
    if (at >= 0) this.#connections.splice(at, 1);
    connection.retired = true;
    endIfIdle(connection);
  }

  #leastBusy(): Connection {
    let best: Connection | undefined;
    for (const each of this.#connections) if (!best || each.inFlight < best.inFlight) best = each;
    return best && (best.inFlight < this.#inFlightMax || this.#connections.length >= this.#max) ? best : this.#open();
  }

  /** A connection that breaks is removed at once, so that the next query uses another. */
  #open(): Connection {
    if (this.#ended) throw fail("stopping");
    const retire = (): void => this.#retire(connection);
    const client = connectPostgres(this.#url, { ...this.#options, onLost: retire });
    const connection: Connection = { client, inFlight: 0, retired: false, ending: false };
    client.catch(retire);
    this.#connections.push(connection);
    return connection;
  }
}

/** The server was there: another connection may work at once. */
function isCut(error: unknown): boolean {
  return isConnectionLost(error) && !isTimeout(error) && !isUnreachable(error);
}

/** Once: each query that a lost connection fails retires it. */
function endIfIdle(connection: Connection): void {
  if (connection.inFlight > 0 || connection.ending) return;
  connection.ending = true;
  connection.client.then((connected) => connected.end()).catch(() => {});
}
