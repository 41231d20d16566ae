// Migrations: forward only, all or nothing, and refused on a database with other migrations in its history.
import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { openStore } from "../../../src/store/database.ts";
import type { DatabaseTarget } from "../../../src/store/target.ts";
import type { Driver } from "../../../src/store/engine/driver.ts";
import { expand, loadMigrations, migrate, SchemaRefused, type Migration } from "../../../src/store/schema/migrate.ts";
import { PostgresDriver } from "../../../src/store/postgres/driver.ts";
import { SqliteDriver } from "../../../src/store/sqlite/driver.ts";
import { backends, freshDatabase, readyDatabase } from "../../../harness/databases/backends.ts";
import { startChild } from "../../../harness/processes/child.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";

const EVENTS = { now: () => 1, fatal: () => {} };

async function tables(target: DatabaseTarget): Promise<string[]> {
  const sql =
    target.kind === "sqlite"
      ? "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"
      : "select tablename as name from pg_tables where schemaname = 'public' order by 1";
  return (await rawSql(target, sql)).map(({ name }) => String(name));
}

/** Migrates with the list that `extra` makes of the real one. */
async function migrateWith(
  target: DatabaseTarget,
  extra: (known: readonly Migration[]) => readonly Migration[],
): Promise<string[]> {
  const driver: Driver & { open(): Promise<unknown> } =
    target.kind === "sqlite" ? new SqliteDriver(target.file) : new PostgresDriver(target.url, target.pool);
  try {
    await driver.open();
    return await migrate(driver, { now: 1, known: extra(loadMigrations(driver.dialect)) });
  } finally {
    await driver.close();
  }
}

const later: Migration = { version: 9001, name: "9001_later", checksum: "x", sql: "create table later (id text)" };

for (const backend of backends) {
  describe(`migrations on ${backend}`, () => {
    it("are all applied at the first start and none at the second", async () => {
      const { target, dispose } = await freshDatabase(backend);
      const first = await openStore(target, EVENTS);
      await first.close();
      const second = await openStore(target, EVENTS);
      await second.close();
      expect(first.applied).toEqual(loadMigrations(backend).map(({ name }) => name));
      expect(second.applied).toEqual([]);
      await dispose();
    });

    it("are refused when the checksum of an applied one differs", async () => {
      const { target, dispose } = await readyDatabase(backend);
      await rawSql(target, "update schema_migrations set checksum = 'other' where version = 1");
      await expect(openStore(target, EVENTS)).rejects.toThrow(SchemaRefused);
      await dispose();
    });

    it("are all rolled back when one fails", async () => {
      const { target, dispose } = await freshDatabase(backend);
      const broken: Migration = { ...later, sql: "create table later (id text); create nonsense;" };
      const first = (known: readonly Migration[]): readonly Migration[] => known.slice(0, 3); // each takes as long as a test
      await expect(migrateWith(target, (known) => [...first(known), broken])).rejects.toThrow(/syntax/);
      expect(await tables(target)).toEqual([]);
      expect(await migrateWith(target, first)).toHaveLength(3);
      await dispose();
    });

    it("leave nothing behind when killed after the last one", async () => {
      const { target, dispose } = await freshDatabase(backend);
      const child = startChild("child-migrate.ts", { target, killAfter: "create table later" });
      expect(await child.ended).toBe("SIGKILL");
      await expect.poll(() => tables(target)).toEqual([]);
      const store = await openStore(target, EVENTS);
      expect(store.applied).toEqual(loadMigrations(backend).map(({ name }) => name));
      await store.close();
      await dispose();
    });

    it("are applied once when two processes migrate at the same time", async () => {
      const { target, dispose } = await freshDatabase(backend);
      // One process owns a SQLite data dir, so there it is two connections of this process.
      const applied =
        backend === "sqlite"
          ? await Promise.all([migrateWith(target, (known) => known), migrateWith(target, (known) => known)])
          : await inTwoProcesses(target);
      expect(applied.flat()).toEqual(loadMigrations(backend).map(({ name }) => name));
      expect(await rawSql(target, "select version from schema_migrations")).toHaveLength(
        loadMigrations(backend).length,
      );
      await dispose();
    });
  });
}

async function inTwoProcesses(target: DatabaseTarget): Promise<string[][]> {
  const children = [0, 1].map(() => startChild("child-migrate.ts", { target }));
  for (const child of children) expect(await child.line()).toBe("ready");
  for (const child of children) child.say("go");
  const applied = await Promise.all(children.map((child) => child.line()));
  expect(await Promise.all(children.map((child) => child.ended))).toEqual([0, 0]);
  return applied.map((line) => JSON.parse(line) as string[]);
}

describe("migration files", () => {
  it("are numbered without gaps, and each file belongs to a migration", () => {
    const files = readdirSync(new URL("../../../migrations", import.meta.url));
    const known = loadMigrations("sqlite");
    expect(known.map(({ version }) => version)).toEqual(known.map((_, i) => i + 1));
    const expected = new RegExp(`^(${known.map(({ name }) => name).join("|")})(\\.sqlite|\\.postgres)?\\.sql$`);
    for (const file of files) expect(file).toMatch(expected);
  });

  it("have one checksum on both databases", () => {
    const sums = (["sqlite", "postgres"] as const).map((dialect) => loadMigrations(dialect).map((m) => m.checksum));
    expect(sums[0]).toEqual(sums[1]);
  });

  it("expand {placeholders} per dialect and reject unknown ones", () => {
    expect(expand("x {int} {json:meta}", "sqlite")).toBe("x integer check (meta is null or json_valid(meta))");
    expect(expand("x {int} {json:meta}", "postgres")).toBe("x bigint ");
    expect(() => expand("{uuid}", "sqlite")).toThrow("unknown placeholder {uuid}");
  });
});
