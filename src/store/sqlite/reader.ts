// SQLite's reader: one read-only connection with a statement cache.
import { BoundedMap } from "../../kernel/bounded-map.ts";
import { QueryMemo } from "../engine/query-memo.ts";
import type { Piece, Query, Reader } from "../engine/tx.ts";
import { connectSqlite, type Connection, type Statement } from "./open.ts";
import { assertPragma, COMMON_PRAGMAS, setPragmas } from "./pragmas.ts";

const STATEMENTS_MAX = 2_000;

export function openReader(file: string): Connection {
  const db = connectSqlite(file, { readonly: true, timeout: 5_000 });
  setPragmas(db, [...COMMON_PRAGMAS, "query_only=ON", "cache_size=-2048"]);
  assertPragma(db, "busy_timeout", 5_000);
  return db;
}

/** Prepared statements of one connection, by SQL text. bench: vendor/mint, vendor/get-by-id */
export class StatementCache {
  readonly #db: Connection;
  readonly #statements = new BoundedMap<string, Statement>({ max: STATEMENTS_MAX, evictAtOnce: STATEMENTS_MAX });

  constructor(db: Connection) {
    this.#db = db;
  }

  get(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/**
 * Reads of one event loop turn share a read transaction (a snapshot), because taking SQLite's lock costs more than
 * finding a row (bench: vendor/get-by-id). The snapshot ends with the turn, at every commit, and before a checkpoint.
 */
export class SqliteReader implements Reader {
  readonly dialect = "sqlite";
  readonly #db: Connection;
  readonly #statements: StatementCache;
  readonly #failed: (error: unknown) => void;
  readonly #memo = new QueryMemo();
  readonly #endTurn = (): void => this.endSnapshot();
  #useSnapshots = true;
  /** Tracked here: asking the connection costs as much as finding a row. */
  #inSnapshot = false;

  constructor(db: Connection, failed: (error: unknown) => void) {
    this.#db = db;
    this.#statements = new StatementCache(db);
    this.#failed = failed;
  }

  async all<R>(query: Query): Promise<R[]> {
    return this.#read(query.sql, (statement) => statement.all(query.values) as R[]);
  }

  /** Decoding text holds the event loop: a megabyte that is not ASCII for about 14 ms. */
  async allWithin<R>(query: Query, chars: number): Promise<Piece<R>> {
    return this.#read(query.sql, (statement) => {
      const rows: R[] = [];
      let left = chars;
      for (const row of statement.iterate(query.values)) {
        rows.push(row as R);
        left -= charsOf(row as Record<string, unknown>);
        if (left <= 0) return { rows, isCut: true };
      }
      return { rows, isCut: false };
    });
  }

  async first<R>(query: Query): Promise<R | undefined> {
    return this.#read(query.sql, (statement) => statement.get(query.values) as R | undefined);
  }

  firstMemoized<R>(query: Query): R | undefined | Promise<R | undefined> {
    return this.#read(query.sql, (statement) => {
      const get = (): R | undefined => statement.get(query.values) as R | undefined;
      return this.#inSnapshot ? this.#memo.getOrRun(query, get) : get();
    });
  }

  #read<T>(sql: string, take: (statement: Statement) => T): T {
    try {
      if (this.#useSnapshots && !this.#inSnapshot) {
        this.#statements.get("begin").run();
        this.#inSnapshot = true;
        setImmediate(this.#endTurn);
      }
      return take(this.#statements.get(sql));
    } catch (error) {
      this.#failed(error);
      throw error;
    }
  }

  /** The next read sees everything committed so far. */
  endSnapshot(): void {
    if (!this.#inSnapshot) return;
    try {
      if (this.#db.inTransaction) this.#statements.get("commit").run(); // an I/O error may have ended it
      this.#memo.clear();
      this.#inSnapshot = false; // only after a successful commit: a transaction that did not end must not be begun again
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Runs a checkpoint: it cannot restart the -wal while a snapshot is open, so reads during it use none. */
  async withoutSnapshot<T>(checkpoint: () => Promise<T>): Promise<T> {
    this.#useSnapshots = false;
    this.endSnapshot();
    try {
      return await checkpoint();
    } finally {
      this.#useSnapshots = true;
    }
  }
}

function charsOf(row: Readonly<Record<string, unknown>>): number {
  let chars = 0;
  for (const name in row) {
    const value = row[name];
    if (typeof value === "string") chars += value.length;
  }
  return chars;
}
