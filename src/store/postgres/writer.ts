// PostgreSQL's one write connection.
// Caution: a session keeps `default_transaction_read_only` as it was at its start, so one that may only read must be
// replaced.
import type { Client, QueryResult } from "pg";
import { codeOf } from "../../platform/errors.ts";
import { chunkRows } from "../engine/bulk-insert.ts";
import type { Writer } from "../engine/driver.ts";
import type { Query, Row } from "../engine/tx.ts";
import { connectPostgres, type ConnectOptions } from "./client.ts";
import { READ_ONLY } from "./connection-lost.ts";
import { assertWritable } from "./maintenance.ts";
import { toMultiRow } from "./multi-row.ts";
import { isStalePlan, QUERY_MAX_MS, toConfig, type TimedQuery } from "./query.ts";

/** A new session to find out whether writes work again is opened at most this often. */
const CHECK_MS = 1_000;

/** Pipelined: statements are sent without waiting for earlier responses. bench: vendor/mint-postgres */
export class PostgresWriter implements Writer {
  readonly #url: string;
  readonly #options: ConnectOptions;
  #client: Client | undefined;
  /** The connection must be replaced: a prepared statement no longer works, or the session may only read. */
  stale = false;
  /** Why the last write or attempt to connect found no session that may write. */
  #failure: unknown;
  #checkedAt = -Infinity;

  constructor(url: string, options: ConnectOptions) {
    this.#url = url;
    this.#options = options;
  }

  /** Replaces the connection. */
  async reconnect(): Promise<void> {
    const old = this.#client;
    this.#client = undefined;
    old?.end().catch(() => {});
    try {
      this.#client = await this.#connect();
    } catch (error) {
      this.#failure = error;
      throw error;
    }
    this.#failure = undefined;
    this.stale = false;
  }

  #connect(): Promise<Client> {
    const onLost = (client: Client): void => {
      if (this.#client === client) this.#client = undefined;
    };
    const check = async (client: Client): Promise<void> => {
      await this.#options.check?.(client);
      await assertWritable(client);
    };
    return connectPostgres(this.#url, { ...this.#options, onLost, check });
  }

  /**
   * Throws after a write found no session that may write, until one can be opened again: a process that is not ready
   * may get no further write that would find out.
   */
  async check(): Promise<void> {
    const failure = this.#failure;
    if (failure === undefined) return;
    if (performance.now() - this.#checkedAt < CHECK_MS) throw failure;
    this.#checkedAt = performance.now();
    const client = await this.#connect();
    if (this.#failure === failure) this.#failure = undefined;
    await client.end();
  }

  async end(): Promise<void> {
    await this.#client?.end();
  }

  get #connected(): Client {
    if (!this.#client) throw Object.assign(new Error("not connected"), { code: "08003" });
    return this.#client;
  }

  async #query(query: Query): Promise<QueryResult> {
    try {
      return await this.#connected.query(toConfig(query));
    } catch (error) {
      if (codeOf(error) === READ_ONLY) this.#failure = error;
      this.stale ||= isStalePlan(error) || codeOf(error) === READ_ONLY;
      throw error;
    }
  }

  async all<R>(query: Query): Promise<R[]> {
    return (await this.#query(query)).rows as R[];
  }

  async first<R>(query: Query): Promise<R | undefined> {
    return (await this.all<R>(query))[0];
  }

  async run(query: Query): Promise<number> {
    return (await this.#query(query)).rowCount ?? 0;
  }

  /** Multi-row inserts: a statement costs the server more than the row it inserts. */
  async insertMany(sql: string, rows: readonly Row[]): Promise<void> {
    const inserts = chunkRows(rows.length).map(({ from, to }) =>
      this.run({ sql: toMultiRow(sql, to - from), values: rows.slice(from, to).flat() }),
    );
    await Promise.all(inserts);
  }

  async exec(sql: string): Promise<void> {
    const query: TimedQuery = { text: sql, query_timeout: QUERY_MAX_MS };
    const { command } = await this.#connected.query(query);
    // PostgreSQL responds to the COMMIT of a failed transaction with ROLLBACK, not with an error.
    if (sql === "commit" && command !== "COMMIT") throw new Error("PostgreSQL rolled the transaction back at COMMIT");
  }

  /** Runs several statements without a time limit. */
  async execScript(sql: string): Promise<void> {
    await this.#connected.query(sql);
  }

  execNoWait(sql: string): void {
    this.#connected.query(sql).catch(() => {});
  }
}
