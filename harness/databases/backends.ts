// The databases a suite runs on: `for (const back of backends) describe(…)`, with a fresh database for each test.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { openStore } from "../../src/store/database.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { copyTemplate, createDatabase } from "./postgres-databases.ts";

export type Backend = "sqlite" | "postgres";
type FreshDatabase = { target: DatabaseTarget; dispose: () => Promise<void> };

/** The PostgreSQL server for tests, or null. */
export const postgresUrl: string | null = inject("postgres");
export const backends: readonly Backend[] = postgresUrl ? ["sqlite", "postgres"] : ["sqlite"];
/**
 * The database of this run: SQLite in `npm test`; PostgreSQL in the project `postgres` of vitest.config.ts, which runs
 * every file that names it again. For tests of what is above the store, whose statements are those of both databases;
 * those that show where the databases differ, and the core of each subject, take `backends`.
 */
export const runBackends: readonly Backend[] = postgresUrl && inject("onPostgres") ? ["postgres"] : ["sqlite"];

/** A database of its own for an instance: a copy of a migrated one, because migrating is slow. */
export async function readyDatabase(backend: Backend): Promise<FreshDatabase> {
  if (backend === "sqlite") {
    const database = await freshDatabase(backend);
    if (database.target.kind === "sqlite") writeFileSync(database.target.file, await migratedFile(), { mode: 0o600 });
    return database;
  }
  if (!postgresUrl) throw new Error("there is no PostgreSQL in this run");
  const database = await copyTemplate(postgresUrl, inject("template"), (url) =>
    migrate({ kind: "postgres", url, pool: 1 }),
  );
  return { target: { kind: "postgres", url: database.url, pool: 4 }, dispose: () => database.drop() };
}

async function migrate(target: DatabaseTarget): Promise<void> {
  await (await openStore(target, { now: Date.now, fatal: console.error })).close();
}

let migrated: Promise<Buffer> | undefined;

/** The bytes of a migrated SQLite file without rows, made once per test process. */
export function migratedFile(): Promise<Buffer> {
  return (migrated ??= (async () => {
    const { target, dispose } = await freshDatabase("sqlite");
    if (target.kind !== "sqlite") throw new Error("not a file");
    await migrate(target);
    const bytes = readFileSync(target.file);
    await dispose();
    return bytes;
  })());
}

/** An empty database of its own. Dispose it after the store is closed. */
export async function freshDatabase(backend: Backend): Promise<FreshDatabase> {
  if (backend === "sqlite") {
    const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
    return {
      target: { kind: "sqlite", file: join(dir, "keyrack.db") },
      dispose: async () => rmSync(dir, { recursive: true, force: true }),
    };
  }
  if (!postgresUrl) throw new Error("there is no PostgreSQL in this run");
  const database = await createDatabase(postgresUrl);
  return { target: { kind: "postgres", url: database.url, pool: 4 }, dispose: () => database.drop() };
}
