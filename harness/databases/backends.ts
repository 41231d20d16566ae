// The databases a suite runs on: `for (const back of backends) describe(…)`, with a fresh database for each test.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { openStore } from "../../src/store/database.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { copyTemplate, createDatabase } from "./postgres-databases.ts";

export type Backend = "sqlite" | "postgres";
export type FreshDatabase = { target: DatabaseTarget; dispose: () => Promise<void> };

/** The PostgreSQL server for tests, or null. */
export const postgresUrl: string | null = inject("postgres");
export const backends: readonly Backend[] = postgresUrl ? ["sqlite", "postgres"] : ["sqlite"];

/** A database of its own for an instance; on PostgreSQL a copy of a migrated template, because migrating is slow. */
export async function readyDatabase(back: Backend): Promise<FreshDatabase> {
  if (back === "sqlite") return freshDatabase(back);
  if (!postgresUrl) throw new Error("there is no PostgreSQL in this run");
  const database = await copyTemplate(postgresUrl, inject("template"), async (url) => {
    const store = await openStore({ kind: "postgres", url, pool: 1 }, { now: Date.now, fatal: console.error });
    await store.close();
  });
  return { target: { kind: "postgres", url: database.url, pool: 4 }, dispose: () => database.drop() };
}

/** An empty database of its own. Dispose it after the store is closed. */
export async function freshDatabase(back: Backend): Promise<FreshDatabase> {
  if (back === "sqlite") {
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
