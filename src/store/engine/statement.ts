// Statements. Kysely provides types and SQL text; a statement is compiled once per dialect, and the drivers keep it
// prepared by its text (bench: vendor/mint, vendor/get-by-id).
//
// | method         | use it for                                                                                       |
// |----------------|--------------------------------------------------------------------------------------------------|
// | all            | every matching row                                                                               |
// | first          | one row or undefined                                                                             |
// | firstMemoized  | as first, on hot paths: rows that concurrent requests or the jobs of a batch read and none writes |
// | count          | the `n` of a query that counts rows                                                              |
// | run            | a write; returns the number of changed rows                                                      |
// | insertMany     | the same insert for several rows                                                                 |
// | insertDeferred | an insert that nothing later in the job reads                                                    |
// | sql            | the SQL text, for tests and EXPLAIN                                                              |
//
// A query whose shape depends on its arguments is run with selectRows(), selectRow() or changeRows().
import {
  DummyDriver,
  expressionBuilder,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type Compilable,
} from "kysely";
import type { Tables } from "../schema/tables.ts";
import type { Dialect, Query, Reader, Runner, Tx, Value } from "./tx.ts";

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

/** A named parameter: kysely carries it through compilation as a value; each call replaces it with the real one. */
class Param {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

export type Params<P> = { readonly [K in keyof P]-?: P[K] };

const namedParams = new Proxy({}, { get: (_target, name) => new Param(String(name)) });

export type Statement<P, R> = {
  all(on: Reader, params: P): Promise<R[]>;
  first(on: Reader, params: P): Promise<R | undefined>;
  firstMemoized(on: Reader, params: P): R | undefined | Promise<R | undefined>;
  count(on: Reader, params: P): R extends { n: number } ? Promise<number> : never;
  run(on: Runner, params: P): Promise<number>;
  insertMany(on: Tx, rows: readonly P[]): Promise<void>;
  insertDeferred(on: Tx, params: P): Promise<void>;
  sql(dialect: Dialect): string;
};

/** The named parameters as an object, for `values()` and `set()`. */
export function columns<P, K extends keyof P>(p: Params<P>, names: readonly K[]): Pick<P, K> {
  return Object.fromEntries(names.map((name) => [name, p[name]])) as Pick<P, K>;
}

/** The number of rows as `n`, for `select()`. */
export const countRows = expressionBuilder<Tables>().fn.countAll<number>().as("n");

/** For each parameter, `values` has null and `names` its name; for each constant, the reverse. */
type Compiled = { sql: string; values: readonly Value[]; names: readonly (string | null)[] };

/** SQLite re-plans a statement at every call that binds a bare `limit ?`, but not when the limit is an expression. */
export const sqliteLimit = (place: string): string => `limit (${place} + 0)`;

function compile(built: Compilable<unknown>): Compiled {
  const { sql: text, parameters } = built.compile();
  const sql = text.replaceAll(" limit ?", ` ${sqliteLimit("?")}`);
  const parts = parameters as readonly (Value | Param)[];
  return {
    sql,
    values: parts.map((part) => (part instanceof Param ? null : part)),
    names: parts.map((part) => (part instanceof Param ? part.name : null)),
  };
}

function bind(compiled: Compiled, params: Record<string, Value | undefined>): Query {
  const { sql, names } = compiled;
  const values = compiled.values.slice();
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    if (typeof name === "string") values[i] = params[name] ?? null;
  }
  return { sql, values };
}

/** Every statement declared so far: a release lists its SQL, which the next schema must still accept. */
export const declaredStatements: Pick<Statement<never, never>, "sql">[] = [];

/**
 * Declares a statement: `statement<{ id: string }>()((db, p) => db.selectFrom("tenants").selectAll().where("id", "=",
 * p.id))`.
 */
export function statement<P extends Record<string, unknown>>() {
  return <R>(build: (db: Builder, p: Params<P>, dialect: Dialect) => Compilable<R>): Statement<P, R> => {
    const cache: Partial<Record<Dialect, Compiled>> = {};
    const compiledFor = (dialect: Dialect): Compiled =>
      (cache[dialect] ??= compile(build(builders[dialect], namedParams as Params<P>, dialect)));
    const query = (dialect: Dialect, params: P): Query =>
      bind(compiledFor(dialect), params as Record<string, Value | undefined>);
    const declared: Statement<P, R> = {
      all: (on, params) => on.all<R>(query(on.dialect, params)),
      first: (on, params) => on.first<R>(query(on.dialect, params)),
      firstMemoized: (on, params) => on.firstMemoized<R>(query(on.dialect, params)),
      count: (async (on: Reader, params: P) =>
        (await on.first<{ n: number }>(query(on.dialect, params)))!.n) as Statement<P, R>["count"],
      run: (on, params) => on.run(query(on.dialect, params)),
      insertMany: (on, rows) => {
        const values = rows.map((row) => query(on.dialect, row).values);
        return on.insertMany(compiledFor(on.dialect).sql, values);
      },
      insertDeferred: (on, params) => on.insertDeferred(query(on.dialect, params)),
      sql: (dialect) => compiledFor(dialect).sql,
    };
    declaredStatements.push(declared);
    return declared;
  };
}

type Build<R> = (db: Builder, dialect: Dialect) => Compilable<R>;

/** Compiled at each call; the drivers still keep it prepared. */
function compileQuery({ dialect }: Reader, build: Build<unknown>): Query {
  return bind(compile(build(builders[dialect], dialect)), {});
}

/** The rows of a query whose shape depends on its arguments. */
export function selectRows<R>(on: Reader, build: Build<R>): Promise<R[]> {
  return on.all<R>(compileQuery(on, build));
}

/** The first of them. */
export function selectRow<R>(on: Reader, build: Build<R>): Promise<R | undefined> {
  return on.first<R>(compileQuery(on, build));
}

/** Runs a write whose shape depends on its arguments; returns the number of changed rows. */
export function changeRows(tx: Tx, build: Build<unknown>): Promise<number> {
  return tx.run(compileQuery(tx, build));
}
