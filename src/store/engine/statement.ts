// Kysely gives the types and the SQL text; a statement is compiled once per dialect and run by our own executor,
// which keeps it prepared. Compiling and preparing at every call would cost three to eight times as much.
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type Compilable,
} from "kysely";
import type { MaybePromise } from "../../kernel/maybe-promise.ts";
import type { Tables } from "../schema/tables.ts";
import type { Dialect, Query, Reader, Tx, Value } from "./tx.ts";

export type { Dialect, Query, Reader, Row, Tx, Value } from "./tx.ts";

export type Builder = Kysely<Tables>;
const builders: Record<Dialect, Builder> = {
  sqlite: new Kysely<Tables>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  }),
  postgres: new Kysely<Tables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  }),
};

/** A named hole in a statement: kysely carries it through as a value, we put the real one in at each call. */
class Hole {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

export type Holes<P> = { readonly [K in keyof P]-?: P[K] };

const holes = new Proxy({}, { get: (_target, name) => new Hole(String(name)) });

export type Statement<P, R> = {
  all(on: Reader, params: P): Promise<R[]>;
  first(on: Reader, params: P): Promise<R | undefined>;
  firstMemoized(on: Reader, params: P): MaybePromise<R | undefined>;
  run(on: Tx, params: P): Promise<number>;
  insertMany(on: Tx, rows: readonly P[]): Promise<void>;
  insertDeferred(on: Tx, params: P): Promise<void>;
  /** The SQL text of one dialect, for tests and EXPLAIN. */
  sql(dialect: Dialect): string;
};

/** The named holes as an object, for `values()` and `set()`. */
export function columns<P, K extends keyof P>(p: Holes<P>, names: readonly K[]): Pick<P, K> {
  return Object.fromEntries(names.map((name) => [name, p[name]])) as Pick<P, K>;
}

/** `values` has null where a hole is; `names` has the hole's name there. */
type Compiled = { sql: string; values: readonly Value[]; names: readonly (string | null)[] };

function compile(built: Compilable<unknown>): Compiled {
  const { sql: text, parameters } = built.compile();
  // SQLite plans a statement anew at every call that binds a bare `limit ?`; a sum it does not look into.
  const sql = text.replaceAll(" limit ?", " limit (? + 0)");
  const parts = parameters as readonly (Value | Hole)[];
  return {
    sql,
    values: parts.map((part) => (part instanceof Hole ? null : part)),
    names: parts.map((part) => (part instanceof Hole ? part.name : null)),
  };
}

function fill(compiled: Compiled, params: Record<string, Value | undefined>): Query {
  const { sql, names } = compiled;
  const values = compiled.values.slice();
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    if (typeof name === "string") values[i] = params[name] ?? null;
  }
  return { sql, values };
}

/** Declares a statement: `statement<{ id: string }>()((db, p) => db.selectFrom("tenants").selectAll().where("id", "=", p.id))`. */
export function statement<P extends Record<string, unknown>>() {
  return <R>(build: (db: Builder, p: Holes<P>, dialect: Dialect) => Compilable<R>): Statement<P, R> => {
    const cache: Partial<Record<Dialect, Compiled>> = {};
    const compiledFor = (dialect: Dialect): Compiled =>
      (cache[dialect] ??= compile(build(builders[dialect], holes as Holes<P>, dialect)));
    const query = (dialect: Dialect, params: P): Query =>
      fill(compiledFor(dialect), params as Record<string, Value | undefined>);
    return {
      all: (on, params) => on.all<R>(query(on.dialect, params)),
      first: (on, params) => on.first<R>(query(on.dialect, params)),
      firstMemoized: (on, params) => on.firstMemoized<R>(query(on.dialect, params)),
      run: (on, params) => on.run(query(on.dialect, params)),
      insertMany: (on, rows) => {
        const values = rows.map((row) => query(on.dialect, row).values);
        return on.insertMany(compiledFor(on.dialect).sql, values);
      },
      insertDeferred: (on, params) => on.insertDeferred(query(on.dialect, params)),
      sql: (dialect) => compiledFor(dialect).sql,
    };
  };
}

/** For statements whose shape depends on the call (optional filters, lists): compiled at each call, still kept prepared. */
export function dynamic<R>(on: Reader, build: (db: Builder, dialect: Dialect) => Compilable<R>): Query & { _row?: R } {
  return fill(compile(build(builders[on.dialect], on.dialect)), {});
}
