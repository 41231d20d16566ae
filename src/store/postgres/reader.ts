// PostgreSQL's reader: a few pipelined connections, each with many queries in flight. Checking a connection out of a pool
// for one query at a time costs more than most queries. bench: vendor/get-by-id-postgres
import type { Client } from "pg";
import { fail } from "../../kernel/errors.ts";
import type { Query, Reader } from "../engine/statement.ts";
import { connectPostgres, type ConnectOptions } from "./client.ts";
import { isConnectionLost } from "./connection-lost.ts";
import { isOverloaded, isStalePlan, QUERY_MAX_MS, toConfig, type TimedQuery } from "./query.ts";

/** Queries in flight per connection before another is opened: a slow query delays those behind it. */
const IN_FLIGHT_MAX = 12;

/** `retired`: takes no more queries, and is closed when those in flight are answered. */
type Connection = { client: Promise<Client>; inFlight: number; retired: boolean };

export class PostgresReader implements Reader {
  readonly dialect = "postgres";
  readonly #url: string;
  readonly #options: ConnectOptions;
  readonly #max: number;
  readonly #connections: Connection[] = [];
  #ended = false;

  constructor(url: string, options: ConnectOptions, max: number) {
    this.#url = url;
    this.#options = options;
    this.#max = max;
  }

  async all<R>(query: Query): Promise<R[]> {
    try {
      return await this.#send<R>(toConfig(query));
    } catch (error) {
      if (isStalePlan(error)) {
        this.#retireAll();
        return this.all<R>(query);
      }
      throw isConnectionLost(error) || isOverloaded(error) ? fail("unavailable", { retryAfterSeconds: 1 }) : error;
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
    return this.#send<R>({ text, query_timeout: QUERY_MAX_MS });
  }

  async end(): Promise<void> {
    this.#ended = true;
    await Promise.allSettled(this.#connections.splice(0).map(async ({ client }) => (await client).end()));
  }

  async #send<R>(query: TimedQuery): Promise<R[]> {
    const connection = this.#leastBusy();
    connection.inFlight++;
    try {
      const client = await connection.client;
      return (await client.query(query)).rows as R[];
    } finally {
      connection.inFlight--;
      if (connection.retired) endIfIdle(connection);
    }
  }

  #retireAll(): void {
    for (const connection of this.#connections.splice(0)) {
      connection.retired = true;
      endIfIdle(connection);
    }
  }

  #leastBusy(): Connection {
    let best: Connection | undefined;
    for (const each of this.#connections) if (!best || each.inFlight < best.inFlight) best = each;
    return best && (best.inFlight < IN_FLIGHT_MAX || this.#connections.length >= this.#max) ? best : this.#open();
  }

  /** A connection that breaks is removed at once, so that the next query uses another. */
  #open(): Connection {
    if (this.#ended) throw fail("stopping", { retryAfterSeconds: 1 });
    const remove = (): void => {
      const at = this.#connections.indexOf(connection);
      if (at >= 0) this.#connections.splice(at, 1);
    };
    const client = connectPostgres(this.#url, { ...this.#options, onLost: remove });
    const connection: Connection = { client, inFlight: 0, retired: false };
    client.catch(remove);
    this.#connections.push(connection);
    return connection;
  }
}

function endIfIdle({ client, inFlight }: Connection): void {
  if (inFlight === 0) client.then((connected) => connected.end()).catch(() => {});
}
