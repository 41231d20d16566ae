// The read door on SQLite: one connection that cannot write, its statements kept prepared.
import { BoundedMap } from "../../kernel/lru.ts";
import type { MaybePromise } from "../../kernel/maybe-promise.ts";
import { QueryMemo } from "../engine/query-memo.ts";
import { connectSqlite, type Connection, type Statement } from "./open.ts";
import { assertPragma, COMMON, setPragmas } from "./pragmas.ts";
import type { Query, Reader } from "../engine/statement.ts";

export function openReader(file: string): Connection {
  const db = connectSqlite(file, { readonly: true, timeout: 5_000 });
  setPragmas(db, [...COMMON, "query_only=ON", "cache_size=-2048"]);
  assertPragma(db, "busy_timeout", 5_000);
  return db;
}

const STATEMENTS_MAX = 2_000;

/** Prepared statements of one connection, by SQL text. */
export class Statements {
  readonly #db: Connection;
  readonly #cache = new BoundedMap<string, Statement>({ max: STATEMENTS_MAX, evictAtOnce: STATEMENTS_MAX });

  constructor(db: Connection) {
    this.#db = db;
  }

  get(sql: string): Statement {
    let statement = this.#cache.get(sql);
    if (!statement) {
      statement = this.#db.prepare(sql);
      this.#cache.set(sql, statement);
    }
    return statement;
  }
}

/**
 * Reads of one turn of the event loop share a transaction: taking SQLite's lock and giving it back costs more than to find
 * a row. It ends with the turn, and before anything that readers must see or must not stand in the way of.
 */
export class SqliteReader implements Reader {
  readonly dialect = "sqlite";
  readonly #db: Connection;
  readonly #statements: Statements;
  readonly #failed: (error: unknown) => void;
  readonly #asked = new QueryMemo();
  readonly #endTurn = (): void => this.renew();
  #sharing = true;
  /** Ours to know: asking the connection whether it is in a transaction costs as much as to find a row. */
  #begun = false;

  constructor(db: Connection, failed: (error: unknown) => void) {
    this.#db = db;
    this.#statements = new Statements(db);
    this.#failed = failed;
  }

  async all<R>(query: Query): Promise<R[]> {
    return this.#read(query.sql, (statement) => statement.all(query.values) as R[]);
  }

  async first<R>(query: Query): Promise<R | undefined> {
    return this.#read(query.sql, (statement) => statement.get(query.values) as R | undefined);
  }

  firstMemoized<R>(query: Query): MaybePromise<R | undefined> {
    return this.#read(query.sql, (statement) => {
      const get = (): R | undefined => statement.get(query.values) as R | undefined;
      return this.#begun ? this.#asked.once(query, get) : get(); // no transaction to share, nothing to go by
    });
  }

  #read<T>(sql: string, take: (statement: Statement) => T): T {
    try {
      if (this.#sharing && !this.#begun) {
        this.#statements.get("begin").run();
        this.#begun = true;
        setImmediate(this.#endTurn);
      }
      return take(this.#statements.get(sql));
    } catch (error) {
      this.#failed(error);
      throw error;
    }
  }

  /** The next read sees everything committed so far. */
  renew(): void {
    if (!this.#begun) return;
    try {
      if (this.#db.inTransaction) this.#statements.get("commit").run(); // an I/O error may have ended it
      this.#asked.clear();
      this.#begun = false; // not before: where it could not end, another must not begin
    } catch (error) {
      this.#failed(error);
    }
  }

  /** A checkpoint cannot start the -wal anew while anybody reads from it: meanwhile each read is over at once. */
  async apart<T>(work: () => Promise<T>): Promise<T> {
    this.#sharing = false;
    this.renew();
    try {
      return await work();
    } finally {
      this.#sharing = true;
    }
  }
}
