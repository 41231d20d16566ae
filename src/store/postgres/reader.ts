// The read door on PostgreSQL: a few connections, on each of which many questions are under way at once. To hand a
// connection to one question at a time costs more than most answers do.
import { Client, type ClientConfig } from "pg";
import { fail } from "../../kernel/errors.ts";
import { isLost } from "./connection-lost.ts";
import { ANSWER_MAX_MS, isOverloaded, toConfig, type TimedQuery } from "./query.ts";
import type { Query, Reader } from "../engine/statement.ts";

/** So many questions on each connection before another is opened: one that takes long holds up those behind it. */
const CROWD = 12;

type Line = { client: Promise<Client>; waiting: number };

export class PgReader implements Reader {
  readonly dialect = "postgres";
  readonly #config: ClientConfig;
  readonly #max: number;
  readonly #lines: Line[] = [];
  #ended = false;

  constructor(config: ClientConfig, max: number) {
    this.#config = config;
    this.#max = max;
  }

  async all<R>(query: Query): Promise<R[]> {
    try {
      return await this.#send<R>(toConfig(query));
    } catch (error) {
      throw isLost(error) || isOverloaded(error) ? fail("unavailable", { retryAfterSeconds: 1 }) : error;
    }
  }

  async first<R>(query: Query): Promise<R | undefined> {
    return (await this.all<R>(query))[0];
  }

  /** Each in a transaction of its own: what another has just seen may be past. */
  firstMemoized<R>(query: Query): Promise<R | undefined> {
    return this.first(query);
  }

  /** A question that is not kept prepared, refused in the database's own words. */
  ask<R>(text: string): Promise<R[]> {
    return this.#send<R>({ text, query_timeout: ANSWER_MAX_MS });
  }

  async end(): Promise<void> {
    this.#ended = true;
    await Promise.allSettled(this.#lines.splice(0).map(async ({ client }) => (await client).end()));
  }

  async #send<R>(query: TimedQuery): Promise<R[]> {
    const line = this.#shortest();
    line.waiting++;
    try {
      const client = await line.client;
      return (await client.query(query)).rows as R[];
    } finally {
      line.waiting--;
    }
  }

  #shortest(): Line {
    let best: Line | undefined;
    for (const line of this.#lines) if (!best || line.waiting < best.waiting) best = line;
    return best && (best.waiting < CROWD || this.#lines.length >= this.#max) ? best : this.#open();
  }

  /** A connection that breaks leaves the list at once, so the next question goes over another. */
  #open(): Line {
    if (this.#ended) throw fail("stopping", { retryAfterSeconds: 1 });
    const client = new Client(this.#config);
    const line: Line = { client: client.connect().then(() => client), waiting: 0 };
    const drop = (): void => {
      const at = this.#lines.indexOf(line);
      if (at >= 0) this.#lines.splice(at, 1);
    };
    client.on("error", drop);
    client.on("end", drop);
    line.client.catch(drop);
    this.#lines.push(line);
    return line;
  }
}
