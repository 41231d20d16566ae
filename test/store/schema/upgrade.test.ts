// Upgrades: a database of every past schema keeps all its rows, or stays exactly as it was.
import { existsSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { startInstance } from "../../../src/server/start.ts";
import { loadSettings } from "../../../src/config/load.ts";
import { createLog } from "../../../src/platform/log.ts";
import { checksumRows, type TableChecksums } from "../../../src/store/offline/copy.ts";
import { openCopySource } from "../../../src/store/offline/copy-source.ts";
import { openStore } from "../../../src/store/database.ts";
import type { DatabaseTarget } from "../../../src/store/target.ts";
import { inspect } from "../../../src/store/offline/thread-tasks.ts";
import { loadMigrations, schemaVersion } from "../../../src/store/schema/migrate.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { openSchemaFixture, SCHEMA_FIXTURES, schemaFixtureName } from "../../../harness/databases/schema-fixture.ts";
import { startChild } from "../../../harness/processes/child.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { IS_NIGHT } from "../../../harness/rounds.ts";

const EVENTS = { now: Date.now, fatal: () => {} };
const versions = loadMigrations("sqlite").map(({ version }) => version);
const newest = schemaVersion();
const laterThan = (version: number): number => versions.filter((each) => each > version).length;
const quiet = (): void => {};

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
    expect(readdirSync(SCHEMA_FIXTURES)).toEqual(versions.map(schemaFixtureName));
  });
});

/** Each upgrade runs every later migration: the oldest, the newest two and some between, at night all. */
const EVERY = IS_NIGHT ? 1 : 15;
const isTested = ({ version }: { version: number }): boolean =>
  version % EVERY === 1 % EVERY || laterThan(version) <= 1;

for (const backend of runBackends) {
  describe(`upgrades on ${backend}`, () => {
    for (const { version } of loadMigrations(backend).filter(isTested)) {
      it(`a database of schema ${version} keeps every row, and its chains verify`, async () => {
        await using old = await openSchemaFixture(backend, version);
        const before = await checksums(old.target);
        expect(before.audit_log?.rows).toBeGreaterThan(20);
        const store = await openStore(old.target, EVENTS);
        expect(store.applied).toHaveLength(laterThan(version));
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
      await using old = await openSchemaFixture(backend, 1);
      const database_url = old.target.kind === "sqlite" ? `sqlite:${old.target.file}` : old.target.url;
      const flags = { data_dir: old.dir, port: "0", backup_every: "off", restore_test_every: "off", database_url };
      const { settings } = loadSettings({ env: {}, flags, cwd: old.dir });
      const app = await startInstance({ settings, log: createLog({ level: "error" }) });
      expect((await fetch(`${app.url}/readyz`)).status).toBe(200);
      await app.stop();
      expect((await inspect(old.target)).findings).toEqual([]);
    });

    it("a killed upgrade leaves the old schema with every row, and the next one succeeds", async () => {
      await using old = await openSchemaFixture(backend, 2);
      const before = await checksums(old.target);
      const child = startChild("child-migrate.ts", { target: old.target, killAfter: "create table later" });
      expect(await child.ended).toBe("SIGKILL");
      // PostgreSQL detects a dead client with a delay.
      await expect.poll(() => checksums(old.target)).toEqual(before);
      const store = await openStore(old.target, EVENTS);
      expect(store.applied).toHaveLength(laterThan(2));
      await store.close();
    });

    it("a database of a newer schema is refused and left unchanged", async () => {
      await using old = await openSchemaFixture(backend, newest);
      await rawSql(old.target, "insert into schema_migrations values (9001, '9001_later', 'x', 1)");
      const before = await checksums(old.target);
      await expect(openStore(old.target, EVENTS)).rejects.toThrow(/newer than this version.*or restore a backup/);
      expect(await checksums(old.target)).toEqual(before);
      if (old.target.kind === "sqlite") expect(existsSync(`${old.target.file}-journal`)).toBe(false);
    });
  });
}
