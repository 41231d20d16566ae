// Upgrades: a database of every past schema keeps all its rows, or stays exactly as it was.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { startInstance } from "../../../src/server/start.ts";
import { loadSettings } from "../../../src/config/load.ts";
import { createLog } from "../../../src/platform/log.ts";
import { copyRows, checksumRows, type TableChecksums } from "../../../src/store/offline/copy.ts";
import { openCopySource } from "../../../src/store/offline/copy-source.ts";
import { openCopySink } from "../../../src/store/offline/copy-sink.ts";
import { openStore } from "../../../src/store/database.ts";
import type { DatabaseTarget } from "../../../src/store/target.ts";
import { inspect } from "../../../src/store/offline/inspect.ts";
import { loadMigrations, migrate } from "../../../src/store/schema/migrate.ts";
import { PostgresDriver } from "../../../src/store/postgres/driver.ts";
import { FIXTURE_MASTER_KEY } from "../../../tools/fixtures.ts";
import { backends, freshDatabase, type Backend } from "../../../harness/databases/backends.ts";
import { startChild } from "../../../harness/processes/child.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";

const folder = fileURLToPath(new URL("../../../harness/fixtures", import.meta.url));
const nameOf = (version: number): string => `schema-${String(version).padStart(4, "0")}.db.gz`;
const EVENTS = { now: Date.now, fatal: () => {} };
const newest = loadMigrations("sqlite").length;
const quiet = (): void => {};

type Fixture = AsyncDisposable & { target: DatabaseTarget; dir: string };

/** On SQLite the fixture itself; on PostgreSQL its rows in tables created by the same migrations. */
async function fixture(back: Backend, version: number): Promise<Fixture> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  const file = join(dir, "keyrack.db");
  writeFileSync(file, gunzipSync(readFileSync(join(folder, nameOf(version)))), { mode: 0o600 });
  writeFileSync(join(dir, "master.key"), FIXTURE_MASTER_KEY, { mode: 0o600 });
  const fresh = back === "postgres" ? await freshDatabase(back) : null;
  if (fresh?.target.kind === "postgres") await loadPostgres(fresh.target, file, version);
  return {
    dir,
    target: fresh?.target ?? { kind: "sqlite", file },
    async [Symbol.asyncDispose]() {
      await fresh?.dispose();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function loadPostgres(target: DatabaseTarget & { kind: "postgres" }, file: string, version: number) {
  const driver = new PostgresDriver(target.url, 1);
  await driver.open();
  const past = loadMigrations("postgres").filter((each) => each.version <= version);
  await migrate(driver, (sql) => driver.execScript(sql), 1, past);
  await driver.close();
  const source = await openCopySource({ kind: "sqlite", file });
  const sink = await openCopySink(target);
  await copyRows(source, sink, quiet);
  await sink.end("commit");
  await source.close();
}

async function checksums(target: DatabaseTarget): Promise<TableChecksums> {
  const source = await openCopySource(target);
  try {
    return await checksumRows(source, quiet);
  } finally {
    await source.close();
  }
}

describe("fixtures", () => {
  it("exist for every migration (npm run fixtures creates the missing one)", () => {
    expect(readdirSync(folder)).toEqual(loadMigrations("sqlite").map(({ version }) => nameOf(version)));
  });
});

for (const back of backends) {
  describe(`upgrades on ${back}`, () => {
    for (const { version } of loadMigrations(back)) {
      it(`a database of schema ${version} keeps every row, and its chains verify`, async () => {
        await using old = await fixture(back, version);
        const before = await checksums(old.target);
        expect(before.audit_log?.rows).toBeGreaterThan(20);
        const store = await openStore(old.target, EVENTS);
        expect(store.applied).toHaveLength(newest - version);
        await store.close();
        const after = await checksums(old.target);
        // Changed columns change a table's checksum, so only rows are counted.
        for (const [table, { rows }] of Object.entries(before)) expect(after[table]?.rows, table).toBe(rows);
        expect(after.audit_log).toEqual(before.audit_log);
        expect((await inspect(old.target)).findings).toEqual([]);
        expect(await rawSql(old.target, "select origin from embed_origins order by origin")).toEqual([
          { origin: "https://first.example.com" },
          { origin: "https://second.example.com" },
        ]);
      });
    }

    it("a server starts on the oldest schema with its master key, and its chains verify", async () => {
      await using old = await fixture(back, 1);
      const database_url = old.target.kind === "sqlite" ? `sqlite:${old.target.file}` : old.target.url;
      const flags = { data_dir: old.dir, port: "0", backup_every: "off", restore_test_every: "off", database_url };
      const { settings } = loadSettings({ env: {}, flags, cwd: old.dir });
      const app = await startInstance({ settings, log: createLog({ level: "error" }) });
      expect((await fetch(`${app.url}/readyz`)).status).toBe(200);
      await app.stop();
      expect((await inspect(old.target)).findings).toEqual([]);
    });

    it("a killed upgrade leaves the old schema with every row, and the next one succeeds", async () => {
      await using old = await fixture(back, 2);
      const before = await checksums(old.target);
      const child = startChild("child-migrate.ts", { target: old.target, killAfter: "create table later" });
      expect(await child.ended).toBe("SIGKILL");
      // PostgreSQL detects a dead client with a delay.
      await expect.poll(() => checksums(old.target)).toEqual(before);
      const store = await openStore(old.target, EVENTS);
      expect(store.applied).toHaveLength(newest - 2);
      await store.close();
    });

    it("a database of a newer schema is refused and left unchanged", async () => {
      await using old = await fixture(back, newest);
      await rawSql(old.target, "insert into schema_migrations values (9001, '9001_later', 'x', 1)");
      const before = await checksums(old.target);
      await expect(openStore(old.target, EVENTS)).rejects.toThrow(/newer than this version.*or restore a backup/);
      expect(await checksums(old.target)).toEqual(before);
      if (old.target.kind === "sqlite") expect(existsSync(`${old.target.file}-journal`)).toBe(false);
    });
  });
}
