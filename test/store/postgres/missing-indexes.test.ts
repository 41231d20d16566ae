// Indexes that are built outside the migration's transaction: beside a backup, and later where another process was
// building or a build was interrupted.
import { describe, expect, it } from "vitest";
import { openStore } from "../../../src/store/database.ts";
import * as locks from "../../../src/store/postgres/advisory-locks.ts";
import { loadMigrations } from "../../../src/store/schema/migrate.ts";
import { freshDatabase, postgresUrl, readyDatabase } from "../../../harness/databases/backends.ts";
import { openRaw, rawSql } from "../../../harness/databases/raw-sql.ts";

const EVENTS = { now: () => 1, fatal: () => {} };

const declared = loadMigrations("postgres").flatMap(({ sql }) =>
  [...sql.matchAll(/^create index concurrently (\w+)/gm)].map(([, name = ""]) => name),
);
const dropped = loadMigrations("postgres").flatMap(({ sql }) =>
  [...sql.matchAll(/^drop index if exists (\w+)/gm)].map(([, name = ""]) => name),
);
const wanted = declared.filter((name) => !dropped.includes(name)).toSorted();

describe("advisory locks", () => {
  it("have a number of their own each", () => {
    const numbers = Object.values(locks).map(String);
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});

describe.skipIf(!postgresUrl)("indexes on PostgreSQL", () => {
  /** Migrates a new database while another session holds a lock. */
  async function openBeside(lock: number) {
    const database = await freshDatabase("postgres");
    const other = await openRaw(database.target);
    await other.all(`select pg_advisory_lock(${lock})`);
    const opened = await openOn(database);
    await other.close();
    return opened;
  }

  async function openOn({ target, dispose }: Awaited<ReturnType<typeof freshDatabase>>) {
    const store = await openStore(target, EVENTS);
    const built = async (): Promise<string[]> => {
      const sql = "select indexrelid::regclass::text as name from pg_index where indisvalid";
      const names = (await rawSql(target, sql)).map(({ name }) => String(name));
      return wanted.filter((name) => names.includes(name));
    };
    const build = (): Promise<string[]> => store.buildIndexes(new AbortController().signal);
    const close = async (): Promise<void> => {
      await store.close();
      await dispose();
    };
    return { store, target, built, build, [Symbol.asyncDispose]: close };
  }

  it("are built by a migration while a backup runs", async () => {
    await using opened = await openBeside(locks.BACKUP_LOCK);
    expect(await opened.built()).toEqual(wanted);
  });

  it("are built later when another process was building at the migration", async () => {
    await using opened = await openBeside(locks.INDEX_LOCK);
    expect(opened.store.applied.length).toBeGreaterThan(0);
    expect(await opened.built()).toEqual([]);
    expect((await opened.build()).toSorted()).toEqual(wanted);
    expect(await opened.built()).toEqual(wanted);
    expect(await opened.build()).toEqual([]);
  });

  it("are built again where a build was interrupted, and the others are left alone", async () => {
    await using opened = await openOn(await readyDatabase("postgres"));
    const [name = ""] = wanted;
    await rawSql(opened.target, `update pg_index set indisvalid = false where indexrelid = '${name}'::regclass`);
    expect(await opened.build()).toEqual([name]);
    expect(await opened.built()).toEqual(wanted);
  });

  it("are not built while another process builds them", async () => {
    await using opened = await openBeside(locks.INDEX_LOCK);
    const other = await openRaw(opened.target);
    await other.all(`select pg_advisory_lock(${locks.INDEX_LOCK})`);
    expect(await opened.build()).toEqual([]);
    expect(await opened.built()).toEqual([]);
    await other.close();
  });

  // A process of the older version may lead while a newer one migrates, which may drop an index.
  it("are left alone where a newer version has migrated the database", async () => {
    await using opened = await openOn(await readyDatabase("postgres"));
    const [name = "", ...others] = wanted;
    const newer = "insert into schema_migrations values (9999, '9999_newer', '', 1)";
    await rawSql(opened.target, `drop index ${name}; ${newer}`);
    expect(await opened.build()).toEqual([]);
    expect(await opened.built()).toEqual(others);
    await rawSql(opened.target, "delete from schema_migrations where version = 9999");
    expect(await opened.build()).toEqual([name]);
  });
});
